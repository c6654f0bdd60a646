package postgresql

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var _ store.WriteTx = (*writeTx)(nil)

// Write applies the ops by the plan of store.Write in one transaction.
func (s *Store) Write(ctx context.Context, r clock.WriteRequest) ([]clock.Decision, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.Timeout+r.Wait)
		defer cancel()
	}
	var decisions []clock.Decision
	lockFirst := false
	err := s.metrics.Replay(ctx, replayReason, func() (err error) {
		decisions, err = s.write(ctx, r, lockFirst)
		lockFirst = lockFirst || hasCode(err, codeLockNotAvailable)
		return err
	})
	if err != nil {
		return nil, s.mapError("write", err)
	}
	return decisions, nil
}

// write is one try of Write.
func (s *Store) write(ctx context.Context, r clock.WriteRequest, lockFirst bool) ([]clock.Decision, error) {
	t, err := begin(ctx, s.pool, max(lockWait, r.Wait))
	if err != nil {
		return nil, err
	}
	defer t.close(ctx)
	decisions, err := store.Write(ctx, &writeTx{tx: t, q: s.q, lockFirst: lockFirst}, r, s.ShardCount())
	if err != nil {
		return nil, err
	}
	return decisions, t.commit(ctx)
}

// writeTx is a store.WriteTx.
type writeTx struct {
	*tx
	q         *dbsqlc.Queries
	lockFirst bool // an insert or a cancel of this group met a locked key: lock before
}

// Insert adds the rows whose keys are new (InsertAlarms). A key that was inserted elsewhere meanwhile ends the transaction.
func (t *writeTx) Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	if t.lockFirst && !absent {
		return nil, store.ErrKeyExists
	}
	ordered := rows  // so that alarms of one instant ring in the order in which they were set
	if t.lockFirst { // so that no two groups wait for each other again
		ordered = slices.SortedFunc(slices.Values(rows), func(a, b *clock.Alarm) int { return compareKeys(a.Key, b.Key) })
	}
	inserted, err := t.q.InsertAlarms(ctx, t, insertParams(ordered))
	if err != nil || len(inserted) == len(rows) && !t.lockFirst {
		return inserted, err
	}
	return t.idsOf(ctx, rows, inserted)
}

// idsOf returns the ids of the rows that were inserted, in the order of rows, 0 for the others (ListKeys).
func (t *writeTx) idsOf(ctx context.Context, rows []*clock.Alarm, inserted []int64) ([]int64, error) {
	ids := make([]int64, len(rows))
	if len(inserted) == 0 {
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

// Cancel stops the rows of the keys that nobody has touched since they were written (CancelScheduled, CancelScheduledBriefly). A row that somebody
// takes in just this instant is waited for, for lockWait at most: then the group begins again and locks first.
func (t *writeTx) Cancel(ctx context.Context, keys []clock.Key, now clock.Instant, briefly bool) ([]clock.Alarm, error) {
	if t.lockFirst {
		return nil, nil
	}
	applications, businessIDs := split(keys)
	if briefly {
		rows, err := t.q.CancelScheduledBriefly(ctx, t, dbsqlc.CancelScheduledBrieflyParams{
			Now: int64(now), Applications: applications, BusinessIds: businessIDs,
		})
		return stoppedAlarms(rows, now), err
	}
	rows, err := t.q.CancelScheduled(ctx, t, dbsqlc.CancelScheduledParams{Now: int64(now), Applications: applications, BusinessIds: businessIDs})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows)
}

// Lock returns the free rows of the keys, locked (LockAlarms). What is still held after the wait (LockAlarmsWaiting) has ended
// the transaction, in which nothing was written; the free ones are then locked in a new one.
func (t *writeTx) Lock(ctx context.Context, keys []clock.Key, wait time.Duration, _ bool) ([]clock.Alarm, error) {
	applications, businessIDs := split(keys)
	if wait > 0 && !t.begun {
		rows, err := t.q.LockAlarmsWaiting(ctx, t, dbsqlc.LockAlarmsWaitingParams{Applications: applications, BusinessIds: businessIDs})
		if err == nil {
			return alarmsOf(rows)
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
	return alarmsOf(rows)
}

// Read returns the rows of the keys as last committed (ReadAlarms).
func (t *writeTx) Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	applications, businessIDs := split(keys)
	rows, err := t.q.ReadAlarms(ctx, t, dbsqlc.ReadAlarmsParams{Applications: applications, BusinessIds: businessIDs})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows)
}

// Update rewrites the rows: whole where a set made a new generation of them (RewriteAlarms), else without what a set
// says (AmendAlarms), with their attempts.
func (t *writeTx) Update(ctx context.Context, changes []store.Change) (int, error) {
	var rewrites, amends []store.Change
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
	return int(rewritten + amended), addAttempts(ctx, t.q, t, store.AttemptsOf(amends))
}

// split returns the keys, sorted, as two columns.
func split(keys []clock.Key) (applications, businessIDs []string) {
	sorted := slices.SortedFunc(slices.Values(keys), compareKeys)
	return column(sorted, func(k *clock.Key) string { return k.Application }), column(sorted, func(k *clock.Key) string { return k.BusinessID })
}

func compareKeys(a, b clock.Key) int {
	return cmp.Or(cmp.Compare(a.Application, b.Application), cmp.Compare(a.BusinessID, b.BusinessID))
}
