package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// writeMargin is the time before ring.Limits.WriteBy at which a request that is not written is cancelled. So a connection that several rings
// share does not fail because of a single application.
const writeMargin = 20 * time.Millisecond

var (
	errNotWritten = errors.New("the request was not written in time")
	errNoReply    = errors.New("no reply in time")
	errEnded      = errors.New("the wait for the reply was ended")
	errRead       = errors.New("the response was read")
)

// call is one request of a ring.
type call struct {
	target   *Target
	receiver *receiver
	sender   *sender
	request  *http.Request
	body     *requestBody
	write    ringWrite
	cancel   context.CancelCauseFunc
}

// newCall returns the call of a ring. It ends with the target, or by cancel. The error says why the ring cannot be a request.
func newCall(t *Target, r *receiver, s *sender, rung *clock.Ring, limits ring.Limits) (*call, error) {
	c := &call{target: t, receiver: r, sender: s, write: ringWrite{limits: limits}}
	ctx, cancel := context.WithCancelCause(t.ctx)
	c.cancel = cancel
	var err error
	c.request, c.body, err = s.request(httptrace.WithClientTrace(ctx, c.trace()), rung)
	if err != nil {
		c.cancel(err)
	}
	return c, err
}

// trace follows the write of the request. GotConn comes before any byte of it, and again when the client tries another connection.
func (c *call) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:          func(info httptrace.GotConnInfo) { c.write.use(info.Conn) },
		WroteHeaderField: func(string, []string) { c.write.start() },
		WroteRequest:     func(info httptrace.WroteRequestInfo) { c.write.finish(info.Err) },
	}
}

// run sends the request and reports its outcome. It returns when nothing more is to be read.
func (c *call) run(report func(clock.Outcome)) {
	began := time.Now()
	defer c.cancel(errRead)
	timeout := time.AfterFunc(c.sender.endpoint.Timeout, func() { c.cancel(errNoReply) })
	defer timeout.Stop()
	writeLimit := time.AfterFunc(time.Until(c.write.limits.WriteBy)-writeMargin, func() {
		if c.body.drop(); !c.write.wasWritten() {
			c.cancel(errNotWritten)
		}
	})
	defer writeLimit.Stop()
	res, err := c.target.transport.RoundTrip(c.request)
	defer c.write.end() // a receiver may answer before it has the whole request
	timeout.Stop()
	if err != nil {
		report(c.outcomeWithoutReply(err))
		c.target.metrics.noReply()
		return
	}
	c.target.metrics.replied(res.StatusCode, time.Since(began))
	stopReading := func() { c.cancel(errRead) }
	if isSuccess(res.StatusCode) { // the body is read only to keep the connection
		report(outcomeOf(res, nil, time.Now()))
		readBody(res, stopReading)
		return
	}
	report(outcomeOf(res, readBody(res, stopReading), time.Now()))
}

// outcomeWithoutReply returns the outcome of a request that failed with err.
func (c *call) outcomeWithoutReply(err error) clock.Outcome {
	cause := context.Cause(c.request.Context())
	if c.write.begun.Load() > 0 {
		return c.inDoubt(err, cause)
	}
	failed := c.target.dials.last(c.sender.address)
	switch {
	case errors.Is(cause, errNotWritten) && !c.write.connected() && failed != nil:
		return clock.Outcome{Kind: clock.Returned, Reason: "cannot connect: " + reasonOf(failed)}
	case cause != nil || errors.Is(err, errTooLate):
		return clock.Outcome{Kind: clock.Untaken, Reason: "the receiver did not take the request in time"}
	}
	return clock.Outcome{Kind: clock.Returned, Reason: "cannot connect: " + reasonOf(err)}
}

// inDoubt returns the outcome of a request that the receiver may have got. It counts, unless the wait for the reply was ended early.
func (c *call) inDoubt(err, cause error) clock.Outcome {
	o := clock.Outcome{Kind: clock.Doubtful, Counted: true, Reason: "the request was sent, and the connection ended without a reply: " + reasonOf(err)}
	switch {
	case errors.Is(cause, errNoReply):
		o.Reason = fmt.Sprintf("the request was sent, and there was no reply within %s", c.sender.endpoint.Timeout)
	case errors.Is(cause, errNotWritten), errors.Is(err, errTooLate), errors.Is(err, os.ErrDeadlineExceeded):
		o.Reason = "the receiver did not take the whole request in time"
	case cause != nil:
		o.Reason, o.Counted = errEnded.Error(), false
	}
	return o
}
