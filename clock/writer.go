package clock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Writer writes concurrent ops in groups. While one transaction is being written, the next group collects. So an idle
// service adds no wait, and a busy service shares each commit among hundreds of ops. A second transaction runs beside
// the first only for many ops, or if the first takes long. No key is in two transactions at a time, so ops on one key
// apply in order of arrival. An op whose row is locked waits in a transaction of its own, and the ops behind it on its
// key wait for it. Applications take turns, both in groups and among the transactions that wait. An op whose caller has
// left is dropped.
//
// WriterConfig.Committers goroutines take groups of ops from the queue. Each locked key has a goroutine too. One mutex
// guards the queue and the lock slots. No goroutine holds it while it waits or writes.
type Writer struct {
	cfg            WriterConfig
	store          Store
	time           *Timebase
	listener       CommitListener
	metrics        Metrics
	log            *slog.Logger
	watch          *writeWatch
	largestPayload int // bytes of the largest stored payload, as far as known

	groupReady chan struct{}  // capacity 1; wakes one committer: a group may begin
	lockedOps  sync.WaitGroup // one goroutine for each locked key

	mu             sync.Mutex
	apps           map[string]*appQueue // applications with ops, by name
	turns          []*appQueue          // applications with ready ops, in the order of their turns
	appsBySize     byQueuedBytes        // the same applications as apps
	keys           map[Key]*keyQueue    // keys with ops
	spareKeyQueues []*keyQueue          // unused key queues, kept for new keys
	arrivals       uint64               // ops that ever arrived
	ops            int                  // ops queued and in transactions
	bytes          int                  // bytes of these ops
	ready          int                  // ops that a group may take
	stalledSince   time.Time            // since when ready ops have waited without progress; zero: none waits. After withdrawals it is stale until a committer looks
	youngGroups    int                  // groups whose transaction is younger than secondGroupAfter
	closed         bool                 // new ops are refused
	lockSlots      lockSlots            // slots of the transactions that wait for a locked row
}

// writerDeps are the parts that the Writer uses; ServiceDeps describes them.
type writerDeps struct {
	store    Store
	prober   WriteProber
	time     *Timebase
	listener CommitListener
	metrics  Metrics
	log      *slog.Logger
}

func newWriter(cfg WriterConfig, maxPayload int, deps writerDeps) *Writer {
	return &Writer{
		cfg: cfg, store: deps.store, time: deps.time, listener: deps.listener, metrics: deps.metrics, log: deps.log,
		watch:          newWriteWatch(deps.log, deps.prober, deps.time),
		largestPayload: max(maxPayload, DefaultMaxPayload), // stored payloads may be older than a lower limit
		groupReady:     make(chan struct{}, 1),
		apps:           map[string]*appQueue{}, keys: map[Key]*keyQueue{}, lockSlots: newLockSlots(cfg.LockedWrites),
	}
}

// submit queues p, or refuses it.
func (w *Writer) submit(p *Pending) {
	p.submitted, p.writer = time.Now(), w
	pushedOut, refusal := w.enqueue(p)
	for _, other := range pushedOut {
		w.drop(other, DropQueueFull)
	}
	if refusal != "" {
		w.drop(p, refusal)
	}
}

// drop refuses p, which is no longer queued and was not written.
func (w *Writer) drop(p *Pending, reason DropReason) {
	if w.metrics.Dropped != nil {
		w.metrics.Dropped(reason)
	}
	r := refusals[reason]
	e := &Error{Kind: ErrUnavailable, Code: r.code, RetryAfter: time.Second, Detail: r.detail}
	w.finish(p, &Decision{Verdict: Refuse, Err: e}, time.Now())
}

// finish gives p its decision and measures it.
func (w *Writer) finish(p *Pending, d *Decision, now time.Time) {
	took := now.Sub(p.submitted)
	if w.metrics.Op != nil {
		w.metrics.Op(p.op, d.Verdict, took, d.Err)
	}
	if w.metrics.Occurrences != nil && d.Counted != (OccurrenceCounts{}) {
		w.metrics.Occurrences(d.Counted)
	}
	if w.log.Enabled(context.Background(), slog.LevelDebug) {
		w.logOp(&p.op, d, took)
	}
	p.decide(d)
}

// logOp logs an op with its verdict, for people who follow single alarms.
func (w *Writer) logOp(op *Op, d *Decision, took time.Duration) {
	key := op.Key()
	attributes := []slog.Attr{
		slog.String("op", op.Name()), slog.String("verdict", d.Verdict.String()),
		slog.String("application", key.Application),
		slog.String("business_id", key.BusinessID), slog.Duration("took", took),
	}
	if d.Alarm.ID != 0 {
		attributes = append(attributes, slog.Int64("alarm_id", d.Alarm.ID),
			slog.Int64("generation", d.Alarm.Generation), slog.String("state", d.Alarm.State.String()),
			slog.String("due_at", d.Alarm.NextTryTime.String()))
	}
	if d.Err != nil {
		attributes = append(attributes, slog.Any("err", d.Err))
	}
	w.log.LogAttrs(context.Background(), slog.LevelDebug, "alarm request decided", attributes...)
}

// Run writes ops until ctx ends and the queue is empty. Ops that are submitted afterwards are refused.
func (w *Writer) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for range w.cfg.Committers {
		loops.Go(func() { w.commitGroups(ctx) })
	}
	loops.Go(func() { w.watch.run(ctx) })
	loops.Wait()
	w.drain(context.WithoutCancel(ctx))
	return nil
}

// drain refuses new ops and writes the queued ops. The committers have ended.
func (w *Writer) drain(ctx context.Context) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for ops, _ := w.undecided(); ops > 0; ops, _ = w.undecided() {
		for w.writeNext(ctx) {
		}
		w.lockedOps.Wait() // afterwards the next ops on the locked keys are ready
	}
}
