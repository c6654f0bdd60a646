package clockhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

// Procedure is a remote procedure that the server serves beside its own routes. The guard, the limits of connections
// and bodies, and the metrics hold for it too.
type Procedure struct {
	Name      string      // name in metrics
	Path      string      // path of its POST requests
	Need      access.Need // what the caller's role must allow. Handler asks Server.Authorize for the application
	Public    bool        // everyone may call it, under any server name
	BodyBytes int         // most bytes of a request's body, which is read before Handler is called; 0: Handler reads a stream
	Batch     bool        // the memory of the body counts as memory of a batch
	Lasting   bool        // a call may last, so its duration is not measured
	Handler   http.Handler
	// Refuse writes the response to a request that Handler does not see, or whose Handler has panicked.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, e *clock.Error)
}

// Mount adds a procedure. Call it before Run.
func (s *Server) Mount(p Procedure) {
	s.echo.POST(p.Path, s.handler(&route{
		name: p.Name, method: http.MethodPost, path: p.Path, need: p.Need, public: p.Public, lasting: p.Lasting,
		handle: s.call(&p), refuse: p.Refuse,
	}))
}

// call returns the handler of a procedure. It holds the memory of the body until the response is written, because the
// response may repeat a payload.
func (s *Server) call(p *Procedure) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if p.Lasting {
			defer s.metrics.open(c, p.Name)()
			if err := s.findVanished(r); err != nil {
				return err
			}
		}
		if p.BodyBytes == 0 {
			from := s.streamBody(c)
			from.end = s.bodiesEnd
			defer s.cutsWhenStopping(from)()
			r.Body = io.NopCloser(from)
			p.Handler.ServeHTTP(errorFlusher{c.Response()}, r)
			return nil
		}
		large := largeBodies
		if p.Batch {
			large = batchBodies
		}
		b, err := s.readBody(c, p.BodyBytes, large)
		if err != nil {
			return err
		}
		defer b.release()
		r.Body = io.NopCloser(bytes.NewReader(b.bytes))
		p.Handler.ServeHTTP(errorFlusher{c.Response()}, r)
		return nil
	}
}

// errorFlusher is a response whose flush reports errors. echo drops them.
type errorFlusher struct{ *echo.Response }

// FlushError sends the bytes written so far to the client.
func (f errorFlusher) FlushError() error {
	if !f.Committed {
		f.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(f.Writer).Flush()
}

// findVanished makes the kernel end the connection of a lasting response when its remote host vanishes. On HTTP/2 the
// server's pings do so.
func (s *Server) findVanished(r *http.Request) error {
	conn, ok := r.Context().Value(connKey{}).(*limitedConn)
	if !ok || r.ProtoMajor > 1 {
		return nil
	}
	if err := findVanished(conn.TCPConn); err != nil {
		return fmt.Errorf("set the connection's limits: %w", err)
	}
	return nil
}

// refuse responds to a request whose procedure has not responded. It cuts the stream if the response has already begun.
func (s *Server) refuse(c echo.Context, err error, write func(http.ResponseWriter, *http.Request, int, *clock.Error)) {
	status, e := s.Refusal(c.Request(), err)
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	s.limitWrite(c, time.Now().Add(s.cfg.WriteTimeout))
	write(c.Response(), c.Request(), status, e)
}

// Refusal returns the status and the details of a request's failure. It counts the failure, and logs it if it is
// unexpected.
func (s *Server) Refusal(r *http.Request, err error) (status int, e *clock.Error) {
	p := problemOf(err)
	s.note(r, p)
	return p.Status, &clock.Error{Code: p.Code, Field: p.Field, Detail: p.Detail, Alarm: p.Alarm,
		RetryAfter: p.RetryAfter}
}

// RingsElsewhere returns an error that says where the application's rings go, if they do not go to subscribers.
func (s *Server) RingsElsewhere(application string) error { return s.ringsElsewhere(application) }

// BatchFailure returns the error of a whole batch, nil unless an item failed for the server's reasons. errs has the
// errors of all items, nil for applied ones.
func (s *Server) BatchFailure(errs []error) error {
	problems := make([]*problem, len(errs))
	for i, err := range errs {
		if err != nil {
			problems[i] = problemOf(err)
		}
	}
	if whole := wholeProblem(problems); whole != nil {
		return whole
	}
	return nil
}

// ItemRefusal is Refusal for an item of a batch. A nil err counts an applied item.
func (s *Server) ItemRefusal(r *http.Request, err error) (status int, e *clock.Error) {
	status = http.StatusOK
	if err != nil {
		status, e = s.Refusal(r, err)
	}
	s.metrics.countItem("rpc", status)
	return status, e
}

// Cut counts a stream that ends because a write has failed.
func (s *Server) Cut(r *http.Request, err error) {
	s.note(r,
		&problem{Status: http.StatusRequestTimeout, Code: codeStreamCut,
			Detail: "the stream could not be written: " + err.Error()})
}

// Ready reports whether /readyz is 200.
func (s *Server) Ready() bool {
	r := s.readyNow()
	return r.Ready
}

// Stopping returns a channel that is closed when the server begins to drain.
func (s *Server) Stopping() <-chan struct{} { return s.stopping.Done() }

// TakeMemory takes memory for a response and returns true, or takes none and returns false. Give it back with
// GiveMemory.
func (s *Server) TakeMemory(n int64) bool { return s.memory.take(responses, n) }

// ForceMemory is TakeMemory for a response that must not fail, because it is about a committed change or is a ring.
func (s *Server) ForceMemory(n int64) { s.memory.force(responses, n) }

// GiveMemory gives memory of responses back.
func (s *Server) GiveMemory(n int64) { s.memory.give(responses, n) }

// ResetOnClose makes the close of the request's connection drop the bytes that the client has not taken. It does
// nothing on HTTP/2, where other requests share the connection.
func (s *Server) ResetOnClose(r *http.Request) { resetOnClose(r) }
