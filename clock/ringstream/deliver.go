package ringstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// Writer writes the response to one client. Each of its writes has a deadline.
type Writer interface {
	// Write writes and flushes the first of the rings, at least one, and returns their number. With the error
	// ErrTooLate no byte of them was written; with any other error they are in doubt.
	Write(rings []clock.Ring) (n int, err error)
	// Beat writes and flushes something without rings. It shows both sides that the connection works.
	Beat() error
	// Flushed returns a mark of the bytes that earlier calls have flushed.
	Flushed() clock.Flushed
	// EndWith makes writes fail when ctx ends, until release is called. A nil ctx never ends.
	EndWith(ctx context.Context) (release func())
}

var (
	// ErrTooLate is the reason of rings whose time limit has passed.
	ErrTooLate = errors.New("the time to write the ring was over")
	// ErrUnwritten is the reason of rings that a panic has left unwritten.
	ErrUnwritten = errors.New("the rings were not written to the end")
)

// Deliver writes the rings of a delivery, and reports the result to Delivery.Done. timeout is the longest wait until
// the kernel has the bytes that were flushed. Deliver returns an error if nothing more can be written to the client.
func Deliver(client context.Context, w Writer, timeout time.Duration, d *clock.Delivery) error {
	p := progress{delivery: d, writer: w}
	reason := ErrUnwritten
	defer func() { d.Done(p.written(), p.begun, reason) }()
	if reason = p.write(); reason != nil && !errors.Is(reason, ErrTooLate) {
		return reason
	}
	err := p.confirm(client, timeout)
	if err != nil {
		reason = err
	}
	if p.ended() {
		return nil
	}
	return err
}

// progress counts the written rings of a delivery.
type progress struct {
	delivery *clock.Delivery
	writer   Writer
	begun    int // rings of which a byte may have been written
	flushed  []flushedRings
}

// flushedRings are the rings of a delivery up to the end of a flush.
type flushedRings struct {
	count int
	mark  clock.Flushed
}

// write writes the rings until it is too late for them.
func (p *progress) write() error {
	d := p.delivery
	defer p.writer.EndWith(d.Context)()
	for p.begun < len(d.Rings) {
		if d.TooLateToWrite != nil && d.TooLateToWrite() || p.ended() {
			return ErrTooLate
		}
		before := p.begun
		p.begun = len(d.Rings) // if Write panics
		n, err := p.writer.Write(d.Rings[before:])
		if p.begun = before + n; errors.Is(err, ErrTooLate) {
			p.begun = before
		}
		if err != nil {
			return err
		}
		p.flushed = append(p.flushed, flushedRings{p.begun, p.writer.Flushed()})
	}
	return nil
}

// ended reports whether the delivery's context has ended.
func (p *progress) ended() bool { return p.delivery.Context != nil && p.delivery.Context.Err() != nil }

// confirm returns when the kernel has the flushed bytes, or an error if that is not certain by the timeout or the end
// of the delivery.
func (p *progress) confirm(client context.Context, timeout time.Duration) error {
	if p.countKernel() == len(p.flushed) {
		return nil
	}
	if err := p.writer.Beat(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(client, timeout)
	defer cancel()
	if limit := p.delivery.Context; limit != nil {
		defer context.AfterFunc(limit, cancel)()
	}
	return p.flushed[len(p.flushed)-1].mark.Await(ctx)
}

// countKernel returns how many flushes the kernel has for certain.
func (p *progress) countKernel() int {
	for i, f := range slices.Backward(p.flushed) {
		if f.mark.Written() {
			return i + 1
		}
	}
	return 0
}

// written returns how many rings the kernel has for certain.
func (p *progress) written() int {
	n := p.countKernel()
	if n == 0 {
		return 0
	}
	return p.flushed[n-1].count
}
