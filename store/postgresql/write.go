package postgresql

import (
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var _ engine.WriteTx = (*writeTx)(nil)

// BeginWrite begins the transaction of one group.
func (d *Driver) BeginWrite(ctx context.Context, try engine.WriteTry) (engine.WriteTx, error) {
	t, err := beginGuarded(ctx, d.pool, max(lockWait, try.Wait))
	if err != nil {
		return nil, err
	}
	t.shards = d.ofPlacement(try.Placement)
	return &writeTx{tx: t, d: d, q: d.q, lockFirst: try.LockFirst, wait: try.Wait}, nil
}

// writeTx is the write transaction of one group.
type writeTx struct {
	*tx
	d         *Driver
	q         *dbsqlc.Queries
	lockFirst bool // an earlier try of this group met a locked key, so this try locks the keys first
	wait      time.Duration
}

// Insert adds the rows whose keys are new (InsertAlarms). If another transaction inserts a key meanwhile, the statement
// fails and the transaction ends.
func (t *writeTx) Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	if t.lockFirst && !absent {
		return nil, engine.ErrKeyExists
	}
	if absent && (t.lockFirst || t.wait > 0) {
		return t.insertByHalves(ctx, rows)
	}
	ordered := rows  // the order of the sets, so that alarms due at one instant ring in that order
	if t.lockFirst { // the order of the keys, so that no two groups wait for each other again
		ordered = slices.SortedFunc(slices.Values(rows), func(a, b *clock.Alarm) int { return a.Key.Compare(b.Key) })
	}
	inserted, err := t.insert(ctx, ordered)
	if err != nil || len(inserted) == len(rows) && !t.lockFirst && t.shards == nil {
		return inserted, err
	}
	return t.idsOf(ctx, rows, inserted)
}

// insert adds the rows whose keys are new, and returns their ids. On one server these are in the order of the rows. In
// a distributed database the rows have ids already.
func (t *writeTx) insert(ctx context.Context, rows []*clock.Alarm) ([]int64, error) {
	if t.shards == nil {
		return t.q.InsertAlarms(ctx, t, insertParams(rows))
	}
	return t.d.distributed.InsertAlarms(ctx, t, distributedInsertParams(rows))
}

// partWait is how long a part of a group waits for a key that another transaction has inserted and not committed.
const partWait = 5 * time.Millisecond

// insertByHalves adds the rows in parts, each after a savepoint, so that a locked key delays no other key. A part waits
// at most partWait; a single op with a wait of its own waits that long.
func (t *writeTx) insertByHalves(ctx context.Context, rows []*clock.Alarm) ([]int64, error) {
	if t.wait == 0 {
		if _, err := t.Exec(ctx, "set local lock_timeout = "+millis(partWait)); err != nil {
			return nil, err
		}
	}
	return engine.InsertByHalves(rows,
		func(part []*clock.Alarm) ([]int64, bool, error) { return t.insertPart(ctx, part) })
}

func (t *writeTx) insertPart(ctx context.Context, part []*clock.Alarm) (ids []int64, refused bool, err error) {
	if _, err := t.Exec(ctx, "savepoint part"); err != nil {
		return nil, false, err
	}
	inserted, err := t.insert(ctx, part)
	if hasCode(err, codeLockNotAvailable) {
		_, err = t.Exec(ctx, "rollback to savepoint part")
		return nil, true, err
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := t.Exec(ctx, "release savepoint part"); err != nil {
		return nil, false, err
	}
	if len(inserted) < len(part) || t.shards != nil {
		inserted, err = t.idsOf(ctx, part, inserted)
	}
	return inserted, false, err
}

// idsOf returns the id of each row, in the order of rows; 0 for rows that were not inserted (ListKeys).
func (t *writeTx) idsOf(ctx context.Context, rows []*clock.Alarm, inserted []int64) ([]int64, error) {
	ids := make([]int64, len(rows))
	if len(inserted) == 0 {
		return ids, nil
	}
	if t.shards != nil {
		for i, a := range rows {
			if slices.Contains(inserted, a.ID) {
				ids[i] = a.ID
			}
		}
		return ids, nil
	}
	keys, err := t.q.ListKeys(ctx, t, inserted)
	byKey := make(map[clock.Key]int64, len(keys))
	for _, r := range keys {
		byKey[clock.Key{Application: r.Application, BusinessID: r.BusinessID}] = r.ID
	}
	for i, a := range rows {
		ids[i] = byKey[a.Key]
	}
	return ids, err
}

// Cancel cancels the rows of the keys whose present version no transaction has locked or changed (CancelScheduled,
// CancelScheduledBriefly). It waits at most lockWait for a row that another transaction takes at this moment. After
// that wait the group begins again and locks first.
func (t *writeTx) Cancel(
	ctx context.Context, keys []clock.Key, now clock.Instant, briefly bool,
) ([]clock.Alarm, error) {
	if t.lockFirst {
		return nil, nil
	}
	applications, businessIDs := keyColumns(keys)
	if briefly {
		rows, err := t.q.CancelScheduledBriefly(ctx, t, dbsqlc.CancelScheduledBrieflyParams{
			Now: int64(now), Applications: applications, BusinessIds: businessIDs,
		})
		return cancelledAlarms(rows, now), err
	}
	rows, err := t.q.CancelScheduled(ctx, t,
		dbsqlc.CancelScheduledParams{Now: int64(now), Applications: applications, BusinessIds: businessIDs})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows), nil
}

