package store

import (
	"context"
	"errors"
	"time"

	"github.com/clockd/clockd/clock"
)

// ErrKeyExists is WriteTx.Insert's answer on an engine that cannot tell which keys exist: nothing was inserted.
var ErrKeyExists = errors.New("a key exists or is locked")

// ErrReplay ends a write transaction whose rows changed between reading and writing: roll back and begin again.
var ErrReplay = errors.New("rows changed meanwhile")

// Change is a row to be rewritten: Old as it was locked, New as it is to be. A change of another generation rewrites what a set
// says; one of the same generation (a cancel, an answer, a kick, a discard) does not touch payload and claim_id.
type Change struct {
	Old, New *clock.Alarm
	Attempt  *clock.Attempt // to be kept with the row; nil for none
}

// Stops reports whether a cancel made the change.
func (c *Change) Stops() bool {
	return c.New.State == clock.Cancelled && c.New.Generation == c.Old.Generation && !c.Old.State.Over()
}

// AttemptsOf returns the attempts that the changes add.
func AttemptsOf(changes []Change) []Attempted {
	var attempts []Attempted
	for _, c := range changes {
		if c.Attempt != nil {
			attempts = append(attempts, Attempted{AlarmID: c.Old.ID, Attempt: *c.Attempt})
		}
	}
	return attempts
}

// WriteTx is one open write transaction, READ COMMITTED, as an adapter offers it to Write.
type WriteTx interface {
	// Insert adds the rows and returns their ids in order, 0 where the key exists; or ErrKeyExists. It does not wait for
	// a row that is locked elsewhere. absent says that the keys were read as absent just now: an insert is then
	// likely to succeed.
	Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error)
	// Cancel stops at now those rows of the keys that are scheduled, free and not in doubt, and returns them as they are then, in
	// any order; of rows that are asked for briefly it may return what StoppedAlarm does. It may leave any of them to Lock and
	// Update, which an engine that gains nothing here does with all.
	Cancel(ctx context.Context, keys []clock.Key, now clock.Instant, briefly bool) ([]clock.Alarm, error)
	// Lock returns, locked, those rows of the keys that exist and are free, in any order; with wait > 0 it waits that long
	// for rows locked elsewhere. Of rows that are asked for briefly it may leave out what no cancel is decided by: all but key, id, shard,
	// state, generation, next_try_time, last_error, in_doubt and rung_at.
	Lock(ctx context.Context, keys []clock.Key, wait time.Duration, briefly bool) ([]clock.Alarm, error)
	// Read returns those rows of the keys that exist, as last committed, without locking.
	Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error)
	// Update rewrites the rows, each only while it still has Old's id, generation and state, and one that was answered, kicked
	// or discarded only while it has Old's ring_no, and returns how many it rewrote. It adds their attempts and keeps
	// the newest clock.MaxAttempts of each row.
	Update(ctx context.Context, changes []Change) (int, error)
}

// Write applies a group of ops within tx: the plan that all engines share. Sets are first inserted as if all keys were
// new, and cancels made as if all their alarms were scheduled, the common cases, in one statement each; what is left is then
// locked, decided and rewritten. The caller commits, or rolls back on an error; on ErrReplay it begins again.
func Write(ctx context.Context, tx WriteTx, r clock.WriteRequest, shardCount int) ([]clock.Decision, error) {
	w := write{tx: tx, WriteRequest: r, shardCount: shardCount, decisions: make([]clock.Decision, len(r.Ops))}
	if r.Wait == 0 {
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
	return w.decisions, nil
}

// write is the state of one Write.
type write struct {
	clock.WriteRequest
	tx         WriteTx
	shardCount int
	decisions  []clock.Decision // in the order of Ops; Verdict 0: not yet decided
}

// insertFirst inserts the sets that would create, and decides those whose key was new.
func (w *write) insertFirst(ctx context.Context) error {
	fresh := make([]int, 0, len(w.Ops))
	for i, op := range w.Ops {
		if op.Set != nil && op.Set.If.Kind != clock.AtGeneration {
			fresh = append(fresh, i)
		}
	}
	err := w.create(ctx, fresh, false)
	if errors.Is(err, ErrKeyExists) {
		return nil
	}
	return err
}

// cancelFirst makes the cancels that need no more than a scheduled alarm. Its answer is what clock.Op.Decide says of such a row.
func (w *write) cancelFirst(ctx context.Context) error {
	var keys []clock.Key
	briefly := true
	for _, op := range w.Ops {
		if plainCancel(op) {
			keys = append(keys, op.Key())
			briefly = briefly && op.Cancel.Brief
		}
	}
	stopped, err := rowsOf(keys, func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Cancel(ctx, keys, w.Now, briefly) })
	if err != nil {
		return err
	}
	for i, op := range w.Ops {
		if row := stopped[op.Key()]; row != nil && plainCancel(op) {
			w.decisions[i] = clock.Decision{Verdict: clock.Stop, Alarm: *row}
		}
	}
	return nil
}

