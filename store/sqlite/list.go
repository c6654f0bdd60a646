package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// List returns alarms of one application, as a range of its keys (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery) ([]clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	states := q.States
	if len(states) == 0 {
		states = clock.States()
	}
	rows, err := s.q.ListAlarms(ctx, s.reader, dbsqlc.ListAlarmsParams{
		Application: q.Application, Lower: max(q.Prefix, next(q.After)), Upper: prefixEnd(q.Prefix), States: list(states),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), RowLimit: int64(q.Limit),
	})
	if err != nil {
		return nil, s.mapError(ctx, "list", err)
	}
	alarms, err := alarmsOf(rows)
	return alarms, s.mapError(ctx, "list", err)
}

// next returns the string that follows after directly, byte for byte; "" is before all.
func next(after string) string {
	if after == "" {
		return ""
	}
	return after + "\x00"
}

// prefixEnd returns a string that is greater, byte for byte, than all with the prefix and none that is greater than they.
func prefixEnd(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 {
		last := len(end) - 1
		if end[last] < 0xff {
			end[last]++
			return string(end)
		}
		end = end[:last]
	}
	return "\xff" // in no UTF-8
}
