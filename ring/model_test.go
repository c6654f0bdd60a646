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

// modelClock is the database's clock: the bubble's clock plus an offset.
type modelClock struct{ offset time.Duration }

func (c modelClock) AtLeast() (clock.Instant, error) {
	return clock.InstantOf(time.Now().Add(c.offset)), nil
}

func (c modelClock) Floor() (clock.Instant, error) { return c.AtLeast() }

func (c modelClock) now() clock.Instant { return clock.InstantOf(time.Now().Add(c.offset)) }

func (c modelClock) Until(i clock.Instant) time.Duration {
	return max(0, i.Time().Sub(time.Now().Add(c.offset)))
}

const modelShards = 8

var (
	errDown = &clock.Error{Kind: clock.ErrUnavailable, Detail: "the model database is down",
		Cause: errors.New("down")}
	errCommitLost = clock.Unconfirmed(errors.New("the reply to COMMIT was lost"))
)

// modelDB is a database in memory.
type modelDB struct {
	clock   modelClock
	latency time.Duration // time of every call
	perRow  time.Duration // additional time of a claim, per row

	mu          sync.Mutex
	rows        map[int64]*modelRow
	pending     [modelShards][]*modelRow // rows that wait for a ring, by position
	keys        map[clock.Key]int64
	lastID      int64
	down        bool
	onClaim     func(applications map[string]int, twoPhase bool) // called with the number of rings of each claim, by application; nil: not called
	onSettled   func()                                           // called after a settlement; nil: not called
	loseCommits []bool                                           // of the next settlements, in order: the reply is lost, and the commit took place (true) or not
	claims      map[string]int                                   // claimed rings, by application
	claimCalls  int                                              // calls of Claim
	claimsDone  int                                              // calls of Claim that did not fail
	dueCalls    int                                              // calls of Due
	dueRows     int                                              // rows that Due returned
	ended       map[int64]clock.State
}

type modelRow struct {
	clock.Alarm
	locked bool
	place  store.Position // in modelDB.pending; the zero Position: it is not there
	claim  string         // two-phase: id of the claim that holds the row; empty: none
}

func newModelDB(c modelClock) *modelDB {
	return &modelDB{
		clock: c, rows: map[int64]*modelRow{}, keys: map[clock.Key]int64{}, claims: map[string]int{},
		ended: map[int64]clock.State{},
	}
}

// HoldsClaims returns true, as of a database server.
func (*modelDB) HoldsClaims() bool { return true }

// enter waits for the latency of a call. It returns an error when the database is down.
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

// slowPerRow sets how long a claim takes for each row.
func (db *modelDB) slowPerRow(latency time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.perRow = latency
}

func (db *modelDB) slow(latency time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.latency = latency
}

// loseNextCommit makes the reply to the next settlement's COMMIT lost, with or without the commit.
func (db *modelDB) loseNextCommit(committed bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.loseCommits = append(db.loseCommits, committed)
}

// claimed returns the number of claimed rings of an application.
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

// write applies an op. It waits at most 5 s for a locked or claimed row, and then returns the verdict Locked.
func (db *modelDB) write(op clock.Op) clock.Decision {
	for range 5000 {
		if d, ok := db.tryWrite(op); ok {
			return d
		}
		time.Sleep(time.Millisecond)
	}
	return clock.Decision{Verdict: clock.Locked}
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
	if d.Verdict == clock.Locked {
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
		db.move(r)
	}
	return d, true
}

func (db *modelDB) get(id int64) clock.Alarm {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rows[id].Alarm
}

// setLocked locks or unlocks a row, as a set in another transaction does.
func (db *modelDB) setLocked(id int64, locked bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.rows[id].locked = locked
}

// move puts a row that has changed in its place among the pending rows.
func (db *modelDB) move(r *modelRow) {
	var place store.Position
	if (r.State == clock.Scheduled || r.State == clock.Ringing) && r.NextTryTime != clock.NoInstant {
		place = r.due().Position()
	}
	if place == r.place {
		return
	}
	rows := &db.pending[r.Shard]
	if r.place != (store.Position{}) {
		i := indexOf(*rows, r.place)
		*rows = slices.Delete(*rows, i, i+1)
	}
	if r.place = place; place != (store.Position{}) {
		*rows = slices.Insert(*rows, indexOf(*rows, place), r)
	}
}

