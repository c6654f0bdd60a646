package clockhttp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/stats"
)

type recentResponse struct {
	Node, Cursor string
	Tries        []struct {
		Number      int
		Application string
		BusinessID  string `json:"business_id"`
		MessageID   string `json:"message_id"`
		RingNo      int    `json:"ring_no"`
		Target      string
		DueAt       string `json:"due_at"`
		Time        string
		Outcome     string
		Error       *string
	}
}

// rungAt counts one try of each application.
func rungAt(r *stats.Recent, kind clock.OutcomeKind, applications ...string) {
	rings, outcomes := make([]clock.Ring, len(applications)), make([]clock.Outcome, len(applications))
	for i, application := range applications {
		rings[i] = clock.Ring{Key: clock.Key{Application: application, BusinessID: `o"1`}, AlarmID: 9, RingNo: 3,
			RingAt: 1_800_000_000_000}
		outcomes[i].Kind = kind
		if kind != clock.Confirmed {
			outcomes[i].Reason = "status 500"
		}
	}
	r.Rung(clock.TargetWebhook, rings, outcomes, 1_800_000_000_004)
}

func TestRecentTriesAreThoseSinceTheCursor(t *testing.T) {
	t.Parallel()
	var recent stats.Recent
	tokens := &testTokens{t: t}
	shop, all := tokens.add("shop", access.Reader, "shop"), tokens.add("all", access.Reader, "*")
	h := start(t, func(su *setup) {
		su.deps.Access = tokens.watch()
		su.deps.Recent = Recent{Node: stats.Node{Name: "a", Incarnation: "INC"}, Tries: &recent}
	})
	read := func(query, header string) (got recentResponse) {
		t.Helper()
		response := h.expect(200, "", "GET", "/v1/rings/recent"+query, "", header)
		if err := json.Unmarshal(response.body, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read("", all); got.Node != "a" || got.Cursor != "INC.0" || got.Tries == nil || len(got.Tries) != 0 {
		t.Errorf("before a try: %+v", got)
	}
	rungAt(&recent, clock.Confirmed, "shop", "bank")
	rungAt(&recent, clock.Nacked, "bank")
	got := read("?cursor=INC.0", all)
	if len(got.Tries) != 3 || got.Cursor != "INC.3" {
		t.Fatalf("%+v", got)
	}
	reason := "status 500"
	if first, last := got.Tries[0], got.Tries[2]; first.Error != nil || first.Outcome != "confirmed" ||
		last.Error == nil || *last.Error != reason || last.Outcome != "nacked" || last.Number != 2 ||
		last.BusinessID != `o"1` || last.MessageID != "9.0.3" || last.RingNo != 3 || last.Target != "webhook" ||
		last.DueAt != "2027-01-15T08:00:00.000Z" || last.Time != "2027-01-15T08:00:00.004Z" {
		t.Errorf("%+v", got.Tries)
	}
	for _, c := range []struct {
		query, header, want string
	}{
		{"?cursor=INC.2", all, "bank"},
		{"?cursor=INC.3", all, ""},
		{"?cursor=OTHER.3", all, "shop bank bank"},
		{"?cursor=INC.99", all, "shop bank bank"},
		{"?application=shop", all, "shop"},
		{"", shop, "shop"},
	} {
		var applications []string
		for _, try := range read(c.query, c.header).Tries {
			applications = append(applications, try.Application)
		}
		if joined := strings.Join(applications, " "); joined != c.want {
			t.Errorf("%s: tries of %q, want %q", c.query, joined, c.want)
		}
	}
	for _, cursor := range []string{"INC", "INC.", "INC.-1", "INC.x", "INC.99999999999999999999"} {
		h.expect(422, clock.CodeInvalidCursor, "GET", "/v1/rings/recent?cursor="+cursor, "", all)
	}
	h.expect(422, codeUnknownParameter, "GET", "/v1/rings/recent?limit=5", "", all)
	h.expect(403, clock.CodeForbidden, "GET", "/v1/rings/recent?application=bank", "", shop)
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/rings/recent", "")
}