// Lock locks and returns the free rows of the keys (LockAlarms). With a wait it first waits for all rows
// (LockAlarmsWaiting). If a row is still held afterwards, the transaction has failed with nothing written, and Lock
// locks the free rows in a new transaction.
func (t *writeTx) Lock(ctx context.Context, keys []clock.Key, wait time.Duration, briefly bool) ([]clock.Alarm, error) {
	if briefly && wait == 0 {
		return t.lockBriefly(ctx, keys)
	}
	applications, businessIDs := keyColumns(keys)
	if wait > 0 && !t.begun {
		rows, err := t.q.LockAlarmsWaiting(ctx, t,
			dbsqlc.LockAlarmsWaitingParams{Applications: applications, BusinessIds: businessIDs})
		if err == nil {
			return alarmsOf(rows), nil
		}
		if !hasCode(err, codeLockNotAvailable) {
			return nil, err
		}
		if err := t.rollback(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := t.q.LockAlarms(ctx, t, dbsqlc.LockAlarmsParams{Applications: applications, BusinessIds: businessIDs})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows), nil
}

// briefKeys is how many rows lockBriefly reads at once. It drops their payloads.
const briefKeys = 64

// lockBriefly locks and returns the free rows of the keys, without payloads (LockAlarms). Few cancels need it, because
// CancelScheduledBriefly stops scheduled alarms.
func (t *writeTx) lockBriefly(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	var alarms []clock.Alarm
	for piece := range slices.Chunk(keys, briefKeys) {
		applications, businessIDs := keyColumns(piece)
		rows, err := t.q.LockAlarms(ctx, t,
			dbsqlc.LockAlarmsParams{Applications: applications, BusinessIds: businessIDs})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i].Payload = nil
		}
		alarms = append(alarms, alarmsOf(rows)...)
	}
	return alarms, nil
}

// Read returns the last committed rows of the keys, without locking (ReadAlarms).
func (t *writeTx) Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	applications, businessIDs := keyColumns(keys)
	rows, err := t.q.ReadAlarms(ctx, t, dbsqlc.ReadAlarmsParams{Applications: applications, BusinessIds: businessIDs})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows), nil
}

// Update rewrites the rows and adds their attempts. A row with a new generation is rewritten whole (RewriteAlarms).
// Other rows keep the content of their set (AmendAlarms).
func (t *writeTx) Update(ctx context.Context, changes []engine.Change) (int, error) {
	var rewrites, amends []engine.Change
	for _, c := range changes {
		if c.New.Generation != c.Old.Generation {
			rewrites = append(rewrites, c)
		} else {
			amends = append(amends, c)
		}
	}
	var rewritten, amended int64
	var err error
	if len(rewrites) > 0 {
		if rewritten, err = t.q.RewriteAlarms(ctx, t, rewriteParams(rewrites)); err != nil {
			return 0, err
		}
	}
	if len(amends) > 0 {
		if amended, err = t.q.AmendAlarms(ctx, t, amendParams(amends)); err != nil {
			return 0, err
		}
	}
	return int(rewritten + amended), t.d.addAttempts(ctx, t.tx, engine.ChangeAttempts(amends))
}

// Delete deletes an alarm (DeleteAlarm).
func (t *writeTx) Delete(ctx context.Context, id int64) (int64, error) {
	return t.q.DeleteAlarm(ctx, t, id)
}

// keyColumns returns the sorted keys as two columns.
func keyColumns(keys []clock.Key) (applications, businessIDs []string) {
	sorted := slices.SortedFunc(slices.Values(keys), clock.Key.Compare)
	return engine.Column(sorted, func(k *clock.Key) string { return k.Application }), engine.Column(sorted,
		func(k *clock.Key) string { return k.BusinessID })
}
