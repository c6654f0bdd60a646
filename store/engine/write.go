package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// ErrKeyExists is the error of WriteTx.Insert on an engine that cannot tell which keys exist. Nothing was inserted.
var ErrKeyExists = errors.New("a key exists or is locked")

// ErrReplay ends a transaction whose rows changed after it read them. The transaction is rolled back and runs again.
var ErrReplay = errors.New("rows changed meanwhile")

// UncommittedKey replaces the id of a row whose key another transaction has inserted and not committed. Whether the key
// exists is not known yet. The op gets the verdict clock.Locked.
const UncommittedKey int64 = -1

// maxRefusals bounds how many refusals ByHalves accepts. Each refusal costs a statement or a short wait. One locked
// element among 500 costs 10 refusals.
const maxRefusals = 32

// ByHalves runs a statement that the server refuses as a whole if a row or a key is locked. It halves each refused
// part, until the locked elements are alone. After maxRefusals refusals it treats all elements of a refused part as
// locked. It returns the results of run in the order of all. ofLocked returns the results of locked elements.
func ByHalves[T, R any](
	all []T, run func(part []T) (results []R, refused bool, err error), ofLocked func(part []T) []R,
) ([]R, error) {
	refusals := 0
	var runPart func(part []T) ([]R, error)
	runPart = func(part []T) ([]R, error) {
		results, refused, err := run(part)
		if err != nil || !refused {
			return results, err
		}
		if refusals++; len(part) == 1 || refusals > maxRefusals {
			return ofLocked(part), nil
		}
		first, err := runPart(part[:len(part)/2])
		if err != nil {
			return nil, err
		}
		second, err := runPart(part[len(part)/2:])
		return append(first, second...), err
	}
	return runPart(all)
}

// InsertByHalves inserts rows, some with uncommitted keys, by ByHalves. It returns the ids.
func InsertByHalves(
	rows []*clock.Alarm, insert func(part []*clock.Alarm) (ids []int64, refused bool, err error),
) ([]int64, error) {
	return ByHalves(rows, insert,
		func(part []*clock.Alarm) []int64 { return slices.Repeat([]int64{UncommittedKey}, len(part)) })
}

// Change is one row to rewrite: Old is the locked row, New is the row to write. If the generations differ, the change
// also rewrites the content of the set. If they are equal (cancel, answer, resend, kick, discard, pause, resume,
// recomputation), it does not touch payload and claim_id.
type Change struct {
	Old, New *clock.Alarm
	Attempt  *clock.Attempt // attempt to keep with the row; nil for none
}

// IsCancel reports whether the change is a cancel of an unfinished alarm.
func (c *Change) IsCancel() bool {
	return c.New.State == clock.Cancelled && c.New.Generation == c.Old.Generation && !c.Old.State.Over()
}

// SetRows sets row to the row to write. In old it sets id, generation and the columns that a ring changes to their
// values before.
func (c *Change) SetRows(row, old *Row) {
	row.SetAlarm(c.New)
	old.SetRing(c.Old.ID, c.Old.Generation, &c.Old.RingRow)
}

// ChangeAttempts returns the attempts that the changes add.
func ChangeAttempts(changes []Change) []store.AlarmAttempt {
	var attempts []store.AlarmAttempt
	for _, c := range changes {
		if c.Attempt != nil {
			attempts = append(attempts, store.AlarmAttempt{AlarmID: c.Old.ID, Attempt: *c.Attempt})
		}
	}
	return attempts
}

