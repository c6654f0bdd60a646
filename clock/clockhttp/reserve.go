package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// Pulls gives rings to workers that reserve them.
type Pulls interface {
	// Reserve waits for up to that many rings of an application, until ctx ends. ok is false if none came. Else the
	// caller must write the rings and call Delivery.Done.
	Reserve(ctx context.Context, application string, rings int) (d clock.Delivery, ok bool)
}

// Bounds and defaults of a reserve.
const (
	maxReserveCount    = 64
	defaultReserveWait = 20 * time.Second
	minReserveWait     = 100 * time.Millisecond // time for a claim
	maxReserveWait     = time.Minute
)

// errClientLeft is the reason of rings that were ready for a client that has left.
var errClientLeft = errors.New("the worker has left")

// reserve waits for rings of an application whose target is pull, and responds with them. The response has no rings if
// none came in time.
func (s *Server) reserve(c echo.Context) error {
	app, err := applicationOf(c)
	if err != nil {
		return err
	}
	count, wait, err := s.readReserve(c)
	if err != nil {
		return err
	}
	if err := s.pulledElsewhere(app); err != nil {
		return err
	}
	client := c.Request().Context()
	if err := front.FindVanished(c.Request()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(client, wait)
	defer cancel()
	defer context.AfterFunc(s.front.Stopping(), cancel)()
	d, ok := s.pulls.Reserve(ctx, app, count)
	if !ok {
		return s.respondJSON(c, http.StatusOK, []byte(`{"rings":[]}`))
	}
	return s.respondRings(c, &d)
}

// readReserve reads the body of a reserve, which may be empty.
func (s *Server) readReserve(c echo.Context) (count int, wait time.Duration, err error) {
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return 0, 0, err
	}
	defer b.release()
	count, wait = 1, defaultReserveWait
	err = decodeOptional(b.bytes, []string{"count", "wait"}, func(name string, raw []byte) error {
		if name == "wait" {
			return decodeDuration(raw, name, &wait)
		}
		return decodeInt(raw, name, &count)
	})
	switch {
	case err != nil:
	case count < 1 || count > maxReserveCount:
		err = clock.Invalid(clock.CodeOutOfRange, "count", fmt.Sprintf("count must be from 1 to %d", maxReserveCount))
	case wait < minReserveWait || wait > maxReserveWait:
		err = clock.Invalid(clock.CodeOutOfRange, "wait",
			fmt.Sprintf("wait must be from %s to %s", minReserveWait, maxReserveWait))
	}
	return count, wait, err
}

// pulledElsewhere returns an error if the application's rings cannot go to the target pull.
func (s *Server) pulledElsewhere(app string) error {
	if s.settings == nil || s.pulls == nil {
		return absentPart("this server gives no rings to reserves")
	}
	switch applied := s.settings.Applied(app); {
	case applied.Reservable:
		return nil
	case applied.Target == clock.NoTarget:
		return unknownTarget(app)
	default:
		return &front.Problem{
			Status: http.StatusConflict, Code: codeRingsElsewhere,
			Detail: fmt.Sprintf("the application's target is %s. To let workers reserve its rings: clockd application set %s --target pull", applied.Target, app),
		}
	}
}

// respondRings writes the rings in one response, and reports the result to Delivery.Done. When the client has left, or
// the time limit of the rings has passed, it writes none.
func (s *Server) respondRings(c echo.Context, d *clock.Delivery) error {
	client := c.Request().Context()
	w := &reserveWriter{ringResponse: s.newRingResponse(c), header: c.Response().Header()}
	switch err := s.deliver(client, w, d); {
	case err != nil:
		return w.result(err)
	case c.Response().Committed:
		return nil
	default:
		return s.respondJSON(c, http.StatusOK, []byte(`{"rings":[]}`))
	}
}

// deliver writes the rings of a reserve, or reports that its client has left.
func (s *Server) deliver(client context.Context, w *reserveWriter, d *clock.Delivery) error {
	select {
	case <-client.Done():
		d.Done(0, 0, errClientLeft)
		return nil
	default:
		return ringstream.Deliver(client, w, s.cfg.WriteTimeout, d)
	}
}

var _ ringstream.Writer = (*reserveWriter)(nil)

// reserveWriter writes all rings of a reserve as one JSON object.
type reserveWriter struct {
	*ringResponse
	header http.Header
}

// Write writes the response.
func (w *reserveWriter) Write(rings []clock.Ring) (n int, err error) {
	b := appendList([]byte(`{"rings":`), rings, func(r *clock.Ring, b []byte) []byte { return appendRing(b, r) })
	b = append(b, "}\n"...)
	w.header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w.header.Set(echo.HeaderCacheControl, "no-store")
	if w.request.ProtoMajor == 1 { // on HTTP/2 a beat may follow
		w.header.Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	}
	if err = w.flush(b); errors.Is(err, ringstream.ErrTooLate) {
		w.header.Del(echo.HeaderContentLength)
	}
	return len(rings), err
}

// Beat writes an empty line after the JSON object. Readers of JSON ignore it.
func (w *reserveWriter) Beat() error { return w.flush([]byte("\n")) }
