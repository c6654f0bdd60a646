package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/oidc/issuertest"
)

const redirectURL = "http://127.0.0.1:1/prefix" + CallbackPath

// newProvider returns a provider that has the issuer, and grants for the groups ops and shop.
func newProvider(t *testing.T, issuer *issuertest.Issuer) *Provider {
	t.Helper()
	grants, err := ParseGrants("ops=admin; cn=shop,dc=example=operator:shop,shop-*; everyone=reader:*")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Issuer: issuer.URL, ClientID: issuertest.ClientID, ClientSecret: issuertest.ClientSecret,
		RedirectURL: redirectURL, Scopes: []string{"openid", "email"}, NameClaim: "email",
		GroupsClaim: "realm.roles", Grants: grants,
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return New(cfg, func() (clock.Instant, error) { return clock.InstantOf(time.Now()), nil })
}

// signIn goes through the flow as a browser does, with the response that the change makes of the provider's.
func signIn(t *testing.T, p *Provider, change func(a *attempt, response url.Values)) (*access.Person, error) {
	t.Helper()
	address, text, err := p.Begin(t.Context(), "?view=nodes")
	if err != nil {
		return nil, err
	}
	a, err := parseAttempt(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	browser := &http.Client{CheckRedirect: stay}
	response, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	back, err := response.Location()
	if err != nil || !strings.HasPrefix(back.String(), redirectURL+"?") {
		t.Fatalf("%d, back to %v: %v", response.StatusCode, back, err)
	}
	got := back.Query()
	if change != nil {
		change(&a, got)
	}
	person, page, err := p.Finish(t.Context(), a.encode(), got)
	if page != "?view=nodes" {
		t.Errorf("the page is %q", page)
	}
	return person, err
}

func roles(names ...string) map[string]any { return map[string]any{"roles": names} }

func TestFirstGrantOfAGroupApplies(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t)
	p := newProvider(t, issuer)
	if n := issuer.Asked(); n != 0 {
		t.Errorf("the provider was asked %d times before a sign-in", n)
	}
	for name, c := range map[string]struct {
		token, info map[string]any
		want        string
	}{
		"an admin": {
			token: map[string]any{"sub": "1", "email": "a@example.com", "realm": roles("everyone", "ops")},
			want:  "a@example.com 1 admin *",
		},
		"an operator": {
			token: map[string]any{"sub": "2", "realm": roles("cn=shop,dc=example")}, want: "2 2 operator shop,shop-*",
		},
		"one group as a text": {
			token: map[string]any{"sub": "3", "realm.roles": "everyone"}, want: "3 3 reader *",
		},
		"groups of the endpoint": {
			token: map[string]any{"sub": "4", "email": "d@example.com"},
			info:  map[string]any{"sub": "4", "email": "boss@example.com", "realm": roles("ops")},
			want:  "d@example.com 4 admin *",
		},
	} {
		issuer.Person(c.token, c.info)
		got, err := signIn(t, p, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text := fmt.Sprint(got.Name, " ", got.Subject, " ", got.Role, " ", got.Applications); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// A forged response, or one for another browser, opens nothing.
func TestForgedSignInsAreRefused(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t)
	p := newProvider(t, issuer)
	member := map[string]any{"sub": "1", "realm": roles("ops")}
	claim := func(name string, value any) func() {
		return func() { issuer.Change(func(claims map[string]any) { claims[name] = value }) }
	}
	const otherBrowser, noGrant = "no sign-in of this browser", "invalid_grant"
	for name, c := range map[string]struct {
		prepare     func()
		change      func(a *attempt, response url.Values)
		token, info map[string]any // nil: of a member
		denied      bool           // the person is known, and has no role
		detail      string
	}{
		"state of another browser": {
			change: func(a *attempt, _ url.Values) { a.State = newAttempt("").State }, detail: otherBrowser,
		},
		"no state":     {change: func(_ *attempt, r url.Values) { r.Del("state") }, detail: otherBrowser},
		"another code": {change: func(_ *attempt, r url.Values) { r.Set("code", "guessed") }, detail: noGrant},
		"another verifier": {
			change: func(a *attempt, _ url.Values) { a.Verifier = newAttempt("").Verifier }, detail: noGrant,
		},
		"another nonce": {
			change: func(a *attempt, _ url.Values) { a.Nonce = newAttempt("").Nonce }, detail: "another sign-in",
		},
		"a refusal": {change: func(_ *attempt, r url.Values) {
			r.Set("error", "access_denied")
			r.Set("error_description", strings.Repeat("no ", 1000))
		}, detail: "access_denied"},
		"another issuer":   {prepare: claim("iss", "https://evil.example"), detail: "not valid"},
		"another audience": {prepare: claim("aud", "another client"), detail: "not valid"},
		"an expired token": {prepare: claim("exp", time.Now().Add(-time.Hour).Unix()), detail: "expired"},
		"another key":      {prepare: issuer.SignWithForeignKey, detail: "not valid"},
		"no subject":       {token: map[string]any{"realm": roles("ops")}, detail: "no subject"},
		"another party":    {prepare: claim("azp", "another client"), detail: "another client"},
		"a long issuer":    {prepare: claim("iss", strings.Repeat("x", 400_000)), detail: "not valid"},
		"two people": {
			token: map[string]any{"sub": "1"}, info: map[string]any{"sub": "2", "realm": roles("ops")},
			detail: "two people",
		},
		"no group": {
			token:  map[string]any{"sub": "1", "email": "x@example.com", "realm": roles("guests")},
			denied: true, detail: `"x@example.com" has no group`,
		},
		"no claim at all": {
			token: map[string]any{"sub": "1"}, info: map[string]any{"sub": "1"}, denied: true, detail: "0 groups",
		},
		"groups of another kind": {
			token:  map[string]any{"sub": "1", "realm": map[string]any{"roles": []any{1, roles("ops")}}},
			denied: true, detail: "0 groups",
		},
	} {
		if c.token == nil {
			c.token = member
		}
		issuer.Person(c.token, c.info)
		if c.prepare != nil {
			c.prepare()
		}
		kind := clock.ErrUnauthenticated
		if c.denied {
			kind = clock.ErrForbidden
		}
		got, err := signIn(t, p, c.change)
		if got != nil || !errors.Is(err, kind) || !strings.Contains(err.Error(), c.detail) || len(err.Error()) > 700 ||
			strings.Contains(err.Error(), "opens userinfo") {
			t.Errorf("%s: %+v, %v, want %v with %q", name, got, err, kind, c.detail)
		}
	}
	issuer.Person(member, nil)
	if _, err := signIn(t, p, nil); err != nil {
		t.Errorf("an honest sign-in: %v", err)
	}
}

// A sign-in fails while the provider is away, and works afterwards.
func TestProviderMayBeAway(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t)
	p := newProvider(t, issuer)
	issuer.Person(map[string]any{"sub": "1", "realm": roles("ops")}, nil)
	issuer.SetAway(true)
	if _, _, err := p.Begin(t.Context(), ""); !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("begin: %v", err)
	}
	issuer.SetAway(false)
	if _, err := signIn(t, p, nil); err != nil {
		t.Errorf("after its return: %v", err)
	}
	_, err := signIn(t, p, func(*attempt, url.Values) { issuer.SetAway(true) })
	if !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("finish: %v", err)
	}
}

