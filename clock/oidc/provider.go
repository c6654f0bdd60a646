package oidc

import (
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

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

const (
	// requestTimeout bounds a request to the provider, and a whole sign-in.
	requestTimeout = 10 * time.Second
	// maxSignIns is the most sign-ins that wait for the provider at once.
	maxSignIns = 16
)

// Provider signs people in. Any goroutine may call it.
type Provider struct {
	cfg     Config
	now     func() (clock.Instant, error)
	client  *http.Client
	signIns chan struct{} // has one element for each sign-in that waits for the provider

	mu    sync.Mutex
	found *oidc.Provider // nil until the provider has described itself
}

// New returns the provider of the configuration. It asks the provider nothing. now is the database's time.
func New(cfg Config, now func() (clock.Instant, error)) *Provider {
	return &Provider{
		cfg: cfg, now: now, client: &http.Client{Timeout: requestTimeout}, signIns: make(chan struct{}, maxSignIns),
	}
}

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// Begin returns the URL of the provider for a browser that wants to return to a page of the console, and the text of
// the attempt, which the browser keeps.
func (p *Provider) Begin(ctx context.Context, page string) (address, attempt string, err error) {
	ctx, done, err := p.enter(ctx)
	if err != nil {
		return "", "", err
	}
	defer done()
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

// discover returns the provider, as it describes itself. It asks once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	found := p.found
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil {
		return nil, away("the OpenID Connect provider does not describe itself", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = found
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
	if err != nil {
		return nil, unproven("the provider's token is not valid", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return nil, unproven("the provider's token is of another sign-in", nil)
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, unproven("the provider's token cannot be read", err)
	}
	if claim(claims, p.cfg.GroupsClaim) != nil || provider.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, away("the provider does not say which groups the person has", err)
	}
	if info.Subject != id.Subject {
		return nil, unproven("the provider's answers are about two people", nil)
	}
	if err := info.Claims(&claims); err != nil {
		return nil, unproven("the provider's answer about the person cannot be read", err)
	}
	return claims, nil
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
	if !is || refused.Response == nil || refused.Response.StatusCode >= http.StatusInternalServerError {
		return away("the provider does not exchange the code of the sign-in", err)
	}
	// The text of the error repeats the whole response.
	detail := fmt.Sprintf("status %d, %.64q", refused.Response.StatusCode, refused.ErrorCode)
	return unproven("the provider refuses the code of the sign-in: "+detail, nil)
}

// unproven returns the error of a response without proof.
func unproven(detail string, cause error) error {
	if cause != nil {
		detail += ": " + cause.Error()
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
