package postgresql

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// List returns alarms of one application, as a range of its keys (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery) ([]clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.q.ListAlarms(ctx, s.pool, dbsqlc.ListAlarmsParams{
		Application: q.Application, After: q.After, Prefix: q.Prefix, PrefixEnd: prefixEnd(q.Prefix),
		States:   column(q.States, func(state *clock.State) int64 { return int64(*state) }),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), RowLimit: int32(q.Limit),
	})
	if err != nil {
		return nil, s.mapError("list", err)
	}
	alarms, err := alarmsOf(rows)
	return alarms, s.mapError("list", err)
}

// beyond is greater than every business id.
var beyond = strings.Repeat(string(utf8.MaxRune), clock.MaxBusinessID)

// prefixEnd returns the least string that is greater than all strings with the prefix; the order of bytes is the order of runes.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if next := last + 1; next <= utf8.MaxRune {
			if !utf8.ValidRune(next) { // the surrogates
				next = 0xE000
			}
			return prefix + string(next)
		}
	}
	return beyond
}
