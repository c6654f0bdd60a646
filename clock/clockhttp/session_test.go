package clockhttp

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
)

// sessionSource is a database of tokens and sessions.
type sessionSource struct {
	mu     sync.Mutex
	tokens []access.Token
	actors []clock.Actor // of starts and ends
}

func (s *sessionSource) TokenChanges(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.actors)), nil
}

func (s *sessionSource) AllTokens(context.Context) ([]access.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byID := func(a, b access.Token) int { return strings.Compare(a.ID, b.ID) }
	return slices.SortedFunc(slices.Values(s.tokens), byID), nil
}

func (s *sessionSource) UseTokens(context.Context, []access.Use) error { return nil }

func (s *sessionSource) AddSession(_ context.Context, session *access.Token, _ int, by clock.Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens, s.actors = append(s.tokens, *session), append(s.actors, by)
	return nil
}

func (s *sessionSource) EndSession(_ context.Context, id string, at clock.Instant, by clock.Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tokens, func(t access.Token) bool { return t.ID == id && t.IsSession() })
	if i < 0 {
		return &clock.Error{Kind: clock.ErrNotFound, Code: clock.CodeUnknownToken, Detail: "there is none"}
	}
	s.tokens[i].Revoke(at)
	s.actors = append(s.actors, by)
	return nil
}

