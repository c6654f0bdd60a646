package ring_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// modelClock is the database's clock: the bubble's, a while apart.
type modelClock struct{ offset time.Duration }

func (c modelClock) Now() (clock.Instant, error) {
	return clock.InstantOf(time.Now().Add(c.offset)), nil
}

func (c modelClock) now() clock.Instant { return clock.InstantOf(time.Now().Add(c.offset)) }

func (c modelClock) Until(i clock.Instant) time.Duration {
	return max(0, i.Time().Sub(time.Now().Add(c.offset)))
}

const modelShards = 8

var (
	errDown = &clock.Error{Kind: clock.ErrUnavailable, Detail: "the model database is down", Cause: errors.New("down")}
	errLost = clock.Unconfirmed(errors.New("the answer to COMMIT was lost"))
)

// modelDB is a database in memory.
type modelDB struct {
	clock   modelClock
	latency time.Duration // of every call
	perRow  time.Duration // of a claim, more

	mu       sync.Mutex
	rows     map[int64]*modelRow
	keys     map[clock.Key]int64
	lastID   int64
	down     bool
	settled  func()         // called after a settlement, if set
	loseNext []bool         // of the next settlements: lost with (true) or without having been committed
	claims   map[string]int // by application, of rows that were claimed to be rung
	tries    int            // of Claim
	calls    int            // of them, those that the database answered
	dues     int            // of Due
	ended    map[int64]clock.State
}

type modelRow struct {
	clock.Alarm
	locked bool
	claim  string // two-phase: who holds it
}

func newModelDB(c modelClock) *modelDB {
	return &modelDB{
		clock: c, rows: map[int64]*modelRow{}, keys: map[clock.Key]int64{}, claims: map[string]int{}, ended: map[int64]clock.State{},
	}
}

// enter takes the time of a call and fails it when the database is down.
func (db *modelDB) enter(ctx context.Context) error {
	db.mu.Lock()
	latency := db.latency
	db.mu.Unlock()
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.down {
		return errDown
	}
	return ctx.Err()
}

func (db *modelDB) setDown(down bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.down = down
}

func (db *modelDB) slow(latency time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.latency = latency
}

// lose has the outcome of the next settlement lost, with or without having been committed.
func (db *modelDB) lose(committed bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.loseNext = append(db.loseNext, committed)
}

// claimed returns how many rings of an application were claimed.
func (db *modelDB) claimed(application string) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.claims[application]
}

func (db *modelDB) count(calls *int) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return *calls
}

// write applies an op, waiting at most 5 s for a locked or claimed row. The decision is Wait where it took longer.
func (db *modelDB) write(op clock.Op) clock.Decision {
	for range 5000 {
		if d, ok := db.tryWrite(op); ok {
			return d
		}
		time.Sleep(time.Millisecond)
	}
	return clock.Decision{Verdict: clock.Wait}
}

func (db *modelDB) tryWrite(op clock.Op) (clock.Decision, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	r := db.rows[db.keys[op.Key()]]
	if r != nil && r.locked {
		return clock.Decision{}, false
	}
	var alarm *clock.Alarm
	if r != nil {
		alarm = &r.Alarm
	}
	d := op.Decide(alarm, db.clock.now())
	if d.Verdict == clock.Wait {
		return d, false
	}
	if d.Writes() {
		if r == nil {
			db.lastID++
			d.Alarm.ID, d.Alarm.Shard = db.lastID, op.Key().Shard(modelShards)
			r = &modelRow{}
			db.rows[d.Alarm.ID], db.keys[op.Key()] = r, d.Alarm.ID
		}
		r.Alarm = d.Alarm
	}
	return d, true
}

func (db *modelDB) get(id int64) clock.Alarm {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rows[id].Alarm
}

// lock holds a row as a set in another transaction does.
func (db *modelDB) lock(id int64, locked bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.rows[id].locked = locked
}

