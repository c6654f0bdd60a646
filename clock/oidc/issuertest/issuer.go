// Package issuertest is an OpenID Connect provider for tests: discovery, keys, the authorization code flow with PKCE,
// and claims about users. It signs everybody in without a question.
package issuertest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// ClientID is the id of the only client.
	ClientID = "clockd"
	// ClientSecret is the client's secret.
	ClientSecret = "a secret with / and +"

	keyID = "key-1"
)

// Issuer is a running provider.
type Issuer struct {
	URL string

	t   testing.TB
	key *rsa.PrivateKey

	mu        sync.Mutex
	token     map[string]any                   // claims of the next token, beside the usual ones
	info      map[string]any                   // claims at the endpoint about users
	change    func(claims map[string]any)      // changes all claims of a token before it is signed
	foreign   bool                             // tokens are signed with a key that the provider does not publish
	describes func(description map[string]any) // changes the description
	redirect  string                           // where the endpoint of tokens leads to; "": it serves
	away      bool                             // every request is answered with 503
	codes     map[string]url.Values            // authorization requests by the code that they got
	serial    int
	asked     int // requests
}

// New starts a provider, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{t: t, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.describe)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.exchange)
	mux.HandleFunc("GET /userinfo", i.userInfo)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked++
		away := i.away
		i.mu.Unlock()
		if away {
			http.Error(w, "the provider is away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Person sets the claims of the next tokens, and of the endpoint about users.
func (i *Issuer) Person(token, info map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token, i.info, i.change, i.foreign = token, info, nil, false
}

// Change makes the provider change the claims of a token before it signs them.
func (i *Issuer) Change(change func(claims map[string]any)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.change = change
}

// SignWithForeignKey makes the provider sign tokens with a key that it does not publish.
func (i *Issuer) SignWithForeignKey() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.foreign = true
}

// Describe makes the provider change its description, or not with nil.
func (i *Issuer) Describe(change func(description map[string]any)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.describes = change
}

// RedirectTokens makes the endpoint of tokens redirect to an address.
func (i *Issuer) RedirectTokens(address string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.redirect = address
}

// SetAway makes the provider fail, or serve again.
func (i *Issuer) SetAway(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = away
}

// Asked returns the number of requests so far.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

func (i *Issuer) describe(w http.ResponseWriter, _ *http.Request) {
	description := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"jwks_uri": i.URL + "/keys", "userinfo_endpoint": i.URL + "/userinfo",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.describes != nil {
		i.describes(description)
	}
	i.respond(w, http.StatusOK, description)
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.respond(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.key.Public(), KeyID: keyID, Algorithm: "RS256", Use: "sig"},
	}})
}

// authorize sends the browser back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "this is no request of the client: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	i.serial++
	code := fmt.Sprintf("code-%d", i.serial)
	i.codes[code] = q
	i.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// exchange gives a token for a code, once.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if secret, _ = url.QueryUnescape(secret); id != ClientID || secret != ClientSecret {
		http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.redirect != "" {
		http.Redirect(w, r, i.redirect, http.StatusTemporaryRedirect)
		return
	}
	request, known := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || request.Get("redirect_uri") != r.PostFormValue("redirect_uri") ||
		request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		i.respond(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": ClientID, "nonce": request.Get("nonce"), "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, i.token)
	if i.change != nil {
		i.change(claims)
	}
	i.respond(w, http.StatusOK, map[string]any{
		"access_token": "opens userinfo", "token_type": "Bearer", "expires_in": 60, "id_token": i.sign(claims),
	})
}

func (i *Issuer) userInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer opens userinfo" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.respond(w, http.StatusOK, i.info)
}

// sign returns the claims as a signed token.
func (i *Issuer) sign(claims map[string]any) string {
	key := i.key
	if i.foreign {
		var err error
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			i.t.Error(err)
			return ""
		}
	}
	signing := jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}
	signer, err := jose.NewSigner(signing, nil)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Error(err)
	}
	return token
}

func (i *Issuer) respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Logf("respond: %v", err)
	}
}