// StoppedAlarm returns an alarm that was cancelled at now, as briefly as clock.Cancel.Brief allows.
func StoppedAlarm(id int64, key clock.Key, shard int, generation int64, now clock.Instant) clock.Alarm {
	return clock.Alarm{
		ID: id, Key: key, Shard: shard, State: clock.Cancelled, Generation: generation,
		NextTryTime: clock.NoInstant, UpdateTime: now, FinishedAt: now,
	}
}

func plainCancel(op clock.Op) bool { return op.Cancel != nil && op.Cancel.If.Kind == clock.AnyRow }

// create inserts the rows of the ops at the indexes, and decides those that were inserted.
func (w *write) create(ctx context.Context, at []int, absent bool) error {
	if len(at) == 0 {
		return nil
	}
	rows := make([]*clock.Alarm, len(at))
	for i, k := range at {
		w.decisions[k] = w.Ops[k].Decide(nil, w.Now)
		rows[i] = &w.decisions[k].Alarm
		rows[i].Shard = rows[i].Key.Shard(w.shardCount)
	}
	ids, err := w.tx.Insert(ctx, rows, absent)
	for i, k := range at {
		if err != nil || ids[i] == 0 {
			w.decisions[k] = clock.Decision{}
			continue
		}
		rows[i].ID = ids[i]
	}
	return err
}

// decideRest locks what the remaining ops are about, decides and writes.
func (w *write) decideRest(ctx context.Context) error {
	var keys []clock.Key
	briefly := true
	for i, op := range w.Ops {
		if w.decisions[i].Verdict == 0 {
			keys = append(keys, op.Key())
			briefly = briefly && op.Cancel != nil && op.Cancel.Brief
		}
	}
	if len(keys) == 0 {
		return nil
	}
	locked, err := rowsOf(keys, func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Lock(ctx, keys, w.Wait, briefly) })
	if err != nil {
		return err
	}
	held, err := rowsOf(without(keys, locked), func(keys []clock.Key) ([]clock.Alarm, error) { return w.tx.Read(ctx, keys) })
	if err != nil {
		return err
	}
	return w.apply(ctx, locked, held)
}

// rowsOf returns what read finds of the keys, by key.
func rowsOf(keys []clock.Key, read func([]clock.Key) ([]clock.Alarm, error)) (map[clock.Key]*clock.Alarm, error) {
	byKey := make(map[clock.Key]*clock.Alarm, len(keys))
	if len(keys) == 0 {
		return byKey, nil
	}
	rows, err := read(keys)
	for i := range rows {
		byKey[rows[i].Key] = &rows[i]
	}
	return byKey, err
}

// apply decides the remaining ops over the rows that were found locked by us and held by others, and writes.
func (w *write) apply(ctx context.Context, locked, held map[clock.Key]*clock.Alarm) error {
	var changes []Change
	var absent []int
	for i, op := range w.Ops {
		if w.decisions[i].Verdict != 0 {
			continue
		}
		if row := held[op.Key()]; row != nil {
			w.decisions[i] = clock.Decision{Verdict: clock.Wait, Alarm: *row}
			continue
		}
		row := locked[op.Key()]
		d := op.Decide(row, w.Now)
		if d.Verdict == clock.Create {
			absent = append(absent, i)
			continue
		}
		w.decisions[i] = d
		if d.Writes() {
			changes = append(changes, Change{Old: row, New: &w.decisions[i].Alarm, Attempt: d.Attempt})
		}
	}
	return w.commitRows(ctx, changes, absent)
}

func (w *write) commitRows(ctx context.Context, changes []Change, absent []int) error {
	if err := w.create(ctx, absent, true); err != nil {
		if errors.Is(err, ErrKeyExists) {
			return ErrReplay
		}
		return err
	}
	for _, i := range absent {
		if w.decisions[i].Verdict == 0 {
			return ErrReplay // somebody created it after it was read as absent
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

// without returns the keys that are not in found.
func without(keys []clock.Key, found map[clock.Key]*clock.Alarm) []clock.Key {
	rest := make([]clock.Key, 0, len(keys)-len(found))
	for _, k := range keys {
		if found[k] == nil {
			rest = append(rest, k)
		}
	}
	return rest
}
