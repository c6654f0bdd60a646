package clockhttp

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

// memoryStore is a clock.Store that decides with Op.Decide. It fails and hangs on demand. It replaces a database
// because these tests check HTTP, need faults on demand, and send millions of lines. The tests of cmd use real
// databases.
type memoryStore struct {
	mu     sync.Mutex
	rows   map[clock.Key]clock.Alarm
	nextID int64
	keep   bool                 // false: writes leave no row, for tests with millions of lines
	fail   func(clock.Op) error // error of the write of an op; nil: no write fails
	hold   func()               // called before each write; nil: no call

	dropped atomic.Int64 // ops that the service dropped before a write
}

func newMemoryStore() *memoryStore {
	return &memoryStore{rows: map[clock.Key]clock.Alarm{}, keep: true}
}

func (s *memoryStore) Write(_ context.Context, r clock.WriteRequest) ([]clock.Decision, error) {
	if s.hold != nil {
		s.hold()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ds := make([]clock.Decision, len(r.Ops))
	for i, op := range r.Ops {
		if s.fail != nil {
			if err := s.fail(op); err != nil {
				return nil, err
			}
		}
		ds[i] = s.apply(op, r.Now)
	}
	return ds, nil
}

func (s *memoryStore) apply(op clock.Op, now clock.Instant) clock.Decision {
	var row *clock.Alarm
	if a, ok := s.rows[op.Key()]; ok {
		row = &a
	}
	d := op.Decide(row, now)
	if d.Verdict == clock.Create {
		s.nextID++
		d.Alarm.ID = s.nextID
	}
	if d.Writes() && s.keep {
		s.rows[op.Key()] = d.Alarm
	}
	if op.Cancel != nil && op.Cancel.Brief && d.Verdict == clock.Disarm {
		a := &d.Alarm
		d.Alarm = clock.Alarm{Key: a.Key, ID: a.ID, Shard: a.Shard, Generation: a.Generation,
			RingRow: clock.RingRow{State: a.State, NextTryTime: a.NextTryTime}}
	}
	return d
}

func (s *memoryStore) Get(_ context.Context, k clock.Key) (*clock.Alarm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.rows[k]; ok {
		return &a, nil
	}
	return nil, clock.ErrNotFound
}

func (s *memoryStore) List(
	_ context.Context, q clock.ListQuery, take func(*clock.Alarm) bool,
) (next clock.ListPosition, err error) {
	found := s.find(q)
	for i := range found {
		if !take(&found[i]) {
			return next, nil
		}
		next = clock.ListPosition{BusinessID: found[i].BusinessID}
		if q.ByDue() {
			next = clock.ListPosition{DueTime: found[i].NextTryTime, DueID: found[i].ID}
		}
		if i+1 == q.Limit {
			return next, nil
		}
	}
	return clock.ListPosition{}, nil
}

func (s *memoryStore) find(q clock.ListQuery) []clock.Alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []clock.Alarm
	for a := range maps.Values(s.rows) {
		if a.Application == q.Application && strings.HasPrefix(a.BusinessID, q.Prefix) && behind(&a, &q) &&
			(len(q.States) == 0 || slices.Contains(q.States, a.State)) &&
			(q.DueAfter == clock.NoInstant || a.NextTryTime >= q.DueAfter) &&
			(q.DueBefore == clock.NoInstant || a.NextTryTime != clock.NoInstant && a.NextTryTime < q.DueBefore) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b clock.Alarm) int {
		if q.ByDue() {
			return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.ID, b.ID))
		}
		return strings.Compare(a.BusinessID, b.BusinessID)
	})
	return found
}

// behind reports whether the alarm lies behind the position of the query.
func behind(a *clock.Alarm, q *clock.ListQuery) bool {
	if !q.ByDue() {
		return a.BusinessID > q.After.BusinessID
	}
	return cmp.Or(cmp.Compare(a.NextTryTime, q.After.DueTime), cmp.Compare(a.ID, q.After.DueID)) > 0
}

func (s *memoryStore) Keys(_ context.Context, ids []int64) (map[int64]clock.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[int64]clock.Key{}
	for k, a := range s.rows {
		if slices.Contains(ids, a.ID) {
			keys[a.ID] = k
		}
	}
	return keys, nil
}

// alter changes a row behind the service's back.
func (s *memoryStore) alter(k clock.Key, change func(*clock.Alarm)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.rows[k]
	change(&a)
	s.rows[k] = a
}

func (s *memoryStore) failWith(fail func(clock.Op) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Time implements clock.TimeSource.
func (s *memoryStore) Time(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

// Committed implements clock.CommitListener.
func (s *memoryStore) Committed([]clock.Decision) {}

// count returns the number of alarms.
func (s *memoryStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}
