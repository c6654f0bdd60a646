package clock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSubmitRefusesInvalidOps(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		set := testSet("a")
		set.Payload = make([]byte, DefaultMaxPayload+1)
		for want, op := range map[string]Op{
			CodePayloadTooLarge:    {Set: set},
			CodeInvalidApplication: {Cancel: &Cancel{Key: Key{"", "a"}}},
			CodeInvalidBusinessID:  {Cancel: &Cancel{Key: Key{"a", ""}}},
		} {
			if code := codeOf(t, s.Submit(op)); code != want {
				t.Errorf("got %s, want %s", code, want)
			}
		}
		if len(s.store.groups) != 0 {
			t.Error("the store was asked")
		}
	})
}

func TestSubmitResolvesADelay(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		time.Sleep(300 * time.Millisecond)
		set := testSet("a")
		setDelay(30 * time.Minute)(set)
		given := *set
		want, _ := s.time.In(30 * time.Minute)
		first := must(t, s.Submit(Op{Set: set}))
		if first.Alarm.RingAt != want || first.Alarm.NextTryTime != want {
			t.Errorf("rings at %s, want %s", first.Alarm.RingAt, want)
		}
		if set.RingAt != given.RingAt || set.Delay != given.Delay {
			t.Errorf("the caller's set was changed to %+v", set)
		}
		time.Sleep(time.Second)
		again := must(t, s.Submit(Op{Set: set}))
		if moved := again.Alarm.RingAt.Sub(first.Alarm.RingAt); again.Verdict != Replace || moved < time.Second {
			t.Errorf("repeated: %s, moved by %s", again.Verdict, moved)
		}
	})
}

func TestSubmitChecksTheLatestRingAgainstADelay(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		ring, _ := s.time.In(time.Minute)
		for _, c := range []struct {
			latest Instant
			want   string
		}{{ring, ""}, {ring - 1, CodeOutOfRange}} {
			set := testSet("a")
			setDelay(time.Minute)(set)
			set.LatestRingAt = c.latest
			_, err := s.Submit(Op{Set: set}).Wait(t.Context())
			if field, code := invalidField(err); code != c.want || code != "" && field != "latest_ring_at" {
				t.Errorf("latest at %s: %v", c.latest, err)
			}
		}
	})
}

func TestSubmitNeedsTheTimeForADelay(t *testing.T) {
	tb := newTestTimebase(t, TimebaseDeps{})
	s, err := NewService(DefaultServiceConfig(), ServiceDeps{Store: newModelStore(), Time: tb})
	if err != nil {
		t.Fatal(err)
	}
	set := testSet("a")
	setDelay(0)(set)
	if _, err := s.Submit(t.Context(), Op{Set: set}).Wait(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestGetAndListReadStoredAlarms(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		for _, id := range []string{"b", "a", "c"} {
			must(t, s.set(id))
		}
		if a, err := s.Get(t.Context(), Key{"shop", "a"}); err != nil || a.BusinessID != "a" {
			t.Errorf("got %v, %v", a, err)
		}
		if _, err := s.Get(t.Context(), Key{"shop", "x"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown key: %v", err)
		}
		if _, err := s.Get(t.Context(), Key{"shop", ""}); !errors.Is(err, ErrInvalid) {
			t.Errorf("an invalid key: %v", err)
		}
		var list []Alarm
		next, err := s.List(t.Context(), ListQuery{Application: "shop", DueAfter: NoInstant, DueBefore: NoInstant, After: ListPosition{BusinessID: "a"}, Limit: 3}, func(a *Alarm) bool {
			list = append(list, *a)
			return len(list) < 2
		})
		if err != nil || len(list) != 2 || list[0].BusinessID != "b" || next.BusinessID != "b" {
			t.Errorf("listed %v up to %+v, %v", list, next, err)
		}
		if s.MaxPayload() != DefaultMaxPayload {
			t.Error("the largest payload is not the configured one")
		}
	})
}

func TestListRefusesInvalidQueries(t *testing.T) {
	s := &Service{store: newModelStore()}
	long := strings.Repeat("a", MaxBusinessID+1)
	for _, c := range []struct {
		q     ListQuery
		field string
	}{
		{ListQuery{Application: "shop", Limit: 1}, ""},
		{ListQuery{Application: "shop", Limit: MaxListLimit, Prefix: long[1:], DueAfter: NoInstant, After: ListPosition{BusinessID: "a"}}, ""},
		{ListQuery{Application: "shop", Limit: 1, DueAfter: 5, After: ListPosition{DueTime: 5, DueID: 1}}, ""},
		{ListQuery{Limit: 1}, "application"},
		{ListQuery{Application: "shop"}, "limit"},
		{ListQuery{Application: "shop", Limit: MaxListLimit + 1}, "limit"},
		{ListQuery{Application: "shop", Limit: 1, Prefix: long}, "prefix"},
		{ListQuery{Application: "shop", Limit: 1, Prefix: "\xff"}, "prefix"},
		{ListQuery{Application: "shop", Limit: 1, Prefix: "a\x00"}, "prefix"},
		{ListQuery{Application: "shop", Limit: 1, DueAfter: NoInstant, After: ListPosition{BusinessID: "a\x00"}},
			"cursor"},
		{ListQuery{Application: "shop", Limit: 1, DueAfter: NoInstant, After: ListPosition{DueTime: 5, DueID: 1}},
			"cursor"},
		{ListQuery{Application: "shop", Limit: 1, DueAfter: 5, After: ListPosition{BusinessID: "a"}}, "cursor"},
	} {
		c.q.DueBefore = NoInstant
		_, err := s.List(context.Background(), c.q, func(*Alarm) bool { return true })
		if field, _ := invalidField(err); field != c.field || (err == nil) != (c.field == "") {
			t.Errorf("%+v: %v, want field %q", c.q, err, c.field)
		}
	}
}

func TestServiceConfigNamesTheInvalidField(t *testing.T) {
	if err := DefaultServiceConfig().Validate(); err != nil {
		t.Fatalf("the default: %v", err)
	}
	for name, change := range map[string]func(c *ServiceConfig){
		"write committers":  func(c *ServiceConfig) { c.Writer.Committers = 0 },
		"write group ops":   func(c *ServiceConfig) { c.Writer.GroupOps = 5001 },
		"write group bytes": func(c *ServiceConfig) { c.Writer.GroupBytes = 64<<10 - 1 },
		"write queue bytes": func(c *ServiceConfig) { c.Writer.QueueBytes = c.Writer.GroupBytes - 1 },
		"queue wait":        func(c *ServiceConfig) { c.Writer.QueueWait = RequestTimeout / 2 },
		"locked writes":     func(c *ServiceConfig) { c.Writer.LockedWrites = 0 },
		"lock wait":         func(c *ServiceConfig) { c.Writer.LockWait = RequestTimeout },
		"max payload":       func(c *ServiceConfig) { c.MaxPayload = -1 },
		"at most 2097152":   func(c *ServiceConfig) { c.MaxPayload = c.Writer.GroupBytes/2 + 1 },
	} {
		cfg := DefaultServiceConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := NewService(cfg, ServiceDeps{Store: newModelStore()}); s != nil || err == nil {
			t.Errorf("%s: a service with an invalid configuration", name)
		}
	}
}
