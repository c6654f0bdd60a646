package clockhttp

import (
	"context"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestApplicationsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	const now = clock.Instant(1_800_000_000_000)
	var asked ApplicationsQuery
	h := start(t, func(su *setup) {
		su.deps.Known = func(_ context.Context, q ApplicationsQuery) (ApplicationsView, error) {
			asked = q
			v := ApplicationsView{DatabaseTime: now, OverdueUntil: now - 1000, More: q.After == "", Applications: []ApplicationView{
				{Name: "bank", OldestOverdue: now - 5000, LastSeen: now - 1000, Paused: true, Version: 3,
					Blockers: []clock.Blocker{{Code: clock.BlockedByPause, Detail: `a "person"`}}},
				{Name: "shop", OldestOverdue: clock.NoInstant, LastSeen: clock.NoInstant, Target: clock.TargetStream,
					Counts:  clock.StateCounts{clock.Rung: 7, clock.Dead: 2},
					Counted: Counted{All: q.Counts, Attention: true, Only: q.Attention}},
			}}
			return v, nil
		}
	})
	got := string(h.expect(200, "", "GET", "/v1/applications?counts=true", "").body)
	for _, want := range []string{
		`{"application":"bank","settings_version":3,"target":null,"paused":true,"oldest_overdue":"2027-01-15T07:59:55.000Z","last_seen":"2027-01-15T07:59:59.000Z","blockers":[{"code":"paused","target":null,"detail":"a \"person\""}],"counts":null}`,
		`{"application":"shop","settings_version":0,"target":"stream","paused":false,"oldest_overdue":null,"last_seen":null,"blockers":[],"counts":{"scheduled":0,"ringing":0,"rung":7,`,
		`"complete":true,"attention_complete":true}`,
		`"overdue_until":"2027-01-15T07:59:59.000Z"`, `"next_cursor":"shop"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if asked.After != "" || asked.Limit != DefaultApplicationsLimit || !asked.Counts || !asked.Covers("shop") {
		t.Errorf("asked for %+v", asked)
	}
	if last := string(h.expect(200, "", "GET", "/v1/applications?cursor=shop&limit=2", "").body); !strings.Contains(last, `"next_cursor":null`) {
		t.Errorf("%s", last)
	}
	if asked.After != "shop" || asked.Limit != 2 || asked.Counts {
		t.Errorf("asked for %+v", asked)
	}
	h.expect(200, "", "GET", "/v1/applications?application=shop", "")
	if asked.Only != "shop" || asked.After != "" {
		t.Errorf("asked for %+v", asked)
	}
	const some = `"counts":{"scheduled":null,"ringing":null,"rung":null,"expired":0,"dead":2,"cancelled":null,` +
		`"paused":0,"complete":false,"attention_complete":true}`
	got = string(h.expect(200, "", "GET", "/v1/applications?attention=true", "").body)
	if !strings.Contains(got, some) || !asked.Attention {
		t.Errorf("%s", got)
	}
	for query, code := range map[string]string{
		"attention=yes": clock.CodeInvalidValue, "application=a%20b": clock.CodeInvalidApplication,
		"counts=1": clock.CodeInvalidValue, "cursor=a%20b": clock.CodeInvalidCursor, "limit=501": clock.CodeOutOfRange,
		"prefix=a": codeUnknownParameter,
	} {
		h.expect(422, code, "GET", "/v1/applications?"+query, "")
	}
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/applications", "")
}
