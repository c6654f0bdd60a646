package mysql

import (
	"context"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// List returns alarms of one application, as a range of its keys (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery) ([]clock.Alarm, error) {
	if !utf8.ValidString(q.Prefix) {
		return nil, clock.Invalid(clock.CodeInvalidValue, "prefix", "prefix must be UTF-8")
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	states := q.States
	if len(states) == 0 {
		states = clock.States()
	}
	rows, err := s.q.ListAlarms(ctx, s.db, dbsqlc.ListAlarmsParams{
		Application: q.Application, After: q.After, Prefix: q.Prefix, PrefixEnd: store.PrefixEnd(q.Prefix),
		States:   idsOf(states, func(state *clock.State) int64 { return int64(*state) }),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), Limit: int32(q.Limit),
	})
	if err != nil {
		return nil, s.mapError("list", err)
	}
	alarms, err := alarmsOf(rows)
	return alarms, s.mapError("list", err)
}