// indexOf returns the index of the first row that is not before the position.
func indexOf(rows []*modelRow, p store.Position) int {
	i, _ := slices.BinarySearchFunc(rows, p, func(r *modelRow, p store.Position) int { return r.place.Compare(p) })
	return i
}

// setRing writes what rings change of a row.
func (db *modelDB) setRing(r *modelRow, row clock.RingRow) {
	r.RingRow = row
	db.move(r)
}

func (r *modelRow) due() store.Due {
	return store.Due{ID: r.ID, NextTryTime: r.NextTryTime, Rank: store.RankOf(&r.Content), Shard: r.Shard,
		Application: r.Application}
}

func (db *modelDB) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	if len(q.Shards) == 0 || q.Limit < 1 {
		panic("a query without shards or limit")
	}
	db.mu.Lock() // a read sees the state at its beginning, and no commits during its latency
	db.dueCalls++
	byShard := map[int][]store.Due{}
	most := q.Limit
	if q.Filtered() {
		most = q.ScanLimit + 1
	}
	for _, shard := range q.Shards {
		rows := db.pending[shard]
		rows = rows[indexOf(rows, q.From):]
		rows = rows[:min(most, indexOf(rows, q.Until))]
		for _, r := range rows {
			byShard[shard] = append(byShard[shard], r.due())
		}
	}
	db.mu.Unlock()
	var rows []store.Due
	for _, shardRows := range byShard {
		if q.Filtered() && len(shardRows) > q.ScanLimit {
			q.EndBefore(shardRows[q.ScanLimit : q.ScanLimit+1])
		}
	}
	for _, shardRows := range byShard {
		shardRows = slices.DeleteFunc(shardRows,
			func(d store.Due) bool { return !q.Admits(d.Addressee()) || !d.Position().Before(q.Until) })
		rows = append(rows, shardRows[:min(len(shardRows), q.Limit)]...)
	}
	page := store.NewDuePage(q, rows)
	db.mu.Lock()
	db.dueRows += len(page.Rows)
	db.mu.Unlock()
	return page, db.enter(ctx)
}