// WriteTx is one open write transaction at READ COMMITTED.
type WriteTx interface {
	Tx
	ActsTx
	// Insert inserts the rows and returns their ids in order. Rows with an id keep it. The id is 0 if the key exists,
	// and UncommittedKey if another open transaction has inserted it. An engine that cannot tell which keys exist
	// returns ErrKeyExists instead. Insert does not wait for a row that is locked elsewhere. absent says that the keys
	// were just read as absent, so the insert probably succeeds.
	Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error)
	// Cancel cancels the alarms of the keys that are scheduled, not locked and not in doubt. now is when they end. It
	// returns the cancelled alarms in any order; with brief it may return them as CancelledAlarm does. It may leave any
	// alarm to Lock and Update. An engine that gains nothing from Cancel leaves all alarms.
	Cancel(ctx context.Context, keys []clock.Key, now clock.Instant, brief bool) ([]clock.Alarm, error)
	// Lock locks the existing rows of the keys and returns them in any order. It skips rows locked elsewhere; with wait
	// > 0 it first waits that long for them. With brief it leaves out the payload, and may leave out each column that
	// no cancel needs. A cancel needs key, id, shard, state, generation, next_try_time, last_error, in_doubt and
	// rung_at.
	Lock(ctx context.Context, keys []clock.Key, wait time.Duration, brief bool) ([]clock.Alarm, error)
	// Read returns the existing rows of the keys as last committed. It does not lock them.
	Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error)
	// Update rewrites the rows and returns how many it rewrote. It rewrites a row only while id, generation and state
	// equal the values in Old. For an answer, a resend, a kick, a discard, a pause, a resume or a recomputation,
	// ring_no must equal the value in Old too. Where Lock may not lock, in_doubt must too. Update adds the attempts of
	// the changes and keeps the newest clock.MaxAttempts of each row.
	Update(ctx context.Context, changes []Change) (int, error)
	// PutZones notes the time zones of rows that this transaction has inserted or rewritten. zones has at least one
	// element, by id.
	PutZones(ctx context.Context, zones []AlarmZone) error
	// PutRepeating notes alarms with a rule that this transaction has inserted or rewritten. alarms has at least one
	// element, by id. An engine with an index of such alarms alone does nothing.
	PutRepeating(ctx context.Context, alarms []AlarmKey) error
	// Restore inserts rows with all their columns, and returns their ids in order. The database gives the ids, unless a
	// row has one. The keys were just read as absent. If one exists nevertheless, Restore returns ErrKeyExists, or an
	// error that replays the transaction.
	Restore(ctx context.Context, rows []*Row) ([]int64, error)
	// AddAttempts adds attempts of restored rows, and keeps the newest clock.MaxAttempts of each row.
	AddAttempts(ctx context.Context, attempts []store.AlarmAttempt) error
	// Delete deletes an alarm without attempts and returns how many it deleted.
	Delete(ctx context.Context, id int64) (int64, error)
}

// Write applies the ops of each placement in one transaction. If some of these transactions fail, their ops are
// refused.
func (s *Store) Write(ctx context.Context, r clock.WriteRequest) ([]clock.Decision, error) {
	ctx, cancel := s.deadlineWith(ctx, r.LockWait)
	defer cancel()
	known := s.known.Load()
	parts := known.placements.split(len(r.Ops),
		func(i int) int { return known.placements.of(r.Ops[i].Key().Shard(known.shards)) })
	ids, err := s.newIDs(ctx, len(r.Ops), func(i int) clock.Key { return r.Ops[i].Key() })
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 {
		return s.writePart(ctx, r, parts[0].placement, ids)
	}
	decisions := make([]clock.Decision, len(r.Ops))
	errs := eachPart(parts, func(_ int, p *part) error {
		own := r
		own.Ops, own.LoadBytes = pick(r.Ops, p.indexes), p.share(r.LoadBytes, len(r.Ops))
		written, err := s.writePart(ctx, own, p.placement, pick(ids, p.indexes))
		for i, index := range p.indexes {
			if err != nil {
				decisions[index] = clock.Decision{Verdict: clock.Refuse, Err: err}
			} else {
				decisions[index] = written[i]
			}
		}
		return err
	})
	if err := allFailed(errs); err != nil {
		return nil, err
	}
	return decisions, nil
}

// writePart applies ops of one placement in one transaction, and again after a definite rollback. After a try that
// waited in vain for a lock, the next tries lock first. ids are the ids of the alarms that the ops create; nil: the
// database gives them.
func (s *Store) writePart(
	ctx context.Context, r clock.WriteRequest, placement int, ids []int64,
) (decisions []clock.Decision, err error) {
	try := WriteTry{Wait: r.LockWait, Shards: s.ShardCount(), Placement: placement}
	err = s.replay(ctx, func() error {
		err := InTx(ctx, func(ctx context.Context) (WriteTx, error) { return s.driver.BeginWrite(ctx, try) }, func(t WriteTx) (err error) {
			decisions, err = applyGroup(ctx, t, r, try.Shards, ids)
			return err
		})
		try.Number++
		try.LockFirst = try.LockFirst || err != nil && s.driver.Classify(err) == LockTimeout
		return err
	})
	if err != nil {
		return nil, s.mapError(ctx, "write", err)
	}
	return decisions, nil
}

// applyGroup applies a group of ops within tx. Without LockWait it first offers the common cases to the engine, in one
// statement each: Insert inserts sets as if all keys were new, and Cancel cancels alarms as if all were scheduled. An
// engine that gains nothing from that leaves the rows. applyGroup then locks, decides and rewrites the remaining rows.
// The caller commits, or rolls back on an error. After ErrReplay it runs the transaction again.
func applyGroup(
	ctx context.Context, tx WriteTx, r clock.WriteRequest, shardCount int, ids []int64,
) ([]clock.Decision, error) {
	w := write{
		tx: tx, WriteRequest: r, shardCount: shardCount, ids: ids, decisions: make([]clock.Decision, len(r.Ops)),
		largestPayload: max(1, r.LargestPayload),
	}
	if r.LockWait == 0 {
		if err := w.insertFirst(ctx); err != nil {
			return nil, err
		}
		if err := w.cancelFirst(ctx); err != nil {
			return nil, err
		}
	}
	if err := w.decideRest(ctx); err != nil {
		return nil, err
	}
	return w.decisions, w.noteSchedules(ctx)
}

