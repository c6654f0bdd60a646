package mysql

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
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
		Application: q.Application, After: q.After, Prefix: q.Prefix, PrefixEnd: prefixEnd(q.Prefix),
		States:   idsOf(states, func(state *clock.State) int64 { return int64(*state) }),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), Limit: int32(q.Limit),
	})
	if err != nil {
		return nil, mapError("list", err)
	}
	alarms, err := alarmsOf(rows)
	return alarms, mapError("list", err)
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
