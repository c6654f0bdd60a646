package ringstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
)

// ErrResumed is the reason of rings that were not written because the client has resumed the stream with another one.
var ErrResumed = errors.New("the client has resumed its stream on another connection")

// StreamWriter writes a stream of rings.
type StreamWriter interface {
	Writer
	// Begin writes and flushes the begin of the stream. A client may wait for it.
	Begin(o Opening) error
}

// Stream writes a subscriber's rings for as long as the subscriber stays.
type Stream struct {
	Writer       StreamWriter
	Subscription clock.Subscription
	Record       *Record
	Timeout      time.Duration   // longest wait until the kernel has the flushed bytes
	Heartbeat    time.Duration   // time between two beats
	Stopping     <-chan struct{} // closed when the server stops
	Elsewhere    func() bool     // whether the application's rings go to subscribers no longer; nil: never. It must not block
}

// Run writes rings and beats. It returns nil when the client leaves or resumes the stream with another one, when the
// server stops, or at a beat when the application's rings go elsewhere: the client learns so when it connects again. It returns the error when a write fails.
func (s *Stream) Run(client context.Context) error {
	resending, cancel := context.WithCancel(client)
	var resend sync.WaitGroup
	resend.Go(func() { s.Record.resend(resending) })
	defer resend.Wait()
	defer cancel()
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	err := s.Writer.Begin(s.Record.Opening())
	for err == nil {
		select {
		case d := <-s.Subscription.Deliveries():
			err = s.deliver(client, &d)
		case <-beat.C:
			if s.Elsewhere != nil && s.Elsewhere() {
				return nil
			}
			err = s.Writer.Beat()
		case <-client.Done():
			return nil
		case <-s.Record.over.Done():
			return nil
		case <-s.Stopping:
			return nil
		}
	}
	return err
}

// deliver notes the rings of a delivery in the journal, and writes them. The write ends when the client resumes the
// stream with another one.
func (s *Stream) deliver(client context.Context, d *clock.Delivery) error {
	if !s.Record.journal.note(s.Record, d.Rings) {
		d.Done(0, 0, ErrResumed)
		return nil
	}
	limit := d.Context
	if limit == nil {
		limit = context.Background()
	}
	limit, end := context.WithCancel(limit)
	defer end()
	defer context.AfterFunc(s.Record.over, end)()
	d.Context = limit
	return Deliver(client, s.Writer, s.Timeout, d)
}
