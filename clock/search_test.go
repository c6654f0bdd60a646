package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// searchedStore has alarms by key, and counts the keys of each call of Find.
type searchedStore struct {
	alarms map[Key]Alarm
	probes []int
}

func searched(keys ...Key) *searchedStore {
	s := &searchedStore{alarms: map[Key]Alarm{}}
	for i, k := range keys {
		s.alarms[k] = Alarm{Key: k, ID: int64(i + 1), Generation: 1}
	}
	return s
}

func (s *searchedStore) sorted() []Key {
	var keys []Key
	for k := range s.alarms {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

func (s *searchedStore) Applications(_ context.Context, after string, limit int) (names []string, err error) {
	for _, k := range s.sorted() {
		if k.Application > after && !slices.Contains(names, k.Application) && len(names) < limit {
			names = append(names, k.Application)
		}
	}
	return names, nil
}

func (s *searchedStore) Find(_ context.Context, keys []Key) (found []Alarm, err error) {
	s.probes = append(s.probes, len(keys))
	for _, k := range keys {
		if a, has := s.alarms[k]; has {
			found = append(found, a)
		}
	}
	return found, nil
}

func (s *searchedStore) List(_ context.Context, q ListQuery, take func(*Alarm) bool) (ListPosition, error) {
	for _, k := range s.sorted() {
		if a := s.alarms[k]; k.Application == q.Application && strings.HasPrefix(k.BusinessID, q.Prefix) {
			if q.Limit--; q.Limit < 0 || !take(&a) {
				break
			}
		}
	}
	return ListPosition{}, nil
}

func (s *searchedStore) Keys(_ context.Context, ids []int64) (map[int64]Key, error) {
	keys := map[int64]Key{}
	for k := range s.alarms {
		if id := s.alarms[k].ID; slices.Contains(ids, id) {
			keys[id] = k
		}
	}
	return keys, nil
}

func TestSearchFindsAlarmsByEachKindOfText(t *testing.T) {
	s := searched(Key{"shop", "order-1"}, Key{"bank", "order-1"}, Key{"bank", "order-10"}, Key{"bank", "order-11"},
		Key{"bank", "2.1.1"}, Key{"shop", "4.9"})
	for _, c := range []struct {
		text, application string
		limit             int
		want              string
	}{
		{"order-1", "", 20, "bank/order-1 shop/order-1"},
		{"order-1", "shop", 20, "shop/order-1"},
		{"order-1", "bank", 20, "bank/order-1 bank/order-10 bank/order-11"},
		{"order-1", "bank", 3, "bank/order-1 bank/order-10 bank/order-11"},
		{"order-1", "bank", 2, "bank/order-1 bank/order-10 more"},
		{"order-1", "", 1, "bank/order-1 more"},
		{"order-", "", 20, ""},
		{"order-", "bank", 2, "bank/order-1 bank/order-10 more"},
		{"1.7.3", "", 20, "shop/order-1"}, // whatever its generation and its rings are now
		{"1.7.3", "bank", 20, ""},
		{"2.1.1", "", 20, "bank/order-1 bank/2.1.1"}, // a message id, and a business id in the form of one
		{"5.1.1", "bank", 20, "bank/2.1.1"},
		{"99.1.1", "", 20, ""},
		{"4.9", "", 20, "shop/4.9"},
	} {
		var got []string
		more, err := NewSearch(s).Find(t.Context(), SearchQuery{Text: c.text, Application: c.application, Limit: c.limit}, func(a *Alarm) bool {
			got = append(got, a.Application+"/"+a.BusinessID)
			return true
		})
		if more {
			got = append(got, "more")
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q in %q, at most %d: got %q, want %q, %v", c.text, c.application, c.limit, got, c.want, err)
		}
	}
}

func TestSearchLooksIntoSomeApplicationsAtATime(t *testing.T) {
	s := searched()
	for i := range 2*searchedApplications + 50 {
		k := Key{fmt.Sprintf("app-%03d", i), "x"}
		s.alarms[k] = Alarm{Key: k}
	}
	found := 0
	take := func(*Alarm) bool { found++; return found < 130 }
	if more, err := NewSearch(s).Find(t.Context(), SearchQuery{Text: "y", Limit: 20}, take); more || err != nil ||
		!slices.Equal(s.probes, []int{100, 100, 50}) {
		t.Errorf("probes %v, more %t, %v", s.probes, more, err)
	}
	s.probes = nil
	if more, err := NewSearch(s).Find(t.Context(), SearchQuery{Text: "x", Limit: 20}, take); !more || err != nil ||
		found != 20 || !slices.Equal(s.probes, []int{100}) {
		t.Errorf("%d found by probes %v, more %t, %v", found, s.probes, more, err)
	}
}

func TestSearchRefusesWrongQueries(t *testing.T) {
	for field, q := range map[string]SearchQuery{
		"q": {Limit: 20}, "limit": {Text: "x", Limit: MaxSearchLimit + 1},
		"application": {Text: "x", Application: "a b", Limit: 1},
	} {
		_, err := NewSearch(searched()).Find(t.Context(), q, func(*Alarm) bool { return true })
		if e, is := errors.AsType[*Error](err); !is || e.Kind != ErrInvalid || e.Field != field {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
