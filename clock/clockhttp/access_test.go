package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/stats"
)

// tokenSource is a database of tokens that do not change.
type tokenSource []access.Token

func (s tokenSource) TokenChanges(context.Context) (int64, error)       { return 1, nil }
func (s tokenSource) AllTokens(context.Context) ([]access.Token, error) { return s, nil }
func (s tokenSource) UseTokens(context.Context, []access.Use) error     { return nil }

// testTokens makes tokens for a server.
type testTokens struct {
	t      *testing.T
	source tokenSource
	rate   int // operations a second of a token; 0: no limit
	trail  *access.Trail
}

// add adds a token and returns the header that names it.
func (k *testTokens) add(name string, role access.Role, applications ...string) (header string) {
	k.t.Helper()
	text := access.NewText()
	token, err := access.New(text, name, role, applications, 1, "test")
	if err != nil {
		k.t.Fatal(err)
	}
	k.source = append(k.source, *token)
	return "Authorization: Bearer " + text.String()
}

// watch returns a watch that has read the tokens.
func (k *testTokens) watch() *access.Watch {
	k.t.Helper()
	w := access.NewWatch(access.Config{Mode: access.Required, Rate: k.rate}, access.Deps{
		Source: k.source, Now: func() (clock.Instant, error) { return 2, nil }, Log: slog.New(slog.DiscardHandler),
		Trail: k.trail,
	})
	if err := w.Load(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	return w
}

// scattered takes each request as one from another address, so that failures are not limited.
type scattered struct {
	*access.Watch
	requests atomic.Uint32
}

func (s *scattered) Caller(ctx context.Context, r access.Request) (*access.Caller, error) {
	n := s.requests.Add(1)
	r.Address = netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	return s.Watch.Caller(ctx, r)
}

// routeNeeds holds the need of each route, by name. A route without an entry fails the test. A public route has the
// need "".
var routeNeeds = map[string]string{
	"setAlarm": "write", "cancelAlarm": "write", "batchAlarms": "write",
	"getAlarm": "read", "listAlarms": "read", "listOccurrences": "read", "previewRepeat": "read", "listEvents": "read",
	"listManifestsOf": "read", "listManifests": "read", "applyManifest": "admin",
	"getSettings": "read", "listSettings": "read",
	"listApplications": "read", "searchAlarms": "read", "listRepeating": "read", "cancelAsPerson": "write",
	"getForecast": "read", "listBulk": "read", "getBulk": "read",
	"getCaller": "read", "startSession": "read", "endOwnSession": "read", "endSession": "admin", "listTokens": "admin",
	"getSignIn": "", "beginSignIn": "", "finishSignIn": "",
	"startBulk": "operate", "stopBulk": "operate", "listNodes": "read", "getStats": "read", "listRecentTries": "read", "openapi": "read",
	"openapi30": "read",
	"kickAlarm": "operate", "discardAlarm": "operate", "pauseAlarm": "operate", "resumeAlarm": "operate", "triggerAlarm": "operate",
	"backfillAlarm": "operate", "endBackfill": "operate",
	"kickAlarms": "operate", "discardAlarms": "operate",
	"streamRings": "take", "reserveRings": "take", "ackRing": "take", "releaseRing": "take", "buryRing": "take",
	"touchRing": "take",
	"listActs":  "admin", "changeSettings": "admin",
	"healthz": "", "readyz": "", "metrics": "",
}

// allowedRoles holds the roles that allow each need.
var allowedRoles = map[string][]string{
	"": {"none", "reader", "application", "operator", "admin"}, "read": {"reader", "application", "operator", "admin"},
	"admin": {"admin"}, "write": {"application", "operator", "admin"}, "take": {"application", "admin"},
	"operate": {"operator", "admin"},
}

// TestEveryRouteNeedsItsRoleAndApplication calls every route with every role, for an application that the token covers
// and for another one. Only the refusal counts: an allowed request may fail otherwise.
func TestEveryRouteNeedsItsRoleAndApplication(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	headers := map[string]string{"none": "X-None: none"}
	for _, name := range access.RoleNames {
		role, err := access.ParseRole(name)
		if err != nil {
			t.Fatal(err)
		}
		headers[name] = tokens.add(name, role, "shop", "eu-*")
	}
	h := start(t, func(su *setup) { su.deps.Access = &scattered{Watch: tokens.watch()} })
	h.client = &http.Client{Transport: h.transport} // whether an allowed request fails is not in the contract of each route
	seen := map[string]bool{}
	for _, r := range h.server.routes(prometheus.NewRegistry()) {
		seen[r.name] = true
		need, known := routeNeeds[r.name]
		if !known {
			t.Errorf("%s has no entry in routeNeeds", r.name)
			continue
		}
		for role, header := range headers {
			for application, covered := range map[string]bool{"shop": true, "eu-1": true, "bank": false, "sho": false, "sh%6Fp": true} {
				path := strings.NewReplacer("{application}", application, "{business_id}", "1", "{message_id}",
					"1.1.1").Replace(r.pattern())
				method, path, _ := strings.Cut(path, " ")
				allowed := slices.Contains(allowedRoles[need], role)
				within := covered || need == "" || !strings.Contains(r.path, ":application")
				got := h.do(method, path, "", header)
				want := map[bool]int{true: 0, false: http.StatusForbidden}[allowed && within]
				if role == "none" && need != "" {
					want = http.StatusUnauthorized
				}
				code, _ := got.field("code").(string)
				refused := code == clock.CodeForbidden || code == clock.CodeUnauthenticated
				if refused != (want != 0) || refused && got.status != want {
					t.Errorf("%s %s as %s: %d %s, want the refusal %d", method, path, role, got.status, code, want)
				}
				if challenge := got.header.Get("Www-Authenticate"); (challenge != "") != (got.status == http.StatusUnauthorized) {
					t.Errorf("%s %s as %s: %d with the challenge %q", method, path, role, got.status, challenge)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(routeNeeds)) {
		if !seen[name] {
			t.Errorf("routeNeeds has %s, which is no route", name)
		}
	}
}

// A route that was forgotten in the table lets no caller in without a token.
func TestRouteWithoutANeedRefusesEveryToken(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	admin := tokens.add("admin", access.Administrator, "*")
	h := start(t, func(su *setup) { su.deps.Access = tokens.watch() })
	h.client = &http.Client{Transport: h.transport}
	h.server.Mount(front.Procedure{Name: "forgotten", Path: "/forgotten", Handler: http.NotFoundHandler(), Refuse: func(w http.ResponseWriter, _ *http.Request, status int, _ *clock.Error) {
		w.WriteHeader(status)
	}})
	if r := h.do("POST", "/forgotten", "", admin); r.status != http.StatusForbidden {
		t.Errorf("an admin got %d", r.status)
	}
}

func TestRefusalsFollowTheContract(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	reader := tokens.add("ci", access.Reader, "shop")
	h := start(t, func(su *setup) { su.deps.Access = tokens.watch() })
	h.expect(401, clock.CodeUnauthenticated, "PUT", alarms+"/1", `{"delay":"1h"}`)
	h.expect(401, clock.CodeUnauthenticated, "GET", "/v1/nodes", "", "Authorization: Bearer x")
	if r := h.expect(403, clock.CodeForbidden, "PUT", alarms+"/1", `{"delay":"1h"}`, reader); !strings.Contains(fmt.Sprint(r.field("detail")), "application, operator, admin") {
		t.Errorf("%s", r.body)
	}
	h.expect(403, clock.CodeForbidden, "GET", "/v1/applications/bank/alarms", "", reader)
	h.expect(200, "", "GET", alarms, "", reader)
	h.expect(200, "", "GET", "/readyz", "")
}

// The audit has who was refused what, and where operators come from. It has no other failures.
func TestRefusalsAndLoginsAreRecorded(t *testing.T) {
	t.Parallel()
	var acts []clock.Act
	trail := access.NewTrail(access.TrailDeps{
		Now: func() (clock.Instant, error) { return 2, nil }, Log: quiet(),
		Write: func(_ context.Context, written []clock.Act) error {
			acts = append(acts, written...)
			return nil
		},
	})
	tokens := &testTokens{t: t, trail: trail}
	reader, ops := tokens.add("eyes", access.Reader, "shop"), tokens.add("ops", access.Operator, "*")
	till, ended := tokens.add("till", access.Operator, "till"), tokens.add("ended", access.Reader, "shop")
	tokens.source[3].Revoke(1)
	h := start(t, func(su *setup) { su.deps.Access, su.deps.Bulk = tokens.watch(), &fixedBulk{} })
	h.client = &http.Client{Transport: h.transport}
	for range 2 {
		h.do("GET", alarms, "", "X-Request-Id: one")
	}
	h.do("GET", "/v1/nodes", "", "Authorization: Bearer x")
	h.do("POST", alarms+"/1/kick", "", reader)
	h.do("GET", "/v1/applications/bank/alarms", "", reader)
	h.do("POST", alarms+"/1/kick", "", ops, "Origin: http://evil.example")
	h.do("GET", alarms, "", reader)
	h.do("GET", alarms+"/unknown", "", ops)
	h.do("PUT", alarms+"/1", "{", ops)
	h.do("GET", "/v1/unknown", "", ops)
	h.do("GET", "/healthz", "")
	h.do("POST", "/v1/bulk", `{"application":"bank","action":"cancel","dry_run":true}`, till)
	h.do("GET", alarms, "", ended)
	for range 30 {
		h.do("GET", "/v1/stats", "")
	}
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range acts {
		if a.From != "127.0.0.1" || a.RequestID == "" || a.Before != "" || a.Subject != "" || a.At != 2 {
			t.Errorf("%+v", a)
		}
		var after struct {
			Code, Request, Role, Detail string
			Count                       int
		}
		if err := json.Unmarshal([]byte(a.After), &after); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(a.Action, " ", a.Name, " ", a.Application, " ", after.Code, " ", after.Request,
			" ", after.Count, after.Role))
		if a.Action == access.ActionDenied && (after.Detail == "" || (a.Token == "") != (a.Name == "")) {
			t.Errorf("%+v", a)
		}
	}
	want := []string{
		"denied  shop unauthenticated GET /v1/applications/{application}/alarms 2",
		"denied   unauthenticated GET /v1/nodes 1",
		"denied eyes shop forbidden POST /v1/applications/{application}/alarms/{business_id}/kick 1",
		"denied eyes bank forbidden GET /v1/applications/{application}/alarms 1",
		"denied  shop cross_site POST /v1/applications/{application}/alarms/{business_id}/kick 1",
		"login ops    0operator",
		"login till    0operator",
		"denied till bank forbidden POST /v1/bulk 1",
		"denied ended shop unauthenticated GET /v1/applications/{application}/alarms 1",
		"denied   unauthenticated GET /v1/stats 16",
		"denied   rate_limited GET /v1/stats 14",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || acts[0].RequestID != "one" {
		t.Errorf("recorded is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Lists over several applications have the covered ones alone.
func TestListsShowCoveredApplicationsAlone(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	shop, all := tokens.add("shop", access.Reader, "shop"), tokens.add("all", access.Administrator, "*")
	var asked atomic.Pointer[ApplicationsQuery]
	var found *fixedSearch
	h := start(t, func(su *setup) {
		found = &fixedSearch{store: su.store}
		su.deps.Access, su.deps.Search, su.deps.Stats = tokens.watch(), found, twoApplications{}
		su.deps.Repeating = &fixedRepeating{
			store: su.store, keys: []clock.Key{{Application: "bank", BusinessID: "x"}, {Application: "shop", BusinessID: "b"}},
		}
		su.deps.Nodes = func(context.Context) (NodesView, error) {
			return NodesView{Self: "a", Nodes: []NodeView{{Name: "a", Applications: []string{"bank", "shop"}}}}, nil
		}
		su.deps.Known = func(_ context.Context, q ApplicationsQuery) (ApplicationsView, error) {
			asked.Store(&q)
			return ApplicationsView{}, nil
		}
	})
	text := func(path, header string) string { return string(h.expect(200, "", "GET", path, "", header).body) }
	if one, both := text("/v1/nodes", shop), text("/v1/nodes", all); !strings.Contains(one, `"applications":["shop"]`) || !strings.Contains(both, `"applications":["bank","shop"]`) {
		t.Errorf("nodes: %s, %s", one, both)
	}
	one, both := text("/v1/stats", shop), text("/v1/stats", all)
	if strings.Contains(one, "bank") || !strings.Contains(one, `"sets":[3]`) || !strings.Contains(both, "bank") ||
		!strings.Contains(both, `"sets":[10]`) {
		t.Errorf("stats: %s\n%s", one, both)
	}
	h.expect(403, clock.CodeForbidden, "GET", "/v1/stats?application=bank", "", shop)
	text("/v1/applications", shop)
	if q := asked.Load(); !q.Covers("shop") || q.Covers("bank") {
		t.Error("the list of applications asks for others")
	}
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`, all)
	h.expect(201, "", "PUT", alarms+"/b", `{"delay":"1h"}`, all)
	text("/v1/search?q=1", shop)
	if q := found.asked[0]; !q.Covers("shop") || q.Covers("bank") {
		t.Error("the search looks into other applications")
	}
	h.expect(403, clock.CodeForbidden, "GET", "/v1/search?q=1&application=bank", "", shop)
	body := text("/v1/repeating", shop)
	if strings.Contains(body, "bank") || !strings.Contains(body, `"business_id":"b"`) {
		t.Errorf("repeating alarms: %s", body)
	}
	h.expect(403, clock.CodeForbidden, "GET", "/v1/repeating?application=bank", "", shop)
}

// twoApplications has the figures of one step.
type twoApplications struct{}

func (twoApplications) Last(context.Context, stats.Range) (stats.Joined, error) {
	return stats.Joined{Steps: []stats.Step{
		{Total: stats.Figures{Sets: 10}, Applications: map[string]*stats.Figures{"shop": {Sets: 3}, "bank": {Sets: 7}}},
	}}, nil
}

// endingAccess is an access whose tokens end after some checks.
type endingAccess struct {
	*access.Watch
	checks atomic.Int64 // checks that succeed yet
}

func (e *endingAccess) Check(c *access.Caller) error {
	if e.checks.Add(-1) < 0 {
		return &clock.Error{Kind: clock.ErrUnauthenticated, Code: clock.CodeUnauthenticated,
			Detail: "the token is revoked"}
	}
	return e.Watch.Check(c)
}

func TestLinesAfterARevocationAreRefused(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	writer := tokens.add("ci", access.Application, "shop")
	ending := &endingAccess{Watch: tokens.watch()}
	ending.checks.Store(1)
	h := start(t, func(su *setup) { su.deps.Access = ending })
	lines := `{"business_id":"1","delay":"1h"}` + "\n" + `{"business_id":"2","delay":"1h"}` + "\n"
	got := string(h.expect(200, "", "POST", alarms, lines, writer, "Content-Type: application/x-ndjson").body)
	if !strings.Contains(got, `"line":1,"business_id":"1","status":201`) ||
		!strings.Contains(got, `"line":2,"business_id":"2","status":401,"code":"unauthenticated"`) {
		t.Errorf("%s", got)
	}
	if _, err := h.store.Get(t.Context(), clock.Key{Application: "shop", BusinessID: "2"}); !errors.Is(err, clock.ErrNotFound) {
		t.Errorf("the refused line was set: %v", err)
	}
}

// A request over the rate of its token is 429. A stream of lines waits instead.
func TestTokenRateLimitsOperations(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	writer := tokens.add("ci", access.Application, "shop")
	tokens.rate = 50
	h := start(t, func(su *setup) { su.deps.Access = tokens.watch() })
	batch := func(items int) string {
		ids := make([]string, items)
		for i := range ids {
			ids[i] = fmt.Sprintf(`"%d"`, i)
		}
		return `{"cancel":[` + strings.Join(ids, ",") + `]}`
	}
	begun := time.Now()
	h.expect(200, "", "POST", alarms, batch(access.LeastBurst-100), writer, "Content-Type: application/json")
	r := h.expect(429, clock.CodeRateLimited, "POST", alarms, batch(500), writer, "Content-Type: application/json")
	if wait, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || wait < 2 || wait > 8 { // 400 operations at 50 a second, less the time of the test
		t.Errorf("Retry-After: %d, %v", wait, err)
	}
	lines := strings.Repeat(`{"cancel":"1"}`+"\n", 120)
	r = h.do("POST", alarms, lines, writer, "Content-Type: application/x-ndjson")
	for r.status == http.StatusTooManyRequests {
		r = h.do("POST", alarms, lines, writer, "Content-Type: application/x-ndjson")
	}
	if strings.Count(string(r.body), `"status":404`) != 120 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if took := time.Since(begun); took < 400*time.Millisecond {
		t.Errorf("120 lines took %s, at 50 a second with 100 at once", took)
	}
}

func TestAddressWithFailuresGetsTooManyRequests(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	reader := tokens.add("ci", access.Reader, "shop")
	h := start(t, func(su *setup) { su.deps.Access = tokens.watch() })
	statuses := map[int]int{}
	for range 30 {
		statuses[h.do("GET", alarms, "", "Authorization: Bearer x").status]++
	}
	if statuses[401] < 20 || statuses[429] < 5 || statuses[401]+statuses[429] != 30 {
		t.Errorf("%v", statuses)
	}
	h.expect(200, "", "GET", alarms, "", reader)
}
