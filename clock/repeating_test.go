package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// repeatingStore has repeating alarms by key. A list looks at no more than scan of them.
type repeatingStore struct {
	RepeatingReader
	keys []Key
	scan int
	asks int
	fail error
}

func (s *repeatingStore) RepeatingApplications(_ context.Context, after string, limit int) (names []string, err error) {
	for _, k := range s.keys {
		if k.Application > after && !slices.Contains(names, k.Application) && len(names) < limit {
			names = append(names, k.Application)
		}
	}
	return names, nil
}

func (s *repeatingStore) List(_ context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error) {
	s.asks++
	if !q.Repeating || len(q.States) > 0 || s.fail != nil {
		return next, errors.Join(errors.New("a list of other alarms"), s.fail)
	}
	passed, read := 0, 0
	next = q.After
	for _, k := range s.keys {
		if k.Application != q.Application || k.BusinessID <= q.After.BusinessID ||
			!strings.HasPrefix(k.BusinessID, q.Prefix) {
			continue
		}
		if read == s.scan || passed == q.Limit {
			return next, nil
		}
		read++
		if !strings.HasSuffix(k.BusinessID, "stale") {
			a := Alarm{Key: k}
			if a.State = Scheduled; strings.HasSuffix(k.BusinessID, "paused") {
				a.State = Paused
			}
			if !take(&a) {
				return next, nil
			}
			passed++
		}
		next = ListPosition{BusinessID: k.BusinessID}
	}
	return ListPosition{}, nil
}

func everyApplication(string) bool { return true }

// walk follows a list page by page. A page takes at most room alarms.
func (s *repeatingStore) walk(t *testing.T, q ListQuery, room int, covers func(string) bool) (got []Key, pages int) {
	t.Helper()
	q.DueAfter, q.DueBefore = NoInstant, NoInstant
	for pages = 1; pages < 2000; pages++ {
		taken := 0
		next, err := NewRepeatingAlarms(s).List(t.Context(), q, covers, func(a *Alarm) bool {
			if taken == room {
				return false
			}
			taken++
			got = append(got, a.Key)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken > q.Limit {
			t.Fatalf("%d alarms on a page", taken)
		}
		if next.IsZero() {
			return got, pages
		}
		if next == q.After {
			t.Fatalf("the list stays at %+v", next)
		}
		if next.Application != "" && !covers(next.Application) {
			t.Fatalf("the position names %s", next.Application)
		}
		if p, err := DecodeCursor(q.Application, EncodeCursor(q.Application, next)); err != nil || p != next {
			t.Fatalf("the cursor of %+v is read as %+v, %v", next, p, err)
		}
		q.After = next
	}
	t.Fatal("the list does not end")
	return nil, 0
}

func TestRepeatingAlarmsOfAllApplicationsComeOnce(t *testing.T) {
	var keys []Key
	for application := range 5 {
		for id := range application { // the first has none
			keys = append(keys, Key{Application: fmt.Sprint("app-", application), BusinessID: fmt.Sprint("a-", id)})
		}
	}
	for scan := 1; scan < 6; scan++ {
		for limit := 1; limit < 12; limit++ {
			for room := 1; room < 12; room++ {
				s := &repeatingStore{keys: keys, scan: scan}
				if got, _ := s.walk(t, ListQuery{Limit: limit}, room, everyApplication); !slices.Equal(got, keys) {
					t.Fatalf("limit %d, room for %d, scan of %d: %v", limit, room, scan, got)
				}
			}
		}
	}
	s := &repeatingStore{keys: keys, scan: 2}
	if got, _ := s.walk(t, ListQuery{Limit: 100, Prefix: "a-3"}, 100, everyApplication); !slices.Equal(got, keys[9:]) {
		t.Errorf("with a prefix: %v", got)
	}
	if got, _ := s.walk(t, ListQuery{Limit: 100, Application: "app-3"}, 100, nil); !slices.Equal(got, keys[3:6]) {
		t.Errorf("of one application: %v", got)
	}
	s.scan, s.asks = 10, 0
	asks := s.asks
	covers := func(application string) bool { return application == "app-2" }
	if got, _ := s.walk(t, ListQuery{Limit: 100}, 100, covers); !slices.Equal(got, keys[1:3]) || s.asks != asks+1 {
		t.Errorf("of the applications of a token: %v, after %d reads", got, s.asks-asks)
	}
}

func TestRepeatingAlarmsOfManyApplicationsAreReadInSteps(t *testing.T) {
	var keys []Key
	for i := range 2*listedApplications + 50 {
		keys = append(keys, Key{Application: fmt.Sprintf("app-%04d", i), BusinessID: "a"})
	}
	s := &repeatingStore{keys: keys, scan: 10}
	got, pages := s.walk(t, ListQuery{Limit: 1000}, 1000, everyApplication)
	if !slices.Equal(got, keys) || pages != 3 || s.asks != len(keys) {
		t.Errorf("%d alarms on %d pages, after %d reads", len(got), pages, s.asks)
	}
	last := func(application string) bool { return application == keys[len(keys)-1].Application }
	got, pages = s.walk(t, ListQuery{Limit: 1000}, 1000, last)
	if len(got) != 1 || got[0] != keys[len(keys)-1] || pages != 1 {
		t.Errorf("%v on %d pages", got, pages) // no position names an application that is not covered
	}
	s.fail = Unavailable(errors.New("gone"))
	_, err := NewRepeatingAlarms(s).List(t.Context(), ListQuery{Limit: 1}, everyApplication, nil)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("a list without database: %v", err)
	}
}

func TestRepeatingAlarmsAreFiltered(t *testing.T) {
	var keys, paused []Key
	for application := range 12 {
		for id := range 700 {
			k := Key{Application: fmt.Sprintf("app-%02d", application), BusinessID: fmt.Sprintf("a-%03d", id)}
			switch id {
			case 5, 699:
				k.BusinessID += "-paused"
				paused = append(paused, k)
			case 0, 6, 7, 698:
				k.BusinessID += "-stale"
			}
			keys = append(keys, k)
		}
	}
	for _, scan := range []int{50, 100, 1000} {
		s := &repeatingStore{keys: keys, scan: scan}
		got, _ := s.walk(t, ListQuery{Limit: 7, States: []State{Paused}}, 7, everyApplication)
		if !slices.Equal(got, paused) {
			t.Fatalf("scan of %d: %v", scan, got)
		}
	}
	s := &repeatingStore{keys: keys, scan: 1000}
	if _, pages := s.walk(t, ListQuery{Limit: 100, States: []State{Dead}}, 7, everyApplication); pages != 5 {
		t.Errorf("%d pages for %d alarms", pages, len(keys))
	}
}

func TestPositionsOfOtherListsAreRefused(t *testing.T) {
	for _, q := range []ListQuery{
		{Application: "shop", After: ListPosition{DueTime: 1}},
		{Application: "shop", After: ListPosition{Application: "shop"}},
		{After: ListPosition{BusinessID: "a"}}, {After: ListPosition{DueID: 1}},
	} {
		q.Limit = 1
		_, err := NewRepeatingAlarms(&repeatingStore{}).List(t.Context(), q, everyApplication, nil)
		if e, is := errors.AsType[*Error](err); !is || e.Code != CodeInvalidCursor {
			t.Errorf("%+v: %v", q.After, err)
		}
	}
}
