package httpcall

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"os"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// writeMargin is the time before ring.Limits.WriteBy at which a request that is not written is cancelled. So a
// connection that several rings share does not fail because of a single application.
const writeMargin = 20 * time.Millisecond

// callEnd is why a call ended its request.
type callEnd string

func (e callEnd) Error() string { return string(e) }

const (
	errNotWritten = callEnd("the request was not written in time")
	errNoReply    = callEnd("no reply in time")
	errEnded      = callEnd("the wait for the reply was ended")
	errCrowded    = callEnd("too many replies are late")
	errRepeat     = callEnd("the request may have arrived, and is not repeated")
	errRead       = callEnd("the response was read")
)

// Exchange is the request of one ring and its reply.
type Exchange interface {
	// Do sends the request, and returns when nothing more is to be read. It calls Call.Replied and then Call.Report
	// once, or it returns the reason why there is no reply. When the context of the call ends, it returns soon.
	Do(c *Call) error
	// Size returns the bytes of the request's body.
	Size() int
	// Drop forgets what needs much memory. It is called when no further byte of the request may be written.
	Drop()
	// Secrets returns the texts of the request that no reason may repeat; see Redact.
	Secrets() []string
}

// Call is one Exchange under way.
type Call struct {
	target   *Target
	sender   Sender
	exchange Exchange
	passage  passage
	write    RequestWrite
	ctx      context.Context //nolint:containedctx // of this request alone
	cancel   context.CancelCauseFunc
	began    time.Time
	timeout  *time.Timer
	replied  bool // the reply has come; used by the goroutine of run
	report   func(clock.Outcome)
}

// newCall returns the call of a ring. It ends with the target, or by cancel. The error says why the ring cannot be a
// request.
func newCall(t *Target, s Sender, rung *clock.Ring, limits ring.Limits) (*Call, error) {
	c := &Call{target: t, sender: s, write: RequestWrite{limits: limits}}
	var err error
	if c.exchange, err = s.NewExchange(rung); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	c.ctx, c.cancel = httptrace.WithClientTrace(ctx, c.write.trace()), cancel
	if rung.Delivery == clock.AtMostOnce {
		c.write.onRepeat = func() { cancel(errRepeat) } // the HTTP client writes nothing for a context that has ended
	}
	return c, nil
}

// Context returns the context of the request. It ends when the call ends. It follows the write of a request by
// net/http.
func (c *Call) Context() context.Context { return c.ctx }

// Transport returns the HTTP client of the request.
func (c *Call) Transport() Transport { return c.passage.transport }

// Write returns the write of the request.
func (c *Call) Write() *RequestWrite { return &c.write }

// TimeLeft returns the time until the timeout of the request.
func (c *Call) TimeLeft() time.Duration { return max(0, c.sender.Timeout()-time.Since(c.began)) }

// Replied says that the reply has come. Its timeout is over. class is a value of the metric's label.
func (c *Call) Replied(class string) {
	c.timeout.Stop()
	c.replied = true
	c.target.metrics.replied(class, time.Since(c.began))
}

// Report reports the outcome, without the secrets of the request in its reason.
func (c *Call) Report(o clock.Outcome) { c.report(o) }

// StopReading ends the request, because nothing more is to be read.
func (c *Call) StopReading() { c.cancel(errRead) }

// run sends the request and reports its outcome. It returns when nothing more is to be read.
func (c *Call) run(report func(clock.Outcome)) {
	c.began = time.Now()
	c.report = func(o clock.Outcome) {
		if o.Reason != "" {
			o.Reason = Cut(Redact(o.Reason, c.exchange.Secrets()))
		}
		report(o)
	}
	c.passage = c.target.clients.take(c.sender.Address(), c.exchange.Size())
	defer c.target.clients.free(c.passage)
	defer c.cancel(errRead)
	c.timeout = time.AfterFunc(c.sender.Timeout(), func() { c.cancel(errNoReply) })
	defer c.timeout.Stop()
	writeLimit := time.AfterFunc(time.Until(c.write.limits.WriteBy)-writeMargin, func() {
		if c.exchange.Drop(); !c.write.WasWritten() {
			c.cancel(errNotWritten)
		}
	})
	defer writeLimit.Stop()
	defer c.write.leave() // a receiver may answer before it has the whole request
	if err := c.exchange.Do(c); err != nil {
		c.report(c.outcomeWithoutReply(err))
		c.target.metrics.noReply()
	}
}

// outcomeWithoutReply returns the outcome of a request that failed with err.
func (c *Call) outcomeWithoutReply(err error) clock.Outcome {
	cause := context.Cause(c.ctx)
	if c.write.begun.Load() > 0 {
		return c.inDoubt(err, cause)
	}
	failed := c.target.dials.last(c.sender.Address())
	switch {
	case errors.Is(cause, errNotWritten) && !c.write.connected() && failed != nil:
		return clock.Outcome{Kind: clock.Returned, Reason: "cannot connect: " + ReasonOf(failed)}
	case cause != nil || errors.Is(err, ErrTooLate):
		return clock.Outcome{Kind: clock.Untaken, Reason: "the receiver did not take the request in time"}
	case errors.As(err, new(callEnd)): // net/http frees a connection when the reply begins, and closes it if the request with that reply ends then
		return clock.Outcome{Kind: clock.Untaken, Reason: "the connection ended with the request before"}
	}
	return clock.Outcome{Kind: clock.Returned, Reason: "cannot connect: " + ReasonOf(err)}
}

// inDoubt returns the outcome of a request that the receiver may have got. It counts, unless the wait for the reply was
// ended early.
func (c *Call) inDoubt(err, cause error) clock.Outcome {
	o := clock.Outcome{Kind: clock.Doubtful, Counted: true,
		Reason: "the request was sent, and the connection ended without a reply: " + ReasonOf(err)}
	switch {
	case errors.Is(cause, errNoReply):
		o.Reason = fmt.Sprintf("the request was sent, and there was no reply within %s", c.sender.Timeout())
	case errors.Is(cause, errNotWritten), errors.Is(err, ErrTooLate), errors.Is(err, os.ErrDeadlineExceeded):
		o.Reason = "the receiver did not take the whole request in time"
	case errors.Is(cause, errRepeat):
		o.Reason = "the request was sent, and the receiver ended it without a reply"
	case errors.Is(cause, errCrowded):
		o.Reason, o.Counted = "the request was sent, and clockd ended its wait early: "+errCrowded.Error(), false
	case cause != nil:
		o.Reason, o.Counted = errEnded.Error(), false
	}
	o.Reason = Cut(o.Reason)
	return o
}