// write is the state of one call of applyGroup.
type write struct {
	clock.WriteRequest
	tx             WriteTx
	shardCount     int
	ids            []int64          // ids of the alarms that the ops create; nil: the database gives them
	decisions      []clock.Decision // in the order of Ops; Verdict 0 means undecided
	loadedBytes    int              // bytes of stored payloads read so far
	largestPayload int              // most bytes that the next row's payload may have
}

// noteSchedules notes the time zones and the rules of the alarms that the decisions created or gave new content.
func (w *write) noteSchedules(ctx context.Context) error {
	var notes scheduleNotes
	for i := range w.decisions {
		switch d := &w.decisions[i]; d.Verdict {
		case clock.Create, clock.Replace, clock.Rearm:
			notes.add(d.Alarm.ID, &d.Alarm)
		default:
		}
	}
	return notes.put(ctx, w.tx)
}

// insertFirst inserts the sets that create an alarm if their key is new, and decides the sets with a new key.
func (w *write) insertFirst(ctx context.Context) error {
	fresh := make([]int, 0, len(w.Ops))
	for i, op := range w.Ops {
		if op.Set == nil {
			continue
		}
		if d := op.Decide(nil, w.Now); d.Verdict == clock.Create {
			w.decisions[i] = d
			fresh = append(fresh, i)
		}
	}
	err := w.insertNew(ctx, fresh, false)
	if errors.Is(err, ErrKeyExists) {
		return nil
	}
	return err
}

// cancelFirst cancels scheduled alarms without a condition and an actor. Its verdict equals the verdict of
// clock.Op.Decide on such a row.
func (w *write) cancelFirst(ctx context.Context) error {
	var keys []clock.Key
	brief := true
	for _, op := range w.Ops {
		if isUnconditionalCancel(op) {
			keys = append(keys, op.Key())
			brief = brief && op.Cancel.Brief
		}
	}
	stopped, _, err := w.loadRows(keys, brief,
		func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Cancel(ctx, keys, w.Now, brief) })
	if err != nil {
		return err
	}
	for i, op := range w.Ops {
		if row := stopped[op.Key()]; row != nil && isUnconditionalCancel(op) {
			w.decisions[i] = clock.Decision{Verdict: clock.Disarm, Alarm: *row, Unscheduled: true}
		}
	}
	return nil
}

// CancelledAlarm returns an alarm that was cancelled at now, with no more fields than clock.Cancel.Brief asks for.
func CancelledAlarm(id int64, key clock.Key, shard int, generation int64, now clock.Instant) clock.Alarm {
	return clock.Alarm{
		ID: id, Key: key, Shard: shard, Generation: generation,
		RingRow: clock.RingRow{State: clock.Cancelled, NextTryTime: clock.NoInstant, UpdateTime: now, FinishedAt: now},
	}
}

func isUnconditionalCancel(op clock.Op) bool {
	return op.Cancel != nil && op.Cancel.If.Kind == clock.AnyRow && op.Actor == nil // an actor's cancel is recorded
}

// insertNew inserts the rows of the ops at the indexes, which have the decision Create. An op whose row was not inserted
// is undecided again, or waits for its row.
func (w *write) insertNew(ctx context.Context, opIndexes []int, absent bool) error {
	if len(opIndexes) == 0 {
		return nil
	}
	rows := make([]*clock.Alarm, len(opIndexes))
	for i, opIndex := range opIndexes {
		rows[i] = &w.decisions[opIndex].Alarm
		rows[i].Shard = rows[i].Key.Shard(w.shardCount)
		if w.ids != nil {
			rows[i].ID = w.ids[opIndex]
		}
	}
	ids, err := w.tx.Insert(ctx, rows, absent)
	for i, opIndex := range opIndexes {
		switch {
		case err != nil || ids[i] == 0:
			w.decisions[opIndex] = clock.Decision{}
		case ids[i] == UncommittedKey:
			w.decisions[opIndex] = clock.Decision{Verdict: clock.Locked}
		default:
			rows[i].ID = ids[i]
		}
	}
	return err
}

// decideRest locks the rows of the undecided ops, decides these ops and writes the rows.
func (w *write) decideRest(ctx context.Context) error {
	var keys []clock.Key
	brief := true
	for i, op := range w.Ops {
		if w.decisions[i].Verdict == 0 {
			keys = append(keys, op.Key())
			brief = brief && op.Cancel != nil && op.Cancel.Brief
		}
	}
	if len(keys) == 0 {
		return nil
	}
	locked, later, err := w.loadRows(keys, brief,
		func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Lock(ctx, keys, w.LockWait, brief) })
	if err != nil {
		return err
	}
	w.postpone(later)
	lockedElsewhere, later, err := w.loadRows(keysWithout(keys[:len(keys)-len(later)], locked), false,
		func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Read(ctx, keys) })
	if err != nil {
		return err
	}
	w.postpone(later)
	return w.decideRows(ctx, locked, lockedElsewhere)
}