func (db *modelDB) Claim(ctx context.Context, req store.ClaimRequest) (*store.Claim, error) {
	db.mu.Lock()
	db.claimCalls++
	perRow := db.perRow
	db.mu.Unlock()
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	if perRow > 0 {
		time.Sleep(time.Duration(len(req.IDs)) * perRow)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.claimsDone++
	if now := db.clock.now(); req.Now > now {
		panic("a claim in the future")
	}
	var candidates []store.Candidate
	for _, id := range req.IDs {
		if r := db.rows[id]; r != nil && !r.locked {
			candidates = append(candidates, candidate(r))
		}
	}
	j := req.Judge(candidates, db.clock.now())
	c := &store.Claim{Ended: j.EndedAlarms(), Deferred: j.Deferred, AtMostOnce: j.AtMostOnce, Elsewhere: j.Elsewhere}
	for i := range j.Ended {
		db.end(j.Ended[i].ID, j.Ended[i].Fate)
	}
	s := &modelSettler{db: db, request: req, twoPhase: req.Kind() == store.TwoPhase}
	for i := range j.Taken {
		r := db.rows[j.Taken[i].ID]
		ring := ringOf(r, &req)
		c.Rings = append(c.Rings, ring)
		if s.twoPhase || req.AtMostOnce {
			db.setRing(r, req.RowAfterClaim(&ring))
		} else {
			r.locked = true
		}
		if s.twoPhase {
			r.claim = req.ClaimID
		}
		db.claims[r.Application]++
	}
	if len(c.Rings) > 0 {
		s.rings = c.Rings
		c.Settler = s
		db.noteClaim(c.Rings, req.Timeout > 0)
	}
	return c, nil
}

// noteClaim calls onClaim.
func (db *modelDB) noteClaim(rings []clock.Ring, twoPhase bool) {
	if db.onClaim == nil {
		return
	}
	applications := map[string]int{}
	for i := range rings {
		applications[rings[i].Application]++
	}
	db.onClaim(applications, twoPhase)
}

func candidate(r *modelRow) store.Candidate {
	return store.Candidate{
		ID: r.ID, Key: r.Key, Generation: r.Generation, RingRow: r.RingRow, MaxRings: r.MaxRings,
		AckTimeout: r.AckTimeout,
		Delivery:   r.Delivery, LatestRingAt: r.LatestRingAt, Rank: store.RankOf(&r.Content),
		PayloadLength: len(r.Payload), Retry: r.Retry,
	}
}

func ringOf(r *modelRow, request *store.ClaimRequest) clock.Ring {
	c := candidate(r)
	ring := request.Ring(&c)
	ring.Shard, ring.RingAt, ring.Payload, ring.Priority = r.Shard, r.RingAt, r.Payload, r.Priority
	return ring
}

// end writes the fate of an alarm that ends without a ring.
func (db *modelDB) end(id int64, fate clock.Fate) {
	db.setRing(db.rows[id], fate.RingRow)
	db.ended[id] = fate.State
}

func (db *modelDB) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) (store.ExpiredPage, error) {
	if err := db.enter(ctx); err != nil {
		return store.ExpiredPage{Next: from}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	var due []store.Position
	for _, shard := range shards {
		rows, found := db.pending[shard], 0
		for _, r := range rows[indexOf(rows, from):] {
			if r.NextTryTime > now || found > limit {
				break
			}
			if !r.locked {
				due = append(due, r.place)
				found++
			}
		}
	}
	slices.SortFunc(due, store.Position.Compare)
	var next store.Position
	if len(due) > limit {
		next = due[limit]
		due = due[:limit]
	}
	request := store.ClaimRequest{Now: now, EndOnly: true, Named: map[int64]store.Named{}}
	candidates := make([]store.Candidate, len(due))
	for i, p := range due {
		candidates[i] = candidate(db.rows[p.ID])
		request.Named[p.ID] = candidates[i].Addressee().Named
	}
	judged := request.Judge(candidates, db.clock.now())
	for i := range judged.Ended {
		db.end(judged.Ended[i].ID, judged.Ended[i].Fate)
	}
	return store.ExpiredPage{Ended: judged.EndedAlarms(), Next: next}, nil
}

// modelSettler ends one claim.
type modelSettler struct {
	db       *modelDB
	request  store.ClaimRequest
	rings    []clock.Ring
	claimed  []clock.RingRow // rows of the rings as the last settlement wrote them; nil before it
	twoPhase bool
	ended    bool
}

// owns reports whether the row of a ring is still as the claim or its last settlement left it.
func (s *modelSettler) owns(r *modelRow, i int) bool {
	ring := &s.rings[i]
	switch {
	case s.claimed != nil:
		return r.Generation == ring.Generation && r.RingRow == s.claimed[i]
	case s.request.AtMostOnce:
		return r.Generation == ring.Generation && r.State == clock.Rung && r.InDoubt && r.ClaimID == s.request.ClaimID
	case s.twoPhase:
		return r.claim == s.request.ClaimID
	}
	return true
}

func (s *modelSettler) Settle(ctx context.Context, _ clock.Instant, fates []clock.Fate) error {
	if s.db.onSettled != nil {
		defer s.db.onSettled()
	}
	err := s.db.enter(ctx)
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.end()
	commit := err == nil
	if err == nil && len(s.db.loseCommits) > 0 {
		commit, err = s.db.loseCommits[0], errCommitLost
		s.db.loseCommits = s.db.loseCommits[1:]
	}
	for i := range s.rings {
		r := s.db.rows[s.rings[i].AlarmID]
		if !s.owns(r, i) {
			continue
		}
		if commit {
			r.claim = ""
			s.db.setRing(r, fates[i].RingRow)
		}
		if !s.twoPhase && !s.request.AtMostOnce && s.claimed == nil {
			r.locked = false
		}
	}
	if err == nil {
		s.keepAwaited(fates)
	}
	return err
}

// keepAwaited keeps the awaited rings for the next settlement, if there are any.
func (s *modelSettler) keepAwaited(fates []clock.Fate) {
	var rings []clock.Ring
	var claimed []clock.RingRow
	for i := range fates {
		if fates[i].Outcome.Kind == clock.Awaited {
			rings, claimed = append(rings, s.rings[i]), append(claimed, fates[i].RingRow)
		}
	}
	if len(rings) > 0 {
		s.rings, s.claimed = rings, claimed
	}
}

func (s *modelSettler) Release(ctx context.Context) error {
	err := s.db.enter(ctx)
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.end()
	for i := range s.rings {
		r := s.db.rows[s.rings[i].AlarmID]
		switch {
		case !s.twoPhase && !s.request.AtMostOnce:
			r.locked = false
		case err == nil && s.owns(r, i):
			r.claim = ""
			s.db.setRing(r, s.rings[i].Before)
		}
	}
	return err
}

// end checks that a held transaction ends once. The outcome of a committed claim may be written again after an error.
func (s *modelSettler) end() {
	if s.ended && !s.twoPhase && !s.request.AtMostOnce && s.claimed == nil {
		panic("a claim settled twice")
	}
	s.ended = true
}

// rung is one copy of a ring that left the process.
type rung struct {
	id          string // message id
	alarm       int64
	application string
	at          clock.Instant
	ringAt      clock.Instant
	confirmed   bool
	kind        clock.OutcomeKind
	atMostOnce  bool
}

// modelTarget takes rings and returns the outcomes that a test has set.
type modelTarget struct {
	clock   modelClock
	changed chan struct{}
	latency time.Duration
	perRing time.Duration // time from one confirm of a delivery to the next
	late    time.Duration // time from a delivery to its replies, if the lane may wait for late replies; 0: the replies are in time
	stuck   bool          // late rings are stuck
	lateOf  string        // the only application whose replies are late; "": all of them

	mu             sync.Mutex
	down           error
	absent         map[string]bool
	outcomes       map[string]clock.OutcomeKind // outcomes by application; the others are confirmed
	refused        map[string]bool              // business ids that the target refuses, with all later rings of the batch
	wholeBatches   bool                         // the target refuses all of a batch with a refused ring, and stores none
	nacked         map[string]bool              // business ids that the target nacks
	rungs          []rung
	closed         int
	lanes          int
	openCalls      int // calls of Open
	lateDeliveries int // deliveries whose late replies are awaited

	openBlocks         bool // Open blocks
	openFails          bool // Open fails
	openFull           bool // Open waits for late replies, at most 3 s
	breaksAtOpen       bool // a lane breaks as soon as it is open
	breaksWithoutReply bool // a lane breaks when a ring has no reply
	openLanes          map[*modelLane]bool
}

func newModelTarget(c modelClock) *modelTarget {
	return &modelTarget{
		clock: c, changed: make(chan struct{}, 1), absent: map[string]bool{}, outcomes: map[string]clock.OutcomeKind{},
		refused: map[string]bool{}, nacked: map[string]bool{}, openLanes: map[*modelLane]bool{},
	}
}

func (t *modelTarget) Usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.down
}

