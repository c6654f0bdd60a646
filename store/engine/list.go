package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	// listScan is the number of alarms that a list by state looks at, at most.
	listScan = 5000
	// pausedScan is the number of paused alarms that a list of these by due time looks at, at most.
	pausedScan = 1000
	// dueScan is the number of entries of the due index that a list by due time reads past in each shard, at most.
	dueScan = 300
	// heldAlarms is the number of alarms that a list holds in memory when it reads them by their ids.
	heldAlarms = 16
)

// List passes the alarms of one application to take until take returns false.
func (s *Store) List(
	ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool,
) (next clock.ListPosition, err error) {
	if !utf8.ValidString(q.Prefix) {
		return next, clock.Invalid(clock.CodeInvalidValue, "prefix", "prefix must be UTF-8")
	}
	l := list{query: q, take: take, next: q.After}
	err = s.read(ctx, "list", func(ctx context.Context) error {
		switch {
		case q.Repeating:
			return s.listRepeating(ctx, &l)
		case q.ByDue():
			return s.listByDue(ctx, &l)
		case len(q.States) > 0 && !slices.ContainsFunc(q.States, func(state clock.State) bool { return !state.Attention() }):
			return s.listAttention(ctx, &l)
		}
		return s.listByID(ctx, &l)
	})
	return l.next, err
}

// list is a list under way.
type list struct {
	query  clock.ListQuery
	take   func(*clock.Alarm) bool
	passed int                // alarms that take has accepted
	next   clock.ListPosition // where the list goes on; zero: no alarm follows
}

// pass passes an alarm to take, and reports whether take has accepted it. behind is the position behind it.
func (l *list) pass(a *clock.Alarm, behind clock.ListPosition) bool {
	if !l.take(a) {
		return false
	}
	l.passed++
	l.next = behind
	return true
}

// listByID reads a range of the index alarm_key. A list by state has a bound: at most listScan alarms of the range.
func (s *Store) listByID(ctx context.Context, l *list) error {
	q := l.byID()
	bound := "" // last business id of the range; empty: the range has no bound
	if len(q.States) == 0 {
		q.States = clock.States()
	} else {
		ids, err := s.driver.ReadListBound(ctx, &q, listScan-1)
		if err != nil {
			return fmt.Errorf("find the bound: %w", err)
		}
		if len(ids) == 2 {
			bound, q.End = ids[0], ids[1]
		}
	}
	refused := false
	err := s.driver.ReadList(ctx, &q, func(row *Row) bool {
		a := row.Alarm()
		refused = !l.pass(&a, clock.ListPosition{BusinessID: a.BusinessID})
		return !refused
	})
	if err == nil && !refused && l.passed < l.query.Limit {
		l.next = clock.ListPosition{BusinessID: bound}
	}
	return err
}

// byID returns the query of a list in the order of business ids.
func (l *list) byID() ListQuery {
	return ListQuery{
		Application: l.query.Application, States: l.query.States, After: l.query.After.BusinessID,
		Prefix: l.query.Prefix, End: prefixEnd(l.query.Prefix), Limit: l.query.Limit,
	}
}

// listAttention reads the business ids of alarms that wait for a person, by an index of these alone, and then the rows.
func (s *Store) listAttention(ctx context.Context, l *list) error {
	q := l.byID()
	if l.query.HasDueRange() {
		q.Limit = pausedScan
	}
	var ids []string
	for _, state := range q.States {
		some, err := s.driver.ReadAttention(ctx, &q, state)
		if err != nil {
			return err
		}
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids) // a state may be asked for twice
	last := ""                // last business id of the page; empty: no alarm follows
	if len(ids) >= q.Limit {
		ids = ids[:q.Limit]
		last = ids[len(ids)-1]
	}
	for some := range slices.Chunk(ids, heldAlarms) {
		keys := Column(some, func(id *string) clock.Key { return clock.Key{Application: q.Application, BusinessID: *id} })
		rows, err := s.driver.ReadAlarmsOf(ctx, keys)
		if err != nil {
			return err
		}
		alarms := AlarmsOfRows(rows, func(r Row) Row { return r })
		slices.SortFunc(alarms, func(a, b clock.Alarm) int { return strings.Compare(a.BusinessID, b.BusinessID) })
		for i := range alarms { // an alarm may have changed since
			a := &alarms[i]
			if !l.query.Admits(a) {
				continue
			}
			if !l.pass(a, clock.ListPosition{BusinessID: a.BusinessID}) || l.passed == l.query.Limit {
				return nil
			}
		}
	}
	l.next = clock.ListPosition{BusinessID: last}
	return nil
}

