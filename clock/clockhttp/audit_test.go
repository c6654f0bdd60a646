package clockhttp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

func TestAuditShowsActs(t *testing.T) {
	t.Parallel()
	var asked []clock.ActsQuery
	tokens := &testTokens{t: t}
	all, shop := tokens.add("boss", access.Administrator, "*"), tokens.add("shop boss", access.Administrator, "shop")
	h := start(t, func(su *setup) {
		su.deps.Access = tokens.watch()
		su.deps.Audit = func(_ context.Context, q clock.ActsQuery) ([]clock.Act, error) {
			asked = append(asked, q)
			acts := []clock.Act{
				{ID: 9, At: 1_700_000_000_000, Actor: clock.Actor{Name: "ci", Token: "t1", From: "192.0.2.1", RequestID: "r1"},
					Action: "kick", Application: "shop", Subject: "a", Before: `{"state":"dead"}`,
					After: `{"state":"scheduled"}`},
				{ID: 8, Action: "pause", Application: "bank", Subject: "b", Before: "{}", After: "{}"},
				{ID: 7, Action: "token_create", Subject: "t2", After: "{}"},
			}
			return acts[:min(len(acts), q.Limit)], nil
		}
	})
	got := string(h.expect(200, "", "GET", "/v1/audit", "", all).body)
	for _, want := range []string{
		`{"id":9,"at":"2023-11-14T22:13:20.000Z","actor":"ci","token":"t1","from":"192.0.2.1","request_id":"r1","action":"kick","application":"shop","subject":"a","before":{"state":"dead"},"after":{"state":"scheduled"}}`,
		`"actor":null`, `"before":null`, `"action":"token_create"`, `"next_cursor":null`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	own := string(h.expect(200, "", "GET", "/v1/audit?limit=3", "", shop).body)
	if strings.Contains(own, "bank") || strings.Contains(own, "token_create") ||
		!strings.Contains(own, `"application":"shop"`) || !strings.Contains(own, `"next_cursor":"7"`) {
		t.Errorf("the acts for one application: %s", own)
	}
	h.expect(200, "", "GET", "/v1/audit?application=shop&cursor=8&limit=2", "", shop)
	h.expect(403, clock.CodeForbidden, "GET", "/v1/audit?application=bank", "", shop)
	h.expect(422, clock.CodeInvalidCursor, "GET", "/v1/audit?cursor=x", "", all)
	h.expect(422, clock.CodeOutOfRange, "GET", "/v1/audit?limit=1001", "", all)
	h.expect(200, "", "GET", "/v1/audit?application=shop&subject=a%2Fb", "", shop)
	h.expect(422, clock.CodeInvalidValue, "GET", "/v1/audit?subject=a", "", all)
	h.expect(422, clock.CodeInvalidValue, "GET", "/v1/audit?application=shop&subject=a%00", "", all)
	h.expect(422, clock.CodeInvalidValue, "GET", "/v1/audit?application=shop&subject=%ff", "", all)
	h.expect(422, clock.CodeInvalidValue, "GET", "/v1/audit?action=cancelled", "", all)
	want := []clock.ActsQuery{
		{Limit: clock.DefaultActsLimit}, {Limit: 3}, {Application: "shop", BeforeID: 8, Limit: 2},
		{Application: "shop", Subject: "a/b", Limit: clock.DefaultActsLimit},
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %+v", asked)
	}
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/audit", "")
}

// Pages of the acts of a person, or of a kind, have each of them once, however the acts of others lie between.
func TestAuditShowsTheActsOfAPersonOrAKind(t *testing.T) {
	t.Parallel()
	const kept = 2500
	h := start(t, func(su *setup) {
		su.deps.Audit = func(_ context.Context, q clock.ActsQuery) (acts []clock.Act, _ error) {
			for id := min(q.BeforeID-1, kept); id > 0 && len(acts) < q.Limit; id-- {
				a := clock.Act{ID: id, Action: "pause", Application: "shop", After: "{}"}
				a.Name = "ann"
				if id%1200 == 1 { // 1, 1201, 2401
					a.Name, a.Action = "bob", "cancel"
				}
				acts = append(acts, a)
			}
			return acts, nil
		}
	})
	for query, wants := range map[string][]int64{
		"actor=bob":                {2401, 1201, 1},
		"actor=bob&action=cancel":  {2401, 1201, 1},
		"action=cancel&limit=1":    {2401, 1201, 1},
		"actor=bob&action=pause":   nil,
		"actor=ann&action=discard": nil,
	} {
		var ids []int64
		pages, cursor := 0, "9999"
		for ; cursor != ""; pages++ {
			r := h.expect(200, "", "GET", "/v1/audit?"+query+"&cursor="+cursor, "")
			var page struct {
				Acts       []struct{ ID int64 }
				NextCursor string `json:"next_cursor"`
			}
			if err := json.Unmarshal(r.body, &page); err != nil {
				t.Fatal(err)
			}
			for _, act := range page.Acts {
				ids = append(ids, act.ID)
			}
			cursor = page.NextCursor
		}
		if !slices.Equal(ids, wants) || pages < 3 {
			t.Errorf("%s: %v on %d pages, want %v", query, ids, pages, wants)
		}
	}
}