func (t *modelTarget) Accepts(application string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.absent[application] {
		return errors.New("no receiver of the model")
	}
	return nil
}

func (t *modelTarget) Changed() <-chan struct{} { return t.changed }

func (t *modelTarget) Lane(int) ring.Lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes++
	l := &modelLane{target: t, broken: make(chan struct{})}
	close(l.broken)
	return l
}

// update changes the target with f, and signals Changed.
func (t *modelTarget) update(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *modelTarget) respond(application string, kind clock.OutcomeKind) {
	t.update(func() { t.outcomes[application] = kind })
}

func (t *modelTarget) slow(latency time.Duration) { t.update(func() { t.latency = latency }) }

func (t *modelTarget) setDown(err error) { t.update(func() { t.down = err }) }

func (t *modelTarget) all() []rung {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rungs)
}

// of returns the copies of an application's rings.
func (t *modelTarget) ofApplication(application string) []rung {
	return slices.DeleteFunc(t.all(), func(r rung) bool { return r.application != application })
}

// modelLane is a lane of a modelTarget. It opens and breaks as the target's fields say.
type modelLane struct {
	target *modelTarget
	broken chan struct{} // closed: the lane is not open
}

func (l *modelLane) Open(ctx context.Context, _ int) error {
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	l.target.openCalls++
	for l.target.openBlocks && ctx.Err() == nil {
		l.target.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		l.target.mu.Lock()
	}
	for begun := time.Now(); l.target.openFull && ctx.Err() == nil; {
		if time.Since(begun) >= 3*time.Second {
			return ring.ErrLaneFull
		}
		l.target.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		l.target.mu.Lock()
	}
	if l.target.openFails {
		return errDown
	}
	l.broken = make(chan struct{})
	l.target.openLanes[l] = true
	if l.target.breaksAtOpen {
		l.target.breakLane(l)
	}
	return nil
}