func (r *modelRow) pending() bool {
	return (r.State == clock.Scheduled || r.State == clock.Ringing) && r.NextTryTime != clock.NoInstant
}

func (r *modelRow) due() store.Due {
	return store.Due{ID: r.ID, NextTryTime: r.NextTryTime, Rank: store.Rank(r.Priority), Shard: r.Shard, Application: r.Application}
}

func byPosition(a, b store.Position) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
}

func (db *modelDB) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	if len(q.Shards) == 0 || q.Limit < 1 {
		panic("a query without shards or limit")
	}
	db.mu.Lock() // what it reads is as of its beginning: commits meanwhile are not seen
	db.dues++
	byShard := map[int][]store.Due{}
	for _, r := range db.rows {
		d := r.due()
		if r.pending() && slices.Contains(q.Shards, r.Shard) && !d.Position().Before(q.From) && d.Position().Before(q.Until) {
			byShard[r.Shard] = append(byShard[r.Shard], d)
		}
	}
	db.mu.Unlock()
	var rows []store.Due
	for _, of := range byShard {
		slices.SortFunc(of, func(a, b store.Due) int { return byPosition(a.Position(), b.Position()) })
		rows = append(rows, of[:min(len(of), q.Limit)]...)
	}
	return store.NewDuePage(q, rows), db.enter(ctx)
}

func (db *modelDB) Claim(ctx context.Context, req store.ClaimRequest) (*store.Claim, error) {
	db.mu.Lock()
	db.tries++
	db.mu.Unlock()
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	if db.perRow > 0 {
		time.Sleep(time.Duration(len(req.IDs)) * db.perRow)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.calls++
	if now := db.clock.now(); req.Now > now {
		panic("a claim in the future")
	}
	var candidates []store.Candidate
	for _, id := range req.IDs {
		if r := db.rows[id]; r != nil && !r.locked {
			candidates = append(candidates, candidate(r))
		}
	}
	j := req.Judge(candidates)
	c := &store.Claim{Ended: j.Ended, Left: j.Left, Once: j.Once}
	for _, e := range j.Ended {
		db.end(e)
	}
	s := &modelSettler{db: db, id: req.ClaimID, before: j.Taken, lease: req.Lease > 0 && !req.Once, once: req.Once}
	for i := range j.Taken {
		r := db.rows[j.Taken[i].ID]
		c.Rings = append(c.Rings, ringOf(r, req))
		s.was = append(s.was, r.Alarm)
		switch {
		case req.Once:
			r.State, r.NextTryTime, r.InDoubt, r.ClaimID = clock.Rung, clock.NoInstant, true, req.ClaimID
			r.RungAt, r.FinishedAt = req.Now, req.Now
		case req.Lease > 0:
			r.State, r.RungAt, r.NextTryTime, r.claim = clock.Ringing, clock.NoInstant, req.Now.Add(req.Lease), req.ClaimID
		default:
			r.locked = true
		}
		db.claims[r.Application]++
	}
	if len(c.Rings) > 0 {
		s.rings = c.Rings
		c.Settler = s
	}
	return c, nil
}

func candidate(r *modelRow) store.Candidate {
	return store.Candidate{
		ID: r.ID, Key: r.Key, State: r.State, Generation: r.Generation, RingNo: r.RingNo, MaxRings: r.MaxRings, AckTimeout: r.AckTimeout,
		Delivery: r.Delivery, LatestRingAt: r.LatestRingAt, NextTryTime: r.NextTryTime, Rank: store.Rank(r.Priority), LastError: r.LastError, InDoubt: r.InDoubt, ClaimID: r.ClaimID,
		RungAt: r.RungAt, PayloadLength: len(r.Payload),
	}
}

func ringOf(r *modelRow, req store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: r.ID, Key: r.Key, Shard: r.Shard, Generation: r.Generation, RingNo: r.RingNo + 1, RetryTimes: r.RetryTimes,
		RingAt: r.RingAt, LatestRingAt: r.LatestRingAt, RungAt: req.Now, ClaimID: req.ClaimID, Payload: r.Payload, Retry: r.Retry,
		AckTimeout: r.AckTimeout, MaxRings: r.MaxRings, Priority: r.Priority, Delivery: r.Delivery, InDoubt: r.InDoubt,
	}
}

