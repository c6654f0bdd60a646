package clock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// WriterConfig has the limits of the Writer, which commits ops in groups.
type WriterConfig struct {
	Committers   int           // concurrent write transactions, at most, on disjoint keys; default 2
	GroupOps     int           // ops of a transaction, at most; default 500
	GroupBytes   int           // bytes of a transaction's ops, at most; default 4 MiB
	QueueBytes   int           // bytes of all ops queued or in transactions, at most; three quarters for one application; default 16 MiB
	LoadBytes    int           // bytes of stored payloads that a transaction loads, at most, but always one payload; default 8 MiB
	KeyOps       int           // ops on one key queued or in transactions, at most; default 100
	LockedWrites int           // concurrent transactions that may wait for a locked row; default 8
	LockWait     time.Duration // longest wait of a request for a locked row; default 5s
}

// DefaultWriterConfig returns the default configuration.
func DefaultWriterConfig() WriterConfig {
	return WriterConfig{
		Committers: 2, GroupOps: 500, GroupBytes: 4 << 20, QueueBytes: 16 << 20, LoadBytes: 8 << 20, KeyOps: 100, LockedWrites: 8, LockWait: 5 * time.Second,
	}
}

// Validate returns all faults of the configuration, joined, or nil.
func (c WriterConfig) Validate() error {
	var errs []error
	for _, f := range []struct {
		name       string
		value, min int
		max        int
	}{
		{"write lanes", c.Committers, 1, 64},
		{"write group ops", c.GroupOps, 1, 5000},
		{"write group bytes", c.GroupBytes, 64 << 10, 8 << 20}, // a statement must stay below max_allowed_packet, 16 MiB
		{"write queue bytes", c.QueueBytes, c.GroupBytes, 1 << 30},
		{"write load bytes", c.LoadBytes, 64 << 10, 1 << 30},
		{"write ops on a key", c.KeyOps, 1, 10_000},
		{"locked writes", c.LockedWrites, 1, 64},
	} {
		if f.value < f.min || f.value > f.max {
			errs = append(errs, fmt.Errorf("%s must be from %d to %d", f.name, f.min, f.max))
		}
	}
	if c.LockWait <= 0 || c.LockWait >= Patience {
		errs = append(errs, fmt.Errorf("lock wait must be positive and below %s, the patience of a request", Patience))
	}
	return errors.Join(errs...)
}

// writeTimeout is the most time for a transaction, so that a server that stopped replying does not occupy a committer for ever.
// Validate accepts no LockWait that is longer.
const writeTimeout = Patience

// Writer writes concurrent ops in groups. While one transaction is being written, the next group collects. So an idle service adds
// no wait, and a busy service shares each commit among hundreds of ops. A second transaction runs beside the first only for many
// ops, or if the first takes long. No key is in two transactions at a time, so ops on one key apply in order of arrival. An op whose
// row is locked waits in a transaction of its own, and the ops behind it on its key wait for it. Applications take turns, both in
// groups and among the transactions that wait. An op whose caller has left is dropped.
type Writer struct {
	cfg       WriterConfig
	store     Store
	time      *Timebase
	waker     Waker
	metrics   Metrics
	queue     *writeQueue
	lockSlots *lockSlots // slots of the transactions that wait for a locked row
	watch     *writeWatch

	maxPayload int // bytes of the largest stored payload, as far as known
}

func newWriter(cfg WriterConfig, maxPayload int, deps ServiceDeps) *Writer {
	w := &Writer{
		cfg: cfg, store: deps.Store, time: deps.Time, waker: deps.Waker, metrics: deps.Metrics, lockSlots: newLockSlots(cfg.LockedWrites),
		maxPayload: max(maxPayload, DefaultMaxPayload), // stored payloads may be older than a lower limit
	}
	w.queue = newWriteQueue(w)
	w.watch = newWriteWatch(deps.Log, deps.Prober, deps.Time)
	return w
}

// submit queues p, or refuses it.
func (w *Writer) submit(p *Pending) {
	p.submitted = time.Now()
	pushedOut, refusal := w.queue.enqueue(p)
	for _, other := range pushedOut {
		w.drop(other, DropQueueFull)
	}
	if refusal != "" {
		w.drop(p, refusal)
	}
}

// DropReason is the reason for refusing an op before it is written, as metrics name it.
type DropReason string

// The reasons for dropping an op.
const (
	DropQueueFull DropReason = "queue_full" // the application has filled its share of the queue, or the most of a full queue
	DropKeyFull   DropReason = "key_full"   // too many requests on one key
	DropAbandoned DropReason = "abandoned"  // the caller waits no longer
	DropStopping  DropReason = "stopping"   // the node is stopping
)

// DropReasons are all reasons for dropping an op.
var DropReasons = []DropReason{DropQueueFull, DropKeyFull, DropAbandoned, DropStopping}

// refusals are the code and the detail of the error for each reason.
var refusals = map[DropReason]struct{ code, detail string }{
	DropQueueFull: {CodeOverloaded, "too many requests of the application are queued; repeat later"},
	DropKeyFull:   {CodeKeyOverloaded, "too many requests wait for this alarm; repeat later"},
	DropAbandoned: {CodeUnavailable, "the client left, or its time was over, before the change was written: nothing was changed"},
	DropStopping:  {CodeUnavailable, "the node is stopping; repeat the request"},
}

// drop refuses p, which is no longer queued and was not written.
func (w *Writer) drop(p *Pending, why DropReason) {
	if w.metrics.Dropped != nil {
		w.metrics.Dropped(why)
	}
	r := refusals[why]
	e := &Error{Kind: ErrUnavailable, Code: r.code, RetryAfter: time.Second, Detail: r.detail}
	w.finish(p, &Decision{Verdict: Refuse, Err: e}, time.Now())
}

// finish gives p its decision and measures it.
func (w *Writer) finish(p *Pending, d *Decision, now time.Time) {
	if w.metrics.Op != nil {
		w.metrics.Op(p.op, d.Verdict, now.Sub(p.submitted), d.Err)
	}
	p.decide(d)
}

// Run writes ops until ctx ends and the queue is empty. Ops that are submitted afterwards are refused.
func (w *Writer) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for range w.cfg.Committers {
		loops.Go(func() { w.queue.run(ctx) })
	}
	loops.Go(func() { w.watch.run(ctx) })
	loops.Wait()
	w.queue.drain(context.WithoutCancel(ctx))
	return nil
}

// write applies the ops in one transaction, calls the waker, and returns one decision for each op.
func (w *Writer) write(ctx context.Context, ops []Op, wait time.Duration) []Decision {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	begun := time.Now()
	now, err := w.time.Now()
	var decisions []Decision
	if err == nil {
		decisions, err = w.store.Write(ctx, WriteRequest{Now: now, Ops: ops, Wait: wait, MaxLoad: w.cfg.LoadBytes, MaxPayload: w.maxPayload})
	}
	if err == nil && len(decisions) != len(ops) {
		err = Unconfirmed(fmt.Errorf("the store gave %d decisions for %d ops", len(decisions), len(ops)))
	}
	w.watch.note(err)
	if w.metrics.Write != nil {
		w.metrics.Write(len(ops), time.Since(begun), err)
	}
	if err != nil {
		decisions = make([]Decision, len(ops))
		for i := range decisions {
			decisions[i] = Decision{Verdict: Refuse, Err: err}
		}
		return decisions
	}
	w.waker.Wake(decisions)
	return decisions
}