// breakLane breaks an open lane. The caller holds mu.
func (t *modelTarget) breakLane(l *modelLane) {
	if t.openLanes[l] {
		delete(t.openLanes, l)
		close(l.broken)
	}
}

// breakLanes breaks all open lanes.
func (t *modelTarget) breakLanes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.openLanes {
		t.breakLane(l)
	}
}

func (l *modelLane) Broken() <-chan struct{} { return l.broken }

func (l *modelLane) Close() error {
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	l.target.closed++
	return nil
}

// deliverLate publishes the rings, waits until the reply limit, and hands the rings to limits.Await. Without it they
// are in doubt.
func (l *modelLane) deliverLate(rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	l.target.mu.Lock()
	late := &modelLate{target: l.target, rings: rings, replies: time.Now().Add(l.target.late),
		final: make([]clock.Outcome, len(rings))}
	for i := range rings {
		if l.target.lateOf != "" && rings[i].Application != l.target.lateOf {
			late.final[i].Kind = clock.Confirmed
			if l.target.nacked[rings[i].BusinessID] {
				late.final[i].Kind = clock.Nacked
			}
		}
		l.target.rungs = append(l.target.rungs, rung{
			id: rings[i].MessageID(), alarm: rings[i].AlarmID, application: rings[i].Application,
			at: l.target.clock.now(), ringAt: rings[i].RingAt,
			kind: clock.Awaited, atMostOnce: rings[i].Delivery == clock.AtMostOnce,
		})
	}
	l.target.lateDeliveries++
	l.target.mu.Unlock()
	time.Sleep(time.Until(limits.ReplyBy))
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	l.target.breakLane(l)
	if limits.Await == nil {
		l.target.mu.Unlock()
		late.End()
		l.target.mu.Lock()
	} else {
		limits.Await(late)
	}
	outcomes := make([]clock.Outcome, len(rings))
	for i := range outcomes {
		outcomes[i].Kind = cmp.Or(late.final[i].Kind, clock.Awaited)
	}
	return outcomes
}

// isLate reports whether a delivery of the rings waits for late replies.
func (t *modelTarget) isLate(rings []clock.Ring) bool {
	return t.late > 0 &&
		(t.lateOf == "" || slices.ContainsFunc(rings, func(r clock.Ring) bool { return r.Application == t.lateOf }))
}

// modelLate are the rings of a delivery whose replies are late.
type modelLate struct {
	target  *modelTarget
	rings   []clock.Ring
	replies time.Time       // time of the replies
	final   []clock.Outcome // outcomes that are known; zero: none yet
	ended   bool
}

func (l *modelLate) Outcomes() []clock.Outcome {
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	outcomes := make([]clock.Outcome, len(l.rings))
	for i := range l.rings {
		if f := &l.final[i]; f.Kind == 0 && !l.ended && !time.Now().Before(l.replies) {
			f.Kind = cmp.Or(l.target.outcomes[l.rings[i].Application], clock.Confirmed)
			f.Reason = "late: " + f.Kind.String()
		}
		outcomes[i] = l.final[i]
		if outcomes[i].Kind == 0 {
			outcomes[i].Kind = clock.Awaited
		}
	}
	return outcomes
}

func (l *modelLate) Stuck() bool {
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	return l.target.stuck
}

func (l *modelLate) End() {
	_ = l.Outcomes()
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.target.lateDeliveries--
	for i := range l.final {
		if l.final[i].Kind == 0 {
			l.final[i] = clock.Outcome{Kind: clock.Doubtful, Reason: "no late reply"}
		}
	}
}

