package ringstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
)

// kernel is what a process has handed to its kernel.
type kernel struct {
	flushes int // flushes of all writes
	has     int // flushes that the kernel has
	changed chan struct{}
}

// mark is a number of flushes.
type mark struct {
	k *kernel
	n int
}

func (m mark) Written() bool { return m.k.has >= m.n }

func (m mark) Await(ctx context.Context) error {
	select {
	case <-m.k.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writer writes one ring a flush. before, if not nil, runs before the write with that number, from 1 on.
type writer struct {
	kernel
	late   bool // flushes end before the kernel has the bytes
	stuck  bool // the kernel never takes the bytes
	before func(write int) error
	writes int32 // atomic, like beats
	beats  int32
}

func (w *writer) flush() {
	if w.flushes++; !w.late {
		w.has = w.flushes
	}
}

func (w *writer) Write([]clock.Ring) (int, error) {
	if n := atomic.AddInt32(&w.writes, 1); w.before != nil {
		if err := w.before(int(n)); err != nil {
			return 1, err
		}
	}
	w.flush()
	return 1, nil
}

func (w *writer) Beat() error {
	atomic.AddInt32(&w.beats, 1)
	if w.flush(); w.late && !w.stuck {
		w.has = w.flushes
		close(w.changed)
	}
	return nil
}

func (w *writer) Begin(ringstream.Opening) error           { return w.Beat() }
func (w *writer) Flushed() clock.Flushed                   { return mark{&w.kernel, w.flushes} }
func (w *writer) EndWith(context.Context) (release func()) { return func() {} }

var errBroken = errors.New("broken pipe")

// result is what Deliver reports and returns.
type result struct {
	written, begun int
	reason, err    error
	panicked       bool
}

// deliver delivers three rings.
func deliver(t *testing.T, w *writer, d clock.Delivery) (got result) {
	t.Helper()
	w.changed = make(chan struct{})
	d.Rings = make([]clock.Ring, 3)
	calls := 0
	d.Done = func(written, begun int, err error) { calls++; got.written, got.begun, got.reason = written, begun, err }
	func() {
		defer func() { got.panicked = recover() != nil }()
		got.err = ringstream.Deliver(t.Context(), w, time.Minute, &d)
	}()
	if calls != 1 {
		t.Errorf("Done was called %d times", calls)
	}
	return got
}

func TestOutcomesOfADelivery(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := func(write int, err error) func(int) error {
		return func(n int) error {
			if n == write {
				return err
			}
			return nil
		}
	}
	lateFrom := func(ask int) func() bool {
		asked := 0
		return func() bool { asked++; return asked >= ask }
	}
	bug := func(n int) error {
		if n == 2 {
			panic("a bug")
		}
		return nil
	}
	tooLate := ringstream.ErrTooLate
	for name, c := range map[string]struct {
		w    writer
		d    clock.Delivery
		want result
	}{
		"all is well":                    {writer{}, clock.Delivery{}, result{written: 3, begun: 3}},
		"the kernel has the bytes later": {writer{late: true}, clock.Delivery{}, result{written: 3, begun: 3}},
		"the kernel never has the bytes": {writer{late: true, stuck: true}, clock.Delivery{},
			result{0, 3, context.DeadlineExceeded, context.DeadlineExceeded, false}},
		"a write fails": {writer{before: at(2, errBroken)}, clock.Delivery{},
			result{1, 2, errBroken, errBroken, false}},
		"a write fails, late kernel": {writer{late: true, before: at(2, errBroken)}, clock.Delivery{},
			result{0, 2, errBroken, errBroken, false}},
		"a write panics": {writer{before: bug}, clock.Delivery{},
			result{1, 3, ringstream.ErrUnwritten, nil, true}},
		"a write finds that it is late": {writer{before: at(2, tooLate)}, clock.Delivery{},
			result{1, 1, tooLate, nil, false}},
		"late at once": {writer{}, clock.Delivery{TooLateToWrite: lateFrom(1)},
			result{reason: tooLate}},
		"late after a write": {writer{}, clock.Delivery{TooLateToWrite: lateFrom(2)},
			result{1, 1, tooLate, nil, false}},
		"late after a write, late kernel": {writer{late: true}, clock.Delivery{TooLateToWrite: lateFrom(2)},
			result{1, 1, tooLate, nil, false}},
		"the question panics": {writer{}, clock.Delivery{TooLateToWrite: func() bool { panic("a bug") }},
			result{reason: ringstream.ErrUnwritten, panicked: true}},
		"the claim has ended": {writer{}, clock.Delivery{Context: ended}, result{reason: tooLate}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := c.w
				got := deliver(t, &w, c.d)
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				if !w.late && w.beats > 0 {
					t.Error("a beat, and the kernel had the bytes")
				}
			})
		})
	}
}

