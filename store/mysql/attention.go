package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// noteAttention notes alarms that the transaction has made expired, dead or paused (NoteAttention).
func (d *Driver) noteAttention(ctx context.Context, t *tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return d.q.NoteAttention(ctx, t, ids)
}

// noteChangedAttention notes the alarms that wait for a person since the changes, and forgets those that no longer do
// (NoteAttention, DeleteAttentionOf).
func (d *Driver) noteChangedAttention(ctx context.Context, t *tx, changes []engine.Change) error {
	var begin, end []int64
	for i := range changes {
		switch c := &changes[i]; {
		case c.New.State.Attention() == c.Old.State.Attention():
		case c.New.State.Attention():
			begin = append(begin, c.Old.ID)
		default:
			end = append(end, c.Old.ID)
		}
	}
	if err := d.noteAttention(ctx, t, begin); err != nil || len(end) == 0 {
		return err
	}
	return d.q.DeleteAttentionOf(ctx, t, end)
}

// ReadNextAttentionApplication reads the next name (NextAttentionApplication).
func (d *Driver) ReadNextAttentionApplication(ctx context.Context, after string) (string, error) {
	return d.q.NextAttentionApplication(ctx, d.reads, after)
}

// ReadAttentionCounts counts alarms by state (CountAttention).
func (d *Driver) ReadAttentionCounts(ctx context.Context, application string, limit int) (clock.StateCounts, error) {
	rows, err := d.q.CountAttention(ctx, d.reads,
		dbsqlc.CountAttentionParams{Application: application, Limit: int32(limit)})
	split := func(r *dbsqlc.CountAttentionRow) (state, count int64) { return r.State, r.Count }
	return engine.StateCounts(rows, split), err
}