// Few sign-ins wait for the provider at once, and each has its place back afterwards. The begin of a sign-in needs no
// place.
func TestSignInsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t)
	issuer.Person(map[string]any{"sub": "1", "realm": roles("ops")}, nil)
	p := newProvider(t, issuer)
	var leave []func()
	for range maxSignIns {
		_, done, err := p.enter(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, done)
	}
	if _, err := signIn(t, p, nil); !errors.Is(err, clock.ErrUnavailable) || !strings.Contains(err.Error(), "too many") {
		t.Errorf("one too many: %v", err)
	}
	for _, done := range leave {
		done()
	}
	for range 2 * maxSignIns {
		if _, err := signIn(t, p, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A provider whose description is not complete, unsafe or endless is unknown until it has a good one, which stays.
func TestBadDescriptionsAreNotKept(t *testing.T) {
	t.Parallel()
	issuer := issuertest.New(t)
	p := newProvider(t, issuer)
	for what, c := range map[string]struct {
		name  string
		value any
		want  string
	}{
		"no endpoint": {"authorization_endpoint", "", "authorization_endpoint is"},
		"a script":    {"authorization_endpoint", "javascript:alert(1)//https://x", "authorization_endpoint is"},
		"plain HTTP":  {"token_endpoint", "http://login.example.com/token", "token_endpoint is"},
		"no keys":     {"jwks_uri", "/keys", "jwks_uri is"},
		"no end":      {"x", strings.Repeat("x", 2<<20), "too large"},
		"other name":  {"issuer", "https://evil.example", "evil.example"},
	} {
		issuer.Describe(func(description map[string]any) { description[c.name] = c.value })
		if _, _, err := p.Begin(t.Context(), ""); !errors.Is(err, clock.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	issuer.Describe(nil)
	asked := issuer.Asked()
	for range 3 {
		if _, _, err := p.Begin(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := issuer.Asked() - asked; n != 1 {
		t.Errorf("the provider described itself %d times", n)
	}
	p.foundAt = p.foundAt.Add(-2 * describedFor)
	issuer.SetAway(true)
	if _, _, err := p.Begin(t.Context(), ""); err != nil {
		t.Errorf("the last description does not apply: %v", err)
	}
}

// A redirection does not take the secret of the client elsewhere.
func TestRedirectionsAreNotFollowed(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer thief.Close()
	issuer := issuertest.New(t)
	issuer.Person(map[string]any{"sub": "1", "realm": roles("ops")}, nil)
	p := newProvider(t, issuer)
	_, err := signIn(t, p, func(*attempt, url.Values) { issuer.RedirectTokens(thief.URL + "/stolen") })
	if !errors.Is(err, clock.ErrUnauthenticated) || len(asked) > 0 {
		t.Errorf("%v, %d requests", err, len(asked))
	}
}
