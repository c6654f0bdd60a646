package front

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Deps holds the parts that a front calls.
type Deps struct {
	Access     Access // who may use the interfaces; nil: everyone may do everything
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Front is the part that the interfaces of a node share. Any goroutine may call its methods.
type Front struct {
	Memory *Memory // memory of requests and responses

	access  Access
	guard   guard
	log     *slog.Logger
	metrics *metrics
	lasting atomic.Int64 // bytes of running requests of HTTP/2 that may last

	stopping context.Context //nolint:containedctx // context that ends when the server begins to drain
	stop     context.CancelFunc
}

// New returns a front. It starts no goroutine.
func New(cfg Config, deps Deps) (*Front, error) {
	if deps.Access == nil {
		deps.Access = openAccess{}
	}
	memory := newMemory(cfg)
	m, err := newMetrics(deps.Registerer, memory)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	f := &Front{Memory: memory, access: deps.Access, guard: newGuard(cfg), log: deps.Log, metrics: m}
	f.stopping, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// Stop makes streams end, because the server stops.
func (f *Front) Stop() { f.stop() }

// Stopping returns a context that ends with the first call of Stop.
func (f *Front) Stopping() context.Context { return f.stopping }

// Procedure is a remote procedure of one interface that the server of another one serves on its port.
type Procedure struct {
	Name      string // name in metrics
	Path      string // path of its POST requests
	Need      Need   // what the caller must be allowed. Handler asks Cover for the application
	BodyBytes int    // most bytes of a request's body, which is read before Handler is called; 0: Handler reads a stream
	Batch     bool   // the memory of the body counts as memory of a batch
	Handler   http.Handler
	// Refuse writes the response to a request that Handler does not see, or whose Handler has panicked.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, e *clock.Error)
}

// Cover returns a clock.ErrForbidden unless the caller of the request may use the application.
func Cover(r *http.Request, application string) error {
	return about(application, CallerOf(r).Cover(application))
}

// CoverNamed is Cover for a request that may name no application. One that names none passes.
func CoverNamed(r *http.Request, application string) error {
	if application == "" {
		return nil
	}
	return Cover(r, application)
}

// Spend counts further operations of a request, of which one is counted already. It returns a clock.ErrLimited if they
// are too many.
func Spend(r *http.Request, operations int) error { return CallerOf(r).Spend(operations) }

// Refusal returns the status and the details of a request's failure. It counts the failure, and logs it if it is
// unexpected.
func (f *Front) Refusal(r *http.Request, err error) (status int, e *clock.Error) {
	p := ProblemOf(err)
	f.Note(r, p)
	return p.Status, &clock.Error{Code: p.Code, Field: p.Field, Detail: p.Detail, Alarm: p.Alarm,
		RetryAfter: p.RetryAfter}
}

// ItemRefusal is Refusal for an item of a batch in this form, which it counts. A nil err is an applied item.
func (f *Front) ItemRefusal(r *http.Request, form string, err error) (status int, e *clock.Error) {
	status = http.StatusOK
	if err != nil {
		status, e = f.Refusal(r, err)
	}
	f.CountItem(form, status)
	return status, e
}

// Cut counts a stream that ends because a write has failed.
func (f *Front) Cut(r *http.Request, err error) {
	f.Note(r, &Problem{Status: http.StatusRequestTimeout, Code: CodeStreamCut,
		Detail: "the stream could not be written: " + err.Error()})
}

// Recovered calls a handler and turns its panic into an error.
func Recovered(handle func() error) (err error) {
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares the value itself
			panic(v)
		}
		if v != nil {
			err = Panicked(v)
		}
	}()
	return handle()
}

// Panicked returns the error of a caught panic. Call it in the function that has recovered the value.
func Panicked(value any) error { return &panicError{value: value, stack: debug.Stack()} }