func (db *modelDB) end(e store.Ended) {
	r := db.rows[e.ID]
	r.State, r.NextTryTime, r.LastError, r.FinishedAt = e.State, clock.NoInstant, e.Reason, db.clock.now()
	db.ended[e.ID] = e.State
}

func (db *modelDB) Expire(ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int) ([]store.Ended, store.Position, error) {
	if err := db.enter(ctx); err != nil {
		return nil, from, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	var due []*modelRow
	for _, r := range db.rows {
		if r.pending() && !r.locked && r.NextTryTime <= now && slices.Contains(shards, r.Shard) && !r.due().Position().Before(from) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b *modelRow) int { return byPosition(a.due().Position(), b.due().Position()) })
	var next store.Position
	if len(due) > limit {
		next = due[limit].due().Position()
		due = due[:limit]
	}
	var ended []store.Ended
	for _, r := range due {
		if r.LatestRingAt != clock.NoInstant && r.LatestRingAt < now {
			e := store.Ended{Key: r.Key, ID: r.ID, State: clock.Expired, Reason: store.ExpiredReason(r.LastError)}
			db.end(e)
			ended = append(ended, e)
		}
	}
	return ended, next, nil
}

// modelSettler ends one claim.
type modelSettler struct {
	db     *modelDB
	id     string
	rings  []clock.Ring
	before []store.Candidate
	was    []clock.Alarm
	lease  bool
	once   bool
	over   bool
}

// owns reports whether the row is still as the claim left it.
func (s *modelSettler) owns(r *modelRow, ring *clock.Ring) bool {
	switch {
	case s.once:
		return r.Generation == ring.Generation && r.State == clock.Rung && r.InDoubt && r.ClaimID == s.id
	case s.lease:
		return r.claim == s.id
	}
	return true
}

func (s *modelSettler) Settle(ctx context.Context, _ clock.Instant, fates []clock.Fate) error {
	if s.db.settled != nil {
		defer s.db.settled()
	}
	err := s.db.enter(ctx)
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.end()
	commit := err == nil
	if err == nil && len(s.db.loseNext) > 0 {
		commit, err = s.db.loseNext[0], errLost
		s.db.loseNext = s.db.loseNext[1:]
	}
	for i := range s.rings {
		r := s.db.rows[s.rings[i].AlarmID]
		if !s.owns(r, &s.rings[i]) {
			continue
		}
		if commit {
			settled := store.Settled(&s.rings[i], &s.before[i], &fates[i])
			r.State, r.NextTryTime, r.RingNo, r.RetryTimes = settled.State, settled.NextTryTime, settled.RingNo, settled.RetryTimes
			r.InDoubt, r.ClaimID, r.RungAt, r.FinishedAt = settled.InDoubt, settled.ClaimID, settled.RungAt, settled.FinishedAt
			r.LastError, r.claim = cmp.Or(settled.LastError, r.LastError), ""
		}
		if !s.lease && !s.once {
			r.locked = false
		}
	}
	return err
}

func (s *modelSettler) Release(ctx context.Context) error {
	err := s.db.enter(ctx)
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.end()
	for i := range s.rings {
		r := s.db.rows[s.rings[i].AlarmID]
		switch {
		case !s.lease && !s.once:
			r.locked = false
		case err == nil && s.owns(r, &s.rings[i]):
			r.Alarm, r.claim = s.was[i], ""
		}
	}
	return err
}

// end: a transaction ends once; the outcome of a two-phase claim may be written again after an error.
func (s *modelSettler) end() {
	if s.over && !s.lease && !s.once {
		panic("a claim settled twice")
	}
	s.over = true
}

