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

// noteChangedAttention notes the alarms that wait for a person since the changes, and forgets others (NoteAttention,
// DeleteAttentionOf).
func (d *Driver) noteChangedAttention(ctx context.Context, t *tx, changes []engine.Change) error {
	var begin, end []int64
	for i := range changes {
		switch c := &changes[i]; {
		case c.New.State == c.Old.State:
		case c.New.State.Attention():
			begin = append(begin, c.Old.ID)
		case c.Old.State.Attention():
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

// ReadAttention reads business ids (ListAttention).
func (d *Driver) ReadAttention(ctx context.Context, q *engine.ListQuery, state clock.State) ([]string, error) {
	return d.q.ListAttention(ctx, d.reads, dbsqlc.ListAttentionParams{
		Application: q.Application, State: int64(state), After: q.After, Prefix: q.Prefix, RangeEnd: q.End,
		Limit: int32(q.Limit),
	})
}

// CountAttention counts alarms (CountAttention).
func (d *Driver) CountAttention(ctx context.Context, application string, state clock.State, limit int) (int64, error) {
	return d.q.CountAttention(ctx, d.reads,
		dbsqlc.CountAttentionParams{Application: application, State: int64(state), Limit: int32(limit)})
}