// loadRows returns the rows of the keys, by key, as read returns them. If rows come with payloads, it reads only as
// many as stay within LoadBytes even when each has the largest payload. A write loads at least one row. loadRows
// returns the keys that it did not read.
func (w *write) loadRows(
	keys []clock.Key, withoutPayloads bool, read func([]clock.Key) ([]clock.Alarm, error),
) (byKey map[clock.Key]*clock.Alarm, later []clock.Key, err error) {
	byKey = make(map[clock.Key]*clock.Alarm, len(keys))
	for len(keys) > 0 {
		piece := len(keys)
		if w.LoadBytes > 0 && !withoutPayloads {
			piece = min(piece, (w.LoadBytes-w.loadedBytes)/w.largestPayload)
		}
		if piece <= 0 {
			if w.loadedBytes > 0 {
				break
			}
			piece = 1
		}
		rows, err := read(keys[:piece])
		if err != nil {
			return nil, nil, err
		}
		for i := range rows {
			byKey[rows[i].Key] = &rows[i]
			w.loadedBytes += len(rows[i].Payload)
			w.largestPayload = max(w.largestPayload, len(rows[i].Payload))
		}
		keys = keys[piece:]
	}
	return byKey, keys, nil
}

// postpone gives the verdict Postpone to the undecided ops on the keys.
func (w *write) postpone(keys []clock.Key) {
	if len(keys) == 0 {
		return
	}
	later := make(map[clock.Key]bool, len(keys))
	for _, k := range keys {
		later[k] = true
	}
	for i, op := range w.Ops {
		if w.decisions[i].Verdict == 0 && later[op.Key()] {
			w.decisions[i].Verdict = clock.Postpone
		}
	}
}

// decideRows decides the undecided ops and writes their rows. locked holds rows that this transaction has locked,
// lockedElsewhere rows that another transaction has locked.
func (w *write) decideRows(ctx context.Context, locked, lockedElsewhere map[clock.Key]*clock.Alarm) error {
	var changes []Change
	var acts []clock.Act
	var absent []int
	for i, op := range w.Ops {
		if w.decisions[i].Verdict != 0 {
			continue
		}
		if row := lockedElsewhere[op.Key()]; row != nil {
			w.decisions[i] = clock.Decision{Verdict: clock.Locked, Alarm: *row}
			continue
		}
		row := locked[op.Key()]
		if row != nil && !row.State.Known() {
			w.decisions[i] = refuseUnreadable(row)
			continue
		}
		d := op.Decide(row, w.Now)
		w.decisions[i] = d
		if d.Verdict == clock.Create {
			absent = append(absent, i)
			continue
		}
		if d.Writes() {
			changes = append(changes, Change{Old: row, New: &w.decisions[i].Alarm, Attempt: d.Attempt})
			if op.Actor != nil {
				acts = append(acts, clock.ActOn(op, row, &w.decisions[i].Alarm, w.Now))
			}
		}
	}
	if err := w.writeRows(ctx, changes, absent); err != nil {
		return err
	}
	return addActs(ctx, w.tx, acts...)
}

// refuseUnreadable refuses an op on a row whose state is unknown. A claim ends such a row as dead when it is due.
func refuseUnreadable(row *clock.Alarm) clock.Decision {
	return clock.Decision{Verdict: clock.Refuse, Alarm: *row, Err: &clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
		Detail: "the alarm is stored with an unknown state: it becomes dead once it is due",
	}}
}

func (w *write) writeRows(ctx context.Context, changes []Change, absent []int) error {
	if err := w.insertNew(ctx, absent, true); err != nil {
		if errors.Is(err, ErrKeyExists) {
			return ErrReplay
		}
		return err
	}
	for _, i := range absent {
		if w.decisions[i].Verdict == 0 {
			return ErrReplay // another transaction created the alarm after the key was read as absent
		}
	}
	if len(changes) == 0 {
		return nil
	}
	n, err := w.tx.Update(ctx, changes)
	if err == nil && n != len(changes) {
		return ErrReplay
	}
	return err
}

// keysWithout returns the keys that have no row in found.
func keysWithout(keys []clock.Key, found map[clock.Key]*clock.Alarm) []clock.Key {
	rest := make([]clock.Key, 0, len(keys)-len(found))
	for _, k := range keys {
		if found[k] == nil {
			rest = append(rest, k)
		}
	}
	return rest
}