// rung is one copy of a ring that left the process.
type rung struct {
	id        string // message id
	alarm     int64
	app       string
	at        clock.Instant
	ringAt    clock.Instant
	confirmed bool
	kind      clock.OutcomeKind
	once      bool
}

// modelTarget takes rings and answers as told.
type modelTarget struct {
	clock   modelClock
	changed chan struct{}
	latency time.Duration

	mu      sync.Mutex
	down    error
	absent  map[string]bool
	answers map[string]clock.OutcomeKind // by application; else confirmed
	poison  map[string]bool              // business ids that the target refuses, with all that come after in the batch
	sick    map[string]bool              // business ids that the target nacks
	rungs   []rung
	closed  int
	lanes   int
	opened  int
}

func newModelTarget(c modelClock) *modelTarget {
	return &modelTarget{
		clock: c, changed: make(chan struct{}, 1), absent: map[string]bool{}, answers: map[string]clock.OutcomeKind{},
		poison: map[string]bool{}, sick: map[string]bool{},
	}
}

func (t *modelTarget) Usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.down
}

func (t *modelTarget) Accepts(application string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.absent[application]
}

func (t *modelTarget) Changed() <-chan struct{} { return t.changed }

func (t *modelTarget) Lane() ring.Lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes++
	return modelLane{t}
}

// change changes what the target answers, and tells it.
func (t *modelTarget) change(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *modelTarget) answer(application string, kind clock.OutcomeKind) {
	t.change(func() { t.answers[application] = kind })
}

func (t *modelTarget) slow(latency time.Duration) { t.change(func() { t.latency = latency }) }

func (t *modelTarget) setDown(err error) { t.change(func() { t.down = err }) }

func (t *modelTarget) all() []rung {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rungs)
}

// of returns the copies of an application's rings.
func (t *modelTarget) of(application string) []rung {
	return slices.DeleteFunc(t.all(), func(r rung) bool { return r.app != application })
}

type modelLane struct{ t *modelTarget }

func (l modelLane) Open(context.Context) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.opened++
}

func (l modelLane) Close() error {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.closed++
	return nil
}

func (l modelLane) Deliver(_ context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	l.t.mu.Lock()
	outcomes := make([]clock.Outcome, len(rings))
	until, refused := time.Now().Add(l.t.latency), false
	for i := range rings {
		r := &rings[i]
		kind := cmp.Or(l.t.answers[r.Application], clock.Confirmed)
		refused = refused || l.t.poison[r.BusinessID]
		switch {
		case time.Now().After(limits.Write) || l.t.down != nil:
			kind = clock.Unsent
		case l.t.sick[r.BusinessID]:
			kind = clock.Nacked
		case refused:
			kind = clock.Refused
		case kind == clock.Doubtful:
			until = limits.Answer
		case kind == clock.Untaken:
			until = limits.Write
		}
		outcomes[i] = clock.Outcome{Kind: kind, Reason: kind.String()}
		if kind != clock.Unsent && kind != clock.Untaken {
			l.t.rungs = append(l.t.rungs, rung{
				id: r.MessageID(), alarm: r.AlarmID, app: r.Application, at: l.t.clock.now(), ringAt: r.RingAt,
				confirmed: kind == clock.Confirmed, kind: kind, once: r.Delivery == clock.AtMostOnce,
			})
		}
	}
	l.t.mu.Unlock()
	time.Sleep(time.Until(until))
	return outcomes
}

// modelOwner is an Ownership whose shards change on demand.
type modelOwner struct {
	mu      sync.Mutex
	shards  []int
	changed chan struct{}
}

func (o *modelOwner) Shards() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shards
}

func (o *modelOwner) Owned() []int { return o.Shards() }

func (o *modelOwner) Wanted(int, string) bool { return true }

func (o *modelOwner) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

func (o *modelOwner) set(shards ...int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shards = shards
	close(o.changed)
	o.changed = make(chan struct{})
}