// The end of a claim ends the wait for the kernel. The stream may go on.
func TestEndOfTheClaimEndsTheWaitForTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := writer{late: true, stuck: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if got := deliver(t, &w, clock.Delivery{Context: ctx}); got.begun != 3 || got.written != 0 ||
			got.reason == nil || got.err != nil {
			t.Errorf("%+v", got)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// subscription has one delivery.
type subscription chan clock.Delivery

func (s subscription) Deliveries() <-chan clock.Delivery { return s }
func (s subscription) Close()                            {}

func TestStreamBeatsUntilTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{}
		deliveries, stopping, ended := make(subscription), make(chan struct{}), make(chan error)
		record := newJournal(t, &resender{}).Open("shop", "")
		defer record.Close()
		s := ringstream.Stream{Writer: w, Subscription: deliveries, Record: record, Timeout: time.Minute,
			Heartbeat: time.Second, Stopping: stopping}
		go func() { ended <- s.Run(t.Context()) }()
		synctest.Wait()
		if n := atomic.LoadInt32(&w.beats); n != 1 {
			t.Errorf("%d beats at once", n)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if n := atomic.LoadInt32(&w.beats); n != 3 {
			t.Errorf("%d beats after two heartbeats", n)
		}
		deliveries <- clock.Delivery{Rings: make([]clock.Ring, 2), Done: func(int, int, error) {}}
		synctest.Wait()
		if n := atomic.LoadInt32(&w.writes); n != 2 {
			t.Errorf("%d rings were written", n)
		}
		close(stopping)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestStreamEndsAtABeatWhenRingsGoElsewhere ends the stream at the second beat, without the beat.
func TestStreamEndsAtABeatWhenRingsGoElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elsewhere atomic.Bool
		w := &writer{}
		ended := make(chan error, 1)
		record := newJournal(t, &resender{}).Open("shop", "")
		defer record.Close()
		s := ringstream.Stream{Writer: w, Subscription: make(subscription), Record: record, Timeout: time.Minute,
			Heartbeat: time.Second, Elsewhere: elsewhere.Load}
		go func() { ended <- s.Run(t.Context()) }()
		time.Sleep(time.Second + time.Millisecond)
		elsewhere.Store(true)
		synctest.Wait()
		if n := atomic.LoadInt32(&w.beats); n != 2 || len(ended) > 0 {
			t.Fatalf("%d beats, ended: %t", n, len(ended) > 0)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := atomic.LoadInt32(&w.beats); n != 2 || len(ended) == 0 {
			t.Fatalf("%d beats, ended: %t", n, len(ended) > 0)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStreamEndsWithAFailedWrite(t *testing.T) {
	w := &writer{before: func(int) error { return errBroken }}
	deliveries := make(subscription, 1)
	deliveries <- clock.Delivery{Rings: make([]clock.Ring, 1), Done: func(int, int, error) {}}
	record := newJournal(t, &resender{}).Open("shop", "")
	defer record.Close()
	s := ringstream.Stream{Writer: w, Subscription: deliveries, Record: record, Timeout: time.Minute,
		Heartbeat: time.Hour}
	if err := s.Run(t.Context()); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}