func (l *modelLane) Deliver(_ context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	l.target.mu.Lock()
	if l.target.isLate(rings) {
		l.target.mu.Unlock()
		return l.deliverLate(rings, limits)
	}
	outcomes := make([]clock.Outcome, len(rings))
	until, refused := time.Now().Add(l.target.latency), false
	if l.target.wholeBatches {
		refused = slices.ContainsFunc(rings, func(r clock.Ring) bool { return l.target.refused[r.BusinessID] })
	}
	for i := range rings {
		r := &rings[i]
		kind := cmp.Or(l.target.outcomes[r.Application], clock.Confirmed)
		if l.target.isLate(rings[i : i+1]) {
			kind = clock.Doubtful // the caller does not wait
		}
		refused = refused || l.target.refused[r.BusinessID]
		switch {
		case time.Now().After(limits.WriteBy) || l.target.down != nil:
			kind = clock.Unsent
		case l.target.nacked[r.BusinessID]:
			kind = clock.Nacked
		case refused:
			kind = clock.Refused
		case kind == clock.Doubtful:
			until = limits.ReplyBy
		case kind == clock.Untaken:
			until = limits.WriteBy
		}
		if kind == clock.Confirmed && l.target.perRing > 0 {
			until = until.Add(l.target.perRing)
			if until.After(limits.ReplyBy) {
				kind, until = clock.Doubtful, limits.ReplyBy
			}
		}
		outcomes[i] = clock.Outcome{Kind: kind, Reason: kind.String(),
			Unstored: kind == clock.Refused && l.target.wholeBatches}
		if kind != clock.Unsent && kind != clock.Untaken {
			l.target.rungs = append(l.target.rungs, rung{
				id: r.MessageID(), alarm: r.AlarmID, application: r.Application, at: l.target.clock.now(),
				ringAt:    r.RingAt,
				confirmed: kind == clock.Confirmed, kind: kind, atMostOnce: r.Delivery == clock.AtMostOnce,
			})
		}
	}
	l.target.mu.Unlock()
	l.wait(rings, outcomes, until, limits.OnConfirmed)
	l.target.mu.Lock()
	defer l.target.mu.Unlock()
	if l.target.breaksWithoutReply && until.Equal(limits.ReplyBy) {
		l.target.breakLane(l)
	}
	return outcomes
}

// wait waits for the replies until a time. While some rings have no reply, it calls confirmed for the confirmed ones.
// It also confirms a ring in doubt when its application's outcome changes to confirmed.
func (l *modelLane) wait(rings []clock.Ring, outcomes []clock.Outcome, until time.Time, confirmed func(int)) {
	if confirmed == nil {
		time.Sleep(time.Until(until))
		return
	}
	reported := map[int]bool{}
	for time.Until(until) > 0 {
		time.Sleep(min(10*time.Millisecond, time.Until(until)))
		doubtful := false
		l.target.mu.Lock()
		for i := range rings {
			if outcomes[i].Kind == clock.Doubtful && l.target.outcomes[rings[i].Application] == clock.Confirmed {
				outcomes[i].Kind = clock.Confirmed
				l.target.confirm(rings[i].MessageID())
			}
			if outcomes[i].Kind == clock.Confirmed && !reported[i] {
				reported[i] = true
				confirmed(i)
			}
			doubtful = doubtful || outcomes[i].Kind == clock.Doubtful
		}
		latency := l.target.latency
		l.target.mu.Unlock()
		if !doubtful && latency == 0 {
			return
		}
	}
}

// confirm notes that the last ring with the message id was confirmed after all. The caller holds mu.
func (t *modelTarget) confirm(messageID string) {
	for i := len(t.rungs) - 1; i >= 0; i-- {
		if t.rungs[i].id == messageID {
			t.rungs[i].confirmed = true
			return
		}
	}
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

func (o *modelOwner) Rings(int, store.Addressee) bool { return true }

// Gained returns all shards. Reading them again costs only work.
func (o *modelOwner) Gained() (shards []int, applications []string) { return o.Shards(), nil }

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