// listByDue reads the due index of all shards, and then the rows of its entries.
func (s *Store) listByDue(ctx context.Context, l *list) error {
	page, err := s.readPage(ctx, s.dueRange(l))
	if err != nil {
		return err
	}
	for entries := range slices.Chunk(page.Rows, heldAlarms) {
		if more, err := s.passDue(ctx, l, entries); !more || err != nil {
			return err
		}
	}
	l.next = clock.ListPosition{}
	if page.CompleteUntil != endOfDue(&l.query) {
		l.next = listPosition(page.CompleteUntil)
	}
	return nil
}

// dueRange returns the query of the due index for a page. The shards have about equal parts of a page.
func (s *Store) dueRange(l *list) store.DueQuery {
	q := store.DueQuery{
		From: store.Position{Time: max(0, l.query.DueAfter)}, Until: endOfDue(&l.query), Limit: l.query.Limit/32 + 2,
		Application: l.query.Application, ScanLimit: dueScan, Shards: store.AllShards(s.ShardCount()),
	}
	if after := l.query.After; !after.IsZero() {
		q.From = store.Position{Time: after.DueTime, Rank: after.DueRank, ID: after.DueID}
	}
	return q
}

// passDue reads the rows of some entries, and passes those that the query selects. An alarm that is due at another time
// by now has another entry. It returns false when the page is full.
func (s *Store) passDue(ctx context.Context, l *list, entries []store.Due) (more bool, err error) {
	ids := make([]int64, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	byID, err := s.driver.ReadKeys(ctx, ids)
	if err != nil {
		return false, err
	}
	keys := make([]clock.Key, 0, len(byID))
	for _, k := range byID {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return true, nil
	}
	rows, err := s.driver.ReadAlarmsOf(ctx, keys)
	if err != nil {
		return false, err
	}
	alarms := make(map[int64]clock.Alarm, len(rows))
	for i := range rows {
		alarms[rows[i].ID] = rows[i].Alarm()
	}
	for _, entry := range entries {
		a, found := alarms[entry.ID]
		behind := entry.Position()
		behind.ID++
		if !found || a.NextTryTime != entry.NextTryTime || !l.query.Admits(&a) {
			continue
		}
		if !l.pass(&a, listPosition(behind)) || l.passed == l.query.Limit {
			return false, nil
		}
	}
	return true, nil
}

func listPosition(p store.Position) clock.ListPosition {
	return clock.ListPosition{DueTime: p.Time, DueRank: p.Rank, DueID: p.ID}
}

// endOfDue returns the end of the query's due range.
func endOfDue(q *clock.ListQuery) store.Position {
	if q.DueBefore == clock.NoInstant {
		return store.Position{Time: clock.MaxInstant}
	}
	return store.Position{Time: q.DueBefore}
}

// afterAllBusinessIDs is greater than every business id.
var afterAllBusinessIDs = strings.Repeat(string(utf8.MaxRune), clock.MaxBusinessID)

// prefixEnd returns the smallest string that is greater than all business ids with the prefix. With it a list by prefix
// reads one range of the index. The order of bytes is the order of runes.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if next := last + 1; next <= utf8.MaxRune {
			if !utf8.ValidRune(next) { // surrogates are no valid runes
				next = 0xE000
			}
			return prefix + string(next)
		}
	}
	return afterAllBusinessIDs
}
