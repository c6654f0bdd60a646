package oidc

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

const (
	// requestTimeout bounds a request to the provider, and a whole sign-in.
	requestTimeout = 10 * time.Second
	// maxResponse is the most bytes of a response of the provider.
	maxResponse = 1 << 20
	// maxSignIns is the most sign-ins that wait for the provider at once.
	maxSignIns = 16
	// describedFor is the time after which the provider describes itself again.
	describedFor = time.Hour
)

// Provider signs people in. Any goroutine may call it.
type Provider struct {
	cfg     Config
	now     func() (clock.Instant, error)
	client  *http.Client
	signIns chan struct{} // has one element for each sign-in that waits for the provider

	discovery singleflight.Group
	mu        sync.Mutex
	found     *oidc.Provider // nil until the provider has described itself
	foundAt   time.Time
}

// New returns the provider of the configuration. It asks the provider nothing. now is the database's time.
func New(cfg Config, now func() (clock.Instant, error)) *Provider {
	return &Provider{
		cfg: cfg, now: now, signIns: make(chan struct{}, maxSignIns),
		client: &http.Client{
			Timeout: requestTimeout, Transport: boundedTransport{},
			// A redirection could take the client's secret elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// boundedTransport sends requests, and bounds the bodies of responses.
type boundedTransport struct{}

// RoundTrip sends a request.
func (boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	}
	return response, err
}

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// Begin returns the URL of the provider for a browser that wants to return to a page of the console, and the text of
// the attempt, which the browser keeps.
func (p *Provider) Begin(ctx context.Context, page string) (address, attempt string, err error) {
	provider, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	a := newAttempt(page)
	address = p.oauth(provider).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier))
	return address, a.encode(), nil
}

// Finish reads the provider's response to an attempt, and returns who signs in, and the page to return to. It returns a
// clock.ErrUnauthenticated for a response without proof, a clock.ErrForbidden for a person without a role, and a
// clock.ErrUnavailable while the provider does not respond.
func (p *Provider) Finish(
	ctx context.Context, text string, response url.Values,
) (person *access.Person, page string, err error) {
	a, err := parseAttempt(text)
	if err != nil {
		return nil, "", unproven("this browser has begun no sign-in, or a long time ago", nil)
	}
	person, err = p.finish(ctx, a, response)
	return person, a.Page, err
}

func (p *Provider) finish(ctx context.Context, a attempt, response url.Values) (*access.Person, error) {
	if subtle.ConstantTimeCompare([]byte(a.State), []byte(response.Get("state"))) != 1 {
		return nil, unproven("the response of the provider belongs to no sign-in of this browser", nil)
	}
	if refusal := response.Get("error"); refusal != "" {
		reason := fmt.Sprintf("%.64q %.256q", refusal, response.Get("error_description"))
		return nil, unproven("the provider refuses: "+reason, nil)
	}
	ctx, done, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	provider, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.oauth(provider).Exchange(ctx, response.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, exchangeFailure(err)
	}
	claims, err := p.claims(ctx, provider, token, a.Nonce)
	if err != nil {
		return nil, err
	}
	return p.person(claims)
}

// enter takes a place among the sign-ins that wait for the provider. Call done at the end.
func (p *Provider) enter(ctx context.Context) (pctx context.Context, done func(), err error) {
	select {
	case p.signIns <- struct{}{}:
	default:
		return nil, nil, away("too many people sign in at once", nil)
	}
	pctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), requestTimeout)
	return pctx, func() {
		cancel()
		<-p.signIns
	}, nil
}

// discover returns the provider, as it describes itself. Requests at the same time share the question. A provider that
// has described itself before stays known while it does not respond.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	known, current := p.known()
	if current {
		return known, nil
	}
	// The question goes on without the request that asked first.
	asking := oidc.ClientContext(context.WithoutCancel(ctx), p.client)
	answer := p.discovery.DoChan("", func() (any, error) { return p.ask(asking) })
	select {
	case <-ctx.Done():
		return nil, away("the OpenID Connect provider does not describe itself in time", nil)
	case r := <-answer:
		if found, is := r.Val.(*oidc.Provider); is && r.Err == nil {
			return found, nil
		}
		if known != nil {
			return known, nil
		}
		return nil, away("the OpenID Connect provider does not describe itself", r.Err)
	}
}

// known returns the last description of the provider, nil without one, and whether it needs no other.
func (p *Provider) known() (found *oidc.Provider, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found, p.found != nil && time.Since(p.foundAt) < describedFor
}

// ask asks the provider to describe itself, and checks its addresses: browsers and tokens go there.
func (p *Provider) ask(ctx context.Context) (*oidc.Provider, error) {
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	var keys struct {
		Address string `json:"jwks_uri"`
	}
	if err := found.Claims(&keys); err != nil {
		return nil, err
	}
	endpoint := found.Endpoint()
	for name, address := range map[string]string{
		"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": keys.Address,
		"userinfo_endpoint": cmp.Or(found.UserInfoEndpoint(), endpoint.TokenURL),
	} {
		if err := secureURL(name, address); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.foundAt = found, time.Now()
	return found, nil
}

func (p *Provider) oauth(provider *oidc.Provider) *oauth2.Config {
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = p.authStyle(provider)
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: endpoint,
		RedirectURL: p.cfg.RedirectURL, Scopes: p.cfg.Scopes,
	}
}

