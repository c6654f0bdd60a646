package clock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// WriterConfig bounds the group commit of sets and cancels.
type WriterConfig struct {
	Lanes      int           // write transactions at once, over disjoint keys, where many ops wait; default 2
	GroupOps   int           // ops a transaction, at most; default 500
	GroupBytes int           // bytes a transaction, at most; default 4 MiB
	QueueBytes int           // bytes queued or in work, beyond which requests are refused; default 16 MiB
	HeldWrites int           // transactions at once that may wait for a row that a ring holds; default 8
	HeldWait   time.Duration // how long a request waits for such a row; default 5s
}

// DefaultWriterConfig returns the defaults that each field names.
func DefaultWriterConfig() WriterConfig {
	return WriterConfig{
		Lanes: 2, GroupOps: 500, GroupBytes: 4 << 20, QueueBytes: 16 << 20, HeldWrites: 8, HeldWait: 5 * time.Second,
	}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c WriterConfig) Validate() error {
	var errs []error
	for _, f := range []struct {
		name       string
		value, min int
		max        int
	}{
		{"write lanes", c.Lanes, 1, 64},
		{"write group ops", c.GroupOps, 1, 5000},
		{"write group bytes", c.GroupBytes, 64 << 10, 8 << 20}, // a statement must stay below max_allowed_packet, 16 MiB
		{"write queue bytes", c.QueueBytes, c.GroupBytes, 1 << 30},
		{"held writes", c.HeldWrites, 1, 64},
	} {
		if f.value < f.min || f.value > f.max {
			errs = append(errs, fmt.Errorf("%s must be from %d to %d", f.name, f.min, f.max))
		}
	}
	if c.HeldWait <= 0 || c.HeldWait >= Patience {
		errs = append(errs, fmt.Errorf("held wait must be positive and below %s, the patience of a request", Patience))
	}
	return errors.Join(errs...)
}

// writeTimeout bounds a transaction, so that a server that stopped answering does not hold a lane for ever. No HeldWait
// that Validate lets pass is longer.
const writeTimeout = Patience

// Writer writes concurrent ops together: while one transaction is on its way the next group collects, so that an idle
// service adds no wait and a busy one shares each commit among hundreds. A second transaction goes beside it only for many
// ops, or where it takes long. No key is in two at once, so ops on one key apply in order of arrival. A key whose row is held by a
// ring gets a lane of its own, and the ops that follow on it queue there.
type Writer struct {
	cfg     WriterConfig
	store   Store
	time    *Timebase
	waker   Waker
	metrics Metrics
	queue   *writeQueue
	ops     atomic.Int64
	bytes   atomic.Int64
	held    chan struct{} // a token a transaction that may wait; the others wait their turn
}

func newWriter(cfg WriterConfig, st Store, tb *Timebase, waker Waker, m *Metrics) *Writer {
	w := &Writer{cfg: cfg, store: st, time: tb, waker: waker, held: make(chan struct{}, cfg.HeldWrites)}
	if m != nil {
		w.metrics = *m
	}
	w.queue = newWriteQueue(w)
	return w
}

// submit queues p, or answers it with the reason why not.
func (w *Writer) submit(p *Pending) {
	p.submitted = time.Now()
	w.ops.Add(1)
	if w.bytes.Add(int64(p.size)) > int64(w.cfg.QueueBytes) {
		w.refuse(p, CodeOverloaded, "too many requests are queued; repeat later")
		return
	}
	w.queue.enqueue(p)
}

// refuse answers p, of which nothing was written.
func (w *Writer) refuse(p *Pending, code, detail string) {
	e := &Error{Kind: ErrUnavailable, Code: code, RetryAfter: time.Second, Detail: detail}
	w.finish(p, &Decision{Verdict: Refuse, Err: e}, time.Now())
}

// finish answers p and gives its place in the queue free.
func (w *Writer) finish(p *Pending, d *Decision, now time.Time) {
	w.ops.Add(-1)
	w.bytes.Add(-int64(p.size))
	if w.metrics.Op != nil {
		w.metrics.Op(p.op, d.Verdict, now.Sub(p.submitted), d.Err)
	}
	p.answer(d)
}

// Run writes until ctx ends and the queues are empty. What is submitted afterwards is refused.
func (w *Writer) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	for range w.cfg.Lanes {
		lanes.Go(func() { w.queue.run(ctx) })
	}
	lanes.Wait()
	w.queue.drain(context.WithoutCancel(ctx))
	return nil
}

// write applies the ops in one transaction, tells the waker, and returns a decision an op.
func (w *Writer) write(ctx context.Context, ops []Op, wait time.Duration) []Decision {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	begun := time.Now()
	now, err := w.time.Now()
	var ds []Decision
	if err == nil {
		ds, err = w.store.Write(ctx, WriteRequest{Now: now, Ops: ops, Wait: wait})
	}
	if err == nil && len(ds) != len(ops) {
		err = Unconfirmed(fmt.Errorf("the store gave %d decisions for %d ops", len(ds), len(ops)))
	}
	if w.metrics.Write != nil {
		w.metrics.Write(len(ops), time.Since(begun), err)
	}
	if err != nil {
		ds = make([]Decision, len(ops))
		for i := range ds {
			ds[i] = Decision{Verdict: Refuse, Err: err}
		}
		return ds
	}
	w.waker.Wake(ds)
	return ds
}