// startWithSessions starts a server whose watch polls, with the tokens.
func startWithSessions(t *testing.T, tokens *testTokens) *harness {
	t.Helper()
	source := &sessionSource{tokens: tokens.source}
	watch := access.NewWatch(access.Config{Mode: access.Required}, access.Deps{
		Source: source, Now: func() (clock.Instant, error) { return 2, nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err := watch.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- watch.Run(ctx) }()
	h := start(t, func(su *setup) {
		su.deps.Access, su.deps.Sessions = watch, access.NewSessions(watch, source, time.Hour)
	})
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

// signIn starts a session and returns its header.
func (h *harness) signIn(token string) (header, id string) {
	h.t.Helper()
	r := h.expect(http.StatusCreated, "", "POST", "/v1/session", "", token)
	set, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil {
		h.t.Fatal(err)
	}
	if set.Name != "__Host-clockd" || !set.Secure || !set.HttpOnly || set.SameSite != http.SameSiteStrictMode ||
		set.Path != "/" || set.Domain != "" || set.MaxAge != 3600 || strings.Contains(string(r.body), set.Value) {
		h.t.Errorf("the cookie %q of %s", r.header.Get("Set-Cookie"), r.body)
	}
	id, _ = r.field("session").(string)
	return "Cookie: theme=dark; " + set.Name + "=" + set.Value, id
}

func TestSessionActsForItsToken(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	ops, reader := tokens.add("ops", access.Operator, "shop"), tokens.add("eyes", access.Reader, "bank")
	h := startWithSessions(t, tokens)
	own := string(h.expect(200, "", "GET", "/v1/session", "", ops).body)
	opsID := tokens.source[0].ID
	if !strings.HasPrefix(own, `{"name":"ops","role":"operator","applications":["shop"],"token":"`+opsID+
		`","session":null,"expires_at":null}`) {
		t.Errorf("the caller: %s", own)
	}
	session, id := h.signIn(ops)
	own = string(h.expect(200, "", "GET", "/v1/session", "", session).body)
	if !strings.Contains(own, `"token":"`+opsID+`","session":"`+id+`","expires_at":"1970-01-01T01:00:00.002Z"`) {
		t.Errorf("the caller of a session: %s", own)
	}
	h.expect(201, "", "PUT", alarms+"/1", `{"delay":"1h"}`, session)
	h.expect(200, "", "POST", alarms+"/1/pause", "", session)
	h.expect(403, clock.CodeForbidden, "GET", "/v1/audit", "", session)
	h.expect(403, clock.CodeForbidden, "GET", "/v1/applications/bank/alarms", "", session)
	h.expect(403, clock.CodeForbidden, "POST", "/v1/session", "", session)
	h.expect(403, front.CodeCrossSite, "DELETE", alarms+"/1", "", session, "Sec-Fetch-Site: same-site")
	h.expect(403, front.CodeCrossSite, "DELETE", alarms+"/1", "", session, "Origin: http://other.example")
	h.expect(200, "", "GET", "/v1/applications/bank/alarms", "", session, reader) // the header counts

	other, _ := h.signIn(ops)
	r := h.expect(204, "", "DELETE", "/v1/session", "", session)
	if cookie := r.header.Get("Set-Cookie"); !strings.Contains(cookie, "Max-Age=0") {
		t.Errorf("the cookie stays: %q", cookie)
	}
	r = h.expect(401, clock.CodeUnauthenticated, "GET", alarms, "", session)
	if detail, _ := r.field("detail").(string); !strings.Contains(detail, "sign in again") {
		t.Errorf("the ended session: %s", r.body)
	}
	h.expect(200, "", "GET", alarms, "", other)
	h.expect(204, "", "DELETE", "/v1/session", "", ops)
	h.expect(200, "", "GET", alarms, "", other)
	h.expect(400, codeUnexpectedBody, "POST", "/v1/session", "{}", ops)
	h.expect(422, codeUnknownParameter, "DELETE", "/v1/session?id=1", "", ops)
}

func TestTokensAndSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	boss, shop := tokens.add("boss", access.Administrator, "*"), tokens.add("shop boss", access.Administrator, "shop")
	ops := tokens.add("ops", access.Operator, "*")
	tokens.source[1].OldSecretUntil = 99
	h := startWithSessions(t, tokens)
	session, id := h.signIn(ops)
	ended, endedID := h.signIn(ops)
	h.expect(204, "", "DELETE", "/v1/session", "", ended)

	all := string(h.expect(200, "", "GET", "/v1/tokens", "", boss).body)
	ofOps := `","session_of":"` + tokens.source[2].ID + `","name":"ops","role":"operator","applications":["*"],"state":`
	for _, want := range []string{
		`{"id":"` + tokens.source[1].ID + `","session_of":null,"name":"shop boss","role":"admin","applications":["shop"],` +
			`"state":"valid","created_at":"1970-01-01T00:00:00.001Z","created_by":"test","expires_at":null,` +
			`"revoked_at":null,"last_used_at":null,"old_secret_until":"1970-01-01T00:00:00.099Z","unreadable":null}`,
		`{"id":"` + id + ofOps + `"valid"`, `{"id":"` + endedID + ofOps + `"ended"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, all)
		}
	}
	var paged []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		r := h.expect(200, "", "GET", "/v1/tokens?limit=2&cursor="+cursor, "", boss)
		list, _ := r.field("tokens").([]any)
		for _, token := range list {
			paged = append(paged, token.(map[string]any)["id"].(string))
		}
		cursor, _ = r.field("next_cursor").(string)
	}
	if len(paged) != 5 || !slices.IsSorted(paged) {
		t.Errorf("the pages have %v", paged)
	}
	h.expect(422, clock.CodeOutOfRange, "GET", "/v1/tokens?limit=1001", "", boss)
	for _, caller := range []string{shop, ops, session} {
		h.expect(403, clock.CodeForbidden, "GET", "/v1/tokens", "", caller)
		h.expect(403, clock.CodeForbidden, "DELETE", "/v1/sessions/"+id, "", caller)
	}
	h.expect(404, clock.CodeUnknownToken, "DELETE", "/v1/sessions/"+tokens.source[2].ID, "", boss)
	h.expect(200, "", "GET", alarms, "", session)
	h.expect(204, "", "DELETE", "/v1/sessions/"+id, "", boss)
	h.expect(401, clock.CodeUnauthenticated, "GET", alarms, "", session)
}

func TestOpenServiceHasNoSessions(t *testing.T) {
	t.Parallel()
	h := start(t)
	anyone := string(h.expect(200, "", "GET", "/v1/session", "", "Cookie: __Host-clockd=x").body)
	if !strings.Contains(anyone, `"name":null,"role":null,"applications":["*"]`) {
		t.Errorf("%s", anyone)
	}
	h.expect(503, clock.CodeUnavailable, "POST", "/v1/session", "")
	h.expect(503, clock.CodeUnavailable, "GET", "/v1/tokens", "")
}