// authStyle returns where the provider expects the client's secret. A provider that does not say so expects it in the
// header (OpenID Connect Discovery 1.0, section 3).
func (p *Provider) authStyle(provider *oidc.Provider) oauth2.AuthStyle {
	var known struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = provider.Claims(&known)
	if p.cfg.ClientSecret == "" || len(known.Methods) > 0 && !slices.Contains(known.Methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// claims returns what the provider's token says. A claim of groups that it lacks may be at the provider's endpoint
// about users.
func (p *Provider) claims(
	ctx context.Context, provider *oidc.Provider, token *oauth2.Token, nonce string,
) (map[string]any, error) {
	now, err := p.now()
	if err != nil {
		return nil, err
	}
	text, _ := token.Extra("id_token").(string)
	verifier := provider.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: now.Time})
	id, err := verifier.Verify(ctx, text)
	switch {
	case err != nil && (ctx.Err() != nil || strings.Contains(err.Error(), "fetching keys")):
		return nil, away("the provider does not give its keys", err)
	case err != nil:
		return nil, unproven("the provider's token is not valid", err)
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1:
		return nil, unproven("the provider's token is of another sign-in", nil)
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, unproven("the provider's token cannot be read", err)
	}
	party, named := claims["azp"]
	if id.Subject == "" || claims["sub"] != id.Subject || named && party != p.cfg.ClientID {
		return nil, unproven("the provider's token names no subject, or is for another client", nil)
	}
	if claim(claims, p.cfg.GroupsClaim) != nil || provider.UserInfoEndpoint() == "" {
		return claims, nil
	}
	return claims, p.addInfo(ctx, provider, token, claims)
}

// addInfo adds the claims of the provider's endpoint about users. Those of the token stay.
func (p *Provider) addInfo(
	ctx context.Context, provider *oidc.Provider, token *oauth2.Token, claims map[string]any,
) error {
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		// The error may repeat the whole response, and that the request.
		return away("the provider does not say which groups the person has", ctx.Err())
	}
	if info.Subject != claims["sub"] {
		return unproven("the provider's answers are about two people", nil)
	}
	var further map[string]any
	if err := info.Claims(&further); err != nil {
		return unproven("the provider's answer about the person cannot be read", err)
	}
	for name, value := range further {
		if _, has := claims[name]; !has {
			claims[name] = value
		}
	}
	return nil
}

// person returns who signs in, with the role of the first grant that applies.
func (p *Provider) person(claims map[string]any) (*access.Person, error) {
	subject, _ := claims["sub"].(string)
	name, _ := claim(claims, p.cfg.NameClaim).(string)
	if name == "" {
		name = subject
	}
	groups := texts(claim(claims, p.cfg.GroupsClaim))
	for _, g := range p.cfg.Grants {
		if slices.Contains(groups, g.Group) {
			return &access.Person{Name: name, Subject: subject, Role: g.Role, Applications: g.Applications}, nil
		}
	}
	return nil, &clock.Error{
		Kind: clock.ErrForbidden, Code: clock.CodeForbidden,
		Detail: fmt.Sprintf("%.128q has no group with a role here (CLOCKD_OIDC_GROUPS); the claim %s has %d groups",
			name, p.cfg.GroupsClaim, len(groups)),
	}
}

// claim returns the claim of that name. Without one, the parts of the name between dots lead into objects.
func claim(claims map[string]any, name string) any {
	if value, has := claims[name]; has {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	if object, is := claims[first].(map[string]any); nested && is {
		return claim(object, rest)
	}
	return nil
}

// texts returns the texts of a list, or the text itself.
func texts(value any) (all []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, element := range v {
			if text, is := element.(string); is {
				all = append(all, text)
			}
		}
	}
	return all
}

// exchangeFailure returns the error of a code that the provider has not exchanged.
func exchangeFailure(err error) error {
	refused, is := errors.AsType[*oauth2.RetrieveError](err)
	if !is || refused.Response == nil {
		return away("the provider does not exchange the code of the sign-in", err)
	}
	// The text of the error repeats the whole response, and that perhaps the request.
	detail := fmt.Sprintf("status %d, %.64q", refused.Response.StatusCode, refused.ErrorCode)
	if refused.Response.StatusCode >= http.StatusInternalServerError {
		return away("the provider does not exchange the code of the sign-in: "+detail, nil)
	}
	return unproven("the provider refuses the code of the sign-in: "+detail, nil)
}

// unproven returns the error of a response without proof.
func unproven(detail string, cause error) error {
	if cause != nil {
		detail += fmt.Sprintf(": %.300s", cause.Error())
	}
	return &clock.Error{Kind: clock.ErrUnauthenticated, Code: clock.CodeUnauthenticated, Detail: detail}
}

// away returns the error while the provider does not help. The cause, which is for the log, may repeat a page of a
// proxy.
func away(detail string, cause error) error {
	if cause != nil {
		cause = fmt.Errorf("%.500s", cause.Error())
	}
	return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: detail, Cause: cause}
}
