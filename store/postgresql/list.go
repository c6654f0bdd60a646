package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// List returns alarms of one application, as a range of its keys (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery) ([]clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.q.ListAlarms(ctx, s.pool, dbsqlc.ListAlarmsParams{
		Application: q.Application, After: q.After, Prefix: q.Prefix, PrefixEnd: store.PrefixEnd(q.Prefix),
		States:   column(q.States, func(state *clock.State) int64 { return int64(*state) }),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), RowLimit: int32(q.Limit),
	})
	if err != nil {
		return nil, s.mapError("list", err)
	}
	alarms, err := alarmsOf(rows)
	return alarms, s.mapError("list", err)
}
