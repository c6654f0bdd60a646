package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ engine.WriteTx = (*groupTx)(nil)

// BeginWrite begins the transaction of one group. It never waits for a row, so try.Wait has no meaning. An op on a row
// of a two-phase claim gets the verdict Locked at once.
func (d *Driver) BeginWrite(ctx context.Context, try engine.WriteTry) (engine.WriteTx, error) {
	t, err := d.beginGuarded(ctx)
	if err != nil {
		return nil, err
	}
	return &groupTx{writeTx: t, shards: try.Shards}, nil
}

// groupTx is the write transaction of one group.
type groupTx struct {
	*writeTx
	shards int // shard count of the database
}

// Insert adds the rows whose keys are new, one by one (InsertAlarms).
func (t *groupTx) Insert(ctx context.Context, rows []*clock.Alarm, _ bool) ([]int64, error) {
	ids := make([]int64, len(rows))
	for i, a := range rows {
		result, err := t.q.InsertAlarms(ctx, t, insertParams.Of(func(row, _ *engine.Row) { row.SetAlarm(a) }))
		if err != nil {
			return nil, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		if ids[i], err = result.LastInsertId(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Cancel stops the alarms whose result may be brief, with one statement for each application (CancelScheduled). It
// leaves other cancels to Lock: an UPDATE that returns whole rows took no less time than the two statements.
func (t *groupTx) Cancel(
	ctx context.Context, keys []clock.Key, now clock.Instant, briefly bool,
) ([]clock.Alarm, error) {
	if !briefly {
		return nil, nil
	}
	businessIDs := make(map[string][]string, 1)
	for _, k := range keys {
		businessIDs[k.Application] = append(businessIDs[k.Application], k.BusinessID)
	}
	stopped := make([]clock.Alarm, 0, len(keys))
	for application, ids := range businessIDs {
		list, err := json.Marshal(ids)
		if err != nil {
			return nil, err
		}
		rows, err := t.q.CancelScheduled(ctx, t, dbsqlc.CancelScheduledParams{
			Now: int64(now), Application: application, BusinessIds: string(list),
		})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			key := clock.Key{Application: application, BusinessID: r.BusinessID}
			stopped = append(stopped, engine.CancelledAlarm(r.ID, key, key.Shard(t.shards), r.Generation, now))
		}
	}
	return stopped, nil
}

// Lock returns the rows of the keys, read one by one (GetAlarm). The transaction holds the lock of the whole file.
func (t *groupTx) Lock(ctx context.Context, keys []clock.Key, _ time.Duration, briefly bool) ([]clock.Alarm, error) {
	alarms := make([]clock.Alarm, 0, len(keys))
	for _, k := range keys {
		r, err := t.q.GetAlarm(ctx, t, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		row := engine.Row(r)
		a := row.Alarm()
		if briefly {
			a.Payload = nil
		}
		alarms = append(alarms, a)
	}
	return alarms, nil
}

// Read returns no rows: a row that Lock did not find does not exist.
func (t *groupTx) Read(context.Context, []clock.Key) ([]clock.Alarm, error) { return nil, nil }

// Update rewrites the rows one by one and adds their attempts. A row with a new generation is rewritten whole
// (RewriteAlarms). A cancel changes the columns of a cancel (CancelAlarms). An answer, a resend, a kick or a discard
// changes the other columns except the content (AmendAlarms).
func (t *groupTx) Update(ctx context.Context, changes []engine.Change) (int, error) {
	total := 0
	for _, c := range changes {
		n, err := t.update(ctx, &c)
		if err != nil {
			return 0, err
		}
		total += int(n)
	}
	return total, t.addAttempts(ctx, engine.ChangeAttempts(changes))
}

func (t *groupTx) update(ctx context.Context, c *engine.Change) (int64, error) {
	switch {
	case c.New.Generation != c.Old.Generation:
		return t.q.RewriteAlarms(ctx, t, rewriteParams.Of(c.SetRows))
	case c.IsCancel():
		return t.q.CancelAlarms(ctx, t, cancelParams.Of(c.SetRows))
	default:
		return t.q.AmendAlarms(ctx, t, amendParams.Of(c.SetRows))
	}
}

// Delete deletes an alarm (DeleteAlarm).
func (t *groupTx) Delete(ctx context.Context, id int64) (int64, error) {
	return t.q.DeleteAlarm(ctx, t, id)
}
