package clockhttp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestEventsOfAnAlarmAreListed(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/a%2Fevents", `{"ring_at":"2036-01-02T03:04:05Z"}`)
	h.store.alter(clock.Key{Application: "shop", BusinessID: "a/events"}, func(a *clock.Alarm) {
		a.CreateTime = 1_800_000_000_000
		a.Attempts = []clock.Attempt{{Generation: 1, RingNo: 1, Time: 1_800_000_001_000, Outcome: clock.Nacked,
			Error: "full"}}
	})
	body := string(h.expect(200, "", "GET", alarms+"/a%2Fevents/events", "").body)
	const want = `"events":[{"at":"2027-01-15T08:00:00.000Z","event":"created","generation":1,` +
		`"ring_at":"2036-01-02T03:04:05.000Z","ring_no":null,"detail":null,"by":null,"job":null},` +
		`{"at":"2027-01-15T08:00:01.000Z","event":"tried","generation":1,"ring_at":null,"ring_no":1,` +
		`"detail":"nacked: full","by":null,"job":null}]}`
	if !strings.Contains(body, want) || !strings.HasPrefix(body, `{"state":"scheduled","next_try_time":"`) {
		t.Errorf("got %s", body)
	}
	h.expect(404, clock.CodeUnknownAlarm, "GET", alarms+"/b/events", "")
}

func TestEventsHaveTheActsOnTheAlarm(t *testing.T) {
	t.Parallel()
	var asked clock.ActsQuery
	var fails error
	h := start(t, func(su *setup) {
		su.deps.Audit = func(_ context.Context, q clock.ActsQuery) ([]clock.Act, error) {
			asked = q
			return []clock.Act{{
				At: 1_800_000_002_000, Actor: clock.Actor{Name: "ann", From: "192.0.2.1"}, Action: "resume",
				After: `{"state":"scheduled","generation":1,"note":"found"}`,
			}}, fails
		}
	})
	h.expect(201, "", "PUT", alarms+"/a%2Fb", `{"delay":"1h"}`)
	key := clock.Key{Application: "shop", BusinessID: "a/b"}
	h.store.alter(key, func(a *clock.Alarm) { a.CreateTime = 1_800_000_000_000 })
	body := string(h.expect(200, "", "GET", alarms+"/a%2Fb/events", "").body)
	const want = `{"at":"2027-01-15T08:00:02.000Z","event":"resumed","generation":1,"ring_at":null,"ring_no":null,` +
		`"detail":"found","by":"ann","job":null}]}`
	if !strings.HasSuffix(strings.TrimSpace(body), want) || strings.Contains(body, "192.0.2.1") {
		t.Errorf("got %s", body)
	}
	if want := (clock.ActsQuery{Application: "shop", Subject: "a/b", Limit: 100}); asked != want {
		t.Errorf("asked for %+v", asked)
	}
	fails = clock.Unavailable(errors.New("gone"))
	h.expect(503, clock.CodeUnavailable, "GET", alarms+"/a%2Fb/events", "")
}

func TestEventsHaveTheBulkJobsOnTheAlarm(t *testing.T) {
	t.Parallel()
	jobs := &fixedBulk{}
	h := start(t, func(su *setup) { su.deps.Bulk = jobs })
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`)
	h.store.alter(clock.Key{Application: "shop", BusinessID: "a"}, func(a *clock.Alarm) {
		a.CreateTime = 1_799_999_999_000
	})
	body := string(h.expect(200, "", "GET", alarms+"/a/events", "").body)
	const want = `{"at":"2027-01-15T08:00:00.000Z","event":"bulk","generation":1,"ring_at":null,"ring_no":null,` +
		`"detail":"pause: stock","by":"ann","job":"J1"}]}`
	if !strings.HasSuffix(strings.TrimSpace(body), want) {
		t.Errorf("got %s", body)
	}
	jobs.broken = clock.Unavailable(errors.New("gone"))
	h.expect(503, clock.CodeUnavailable, "GET", alarms+"/a/events", "")
}

func TestPeopleCancelAlarmsWithANote(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`)
	h.expect(412, "condition_failed", "POST", alarms+"/a/cancel", `{"note":"closed"}`, `If-Match: "7"`)
	h.expect(422, clock.CodeOutOfRange, "POST", alarms+"/a/cancel", `{"note":"`+strings.Repeat("x", 301)+`"}`)
	h.expect(422, "unknown_field", "POST", alarms+"/a/cancel", `{"why":"closed"}`)
	for range 2 {
		r := h.expect(200, "", "POST", alarms+"/a/cancel", `{"note":"closed"}`)
		if r.field("state") != "cancelled" {
			t.Errorf("%s", r.body)
		}
	}
	h.expect(404, clock.CodeUnknownAlarm, "POST", alarms+"/b/cancel", "")
}
