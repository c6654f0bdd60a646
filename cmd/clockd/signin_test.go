package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock/oidc/issuertest"
)

// visitor follows the sign-in with a provider by hand: a cookie jar keeps no secure cookies of plain HTTP.
type visitor struct {
	t       *testing.T
	p       *process
	cookies map[string]string
}

// hasSession reports whether the visitor has the cookie of a session.
func (b *visitor) hasSession() bool { return b.cookies["__Host-clockd"] != "" }

// get requests a path of clockd, or the whole URL of another server, and returns the status, the place of the
// redirection, and the body.
func (b *visitor) get(target string) (status int, location, body string) {
	b.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = b.p.url + target
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.HasPrefix(target, b.p.url) {
		for name, value := range b.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := (&http.Client{CheckRedirect: stay}).Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for _, c := range response.Cookies() {
		if !c.Secure || !c.HttpOnly || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-clockd") {
			b.t.Errorf("the cookie %s", c)
		}
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Location"), string(text)
}

// signIn goes to the provider and back, and returns where clockd leads to.
func (b *visitor) signIn(page string) (location string) {
	b.t.Helper()
	_, toProvider, _ := b.get("/v1/oidc/start?page=" + url.QueryEscape(page))
	_, back, _ := b.get(toProvider)
	u, err := url.Parse(back)
	if err != nil || u.Path != "/prefix/v1/oidc/callback" {
		b.t.Fatalf("to %s and back to %s: %v", toProvider, back, err)
	}
	status, location, body := b.get("/v1/oidc/callback?" + u.RawQuery)
	if status != http.StatusSeeOther {
		b.t.Errorf("%d %s", status, body)
	}
	return location
}

// People sign in with a provider, and get the role of their group. Without a session or a token the service is closed
// then, also on loopback.
func TestPeopleSignInWithAProvider(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, issuer := e.open(t), issuertest.New(t)
			p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_OIDC_ISSUER="+issuer.URL,
				"CLOCKD_OIDC_CLIENT_ID="+issuertest.ClientID, "CLOCKD_OIDC_CLIENT_SECRET="+issuertest.ClientSecret,
				"CLOCKD_OIDC_REDIRECT_URL=https://clockd.example.com/prefix/v1/oidc/callback",
				"CLOCKD_OIDC_GROUPS=ops=admin; team shop=operator:shop")
			b := &visitor{t: t, p: p, cookies: map[string]string{}}
			if status, _, body := b.get("/v1/session"); status != 401 || !strings.Contains(body, "needs a token") {
				t.Errorf("nobody: %d %s", status, body)
			}
			if _, _, body := b.get("/v1/oidc"); strings.TrimSpace(body) != `{"issuer":"`+issuer.URL+`"}` {
				t.Errorf("the provider: %s", body)
			}

			issuer.Person(map[string]any{"sub": "17", "email": "anna@example.com", "groups": []string{"team shop"}}, nil)
			if location := b.signIn("?view=alarms&application=shop"); location != "../../ui/?view=alarms&application=shop" {
				t.Errorf("to %s", location)
			}
			if len(b.cookies) != 1 || !b.hasSession() {
				t.Errorf("the cookies %v", b.cookies)
			}
			_, _, body := b.get("/v1/session")
			want := `{"name":"anna@example.com","role":"operator","applications":["shop"],"token":"oidc","session":"`
			if !strings.HasPrefix(body, want) {
				t.Errorf("anna: %s", body)
			}
			if status, _, body := b.get("/v1/applications/shop/alarms"); status != 200 {
				t.Errorf("her alarms: %d %s", status, body)
			}
			if status, _, body := b.get("/v1/applications/bank/alarms"); status != 403 {
				t.Errorf("other alarms: %d %s", status, body)
			}

			other := &visitor{t: t, p: p, cookies: map[string]string{}}
			issuer.Person(map[string]any{"sub": "18", "email": "eve@example.com", "groups": []string{"guests"}}, nil)
			if location := other.signIn("//evil.example"); location != "../../ui/?sign_in=denied" || other.hasSession() {
				t.Errorf("eve: %s, %v", location, other.cookies)
			}
			_, location, _ := other.get("/v1/oidc/callback?code=code-1&state=guessed")
			if location != "../../ui/?sign_in=failed" || other.hasSession() {
				t.Errorf("no sign-in: %s, %v", location, other.cookies)
			}
			issuer.Person(map[string]any{"sub": "19", "groups": []string{"ops"}}, nil)
			if location := other.signIn("//evil.example"); location != "../../ui/" {
				t.Errorf("an admin: %s", location)
			}
			eventually(t, "the audit has who was refused", func() bool {
				_, _, audit := other.get("/v1/audit")
				return strings.Contains(audit, `eve@example.com`) && strings.Contains(audit, `"actor":"anna@example.com"`) &&
					strings.Contains(audit, `"request":"GET /v1/oidc/callback"`)
			})
			if _, _, tokens := other.get("/v1/tokens"); !strings.Contains(tokens, `"session_of":"oidc","name":"anna@example.com"`) ||
				!strings.Contains(tokens, `"created_by":"17"`) {
				t.Errorf("the sessions: %s", tokens)
			}

			if err := p.terminate(); err != nil {
				t.Fatal(err)
			}
			again := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
			b.p = again
			if status, _, body := b.get("/v1/applications/bank/alarms"); status != 200 {
				t.Errorf("without a provider and without tokens the service is open: %d %s", status, body)
			}
			newToken(t, databaseURL, "ops", "--role=reader", "--applications=*")
			eventually(t, "the session has ended with its provider", func() bool {
				status, _, body := b.get("/v1/session")
				return status == 401 && strings.Contains(body, "session has ended")
			})
		})
	}
}
