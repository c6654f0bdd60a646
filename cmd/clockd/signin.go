package main

import (
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/oidc"
)

// oidcFlags name the OpenID Connect provider with which people sign in to the console.
type oidcFlags struct {
	OIDCIssuer       string   `name:"oidc-issuer" env:"CLOCKD_OIDC_ISSUER" placeholder:"URL" help:"OpenID Connect provider with which people sign in to the console. Without it they sign in with a token."`
	OIDCClientID     string   `name:"oidc-client-id" env:"CLOCKD_OIDC_CLIENT_ID" placeholder:"ID" help:"Id of clockd at the provider."`
	OIDCClientSecret string   `name:"oidc-client-secret" env:"CLOCKD_OIDC_CLIENT_SECRET" placeholder:"TEXT" help:"Secret of clockd at the provider, if it has one."`
	OIDCRedirectURL  string   `name:"oidc-redirect-url" env:"CLOCKD_OIDC_REDIRECT_URL" placeholder:"URL" help:"https://HOST/v1/oidc/callback, as browsers reach it and the provider knows it."`
	OIDCScopes       []string `name:"oidc-scopes" env:"CLOCKD_OIDC_SCOPES" default:"openid,profile,email" placeholder:"SCOPE,..." help:"Scopes that clockd asks for."`
	OIDCNameClaim    string   `name:"oidc-name-claim" env:"CLOCKD_OIDC_NAME_CLAIM" default:"email" help:"Claim with the name of a person, for the audit."`
	OIDCGroupsClaim  string   `name:"oidc-groups-claim" env:"CLOCKD_OIDC_GROUPS_CLAIM" default:"groups" help:"Claim with the groups of a person. A name with dots leads into objects."`
	OIDCGroups       string   `name:"oidc-groups" env:"CLOCKD_OIDC_GROUPS" placeholder:"GROUP=ROLE:APP,APP;..." help:"Role and applications of each group. The first one that a person has applies."`
}

// provider returns the configuration of the provider.
func (f *oidcFlags) provider() (oidc.Config, error) {
	grants, err := oidc.ParseGrants(f.OIDCGroups)
	if err != nil {
		return oidc.Config{}, fmt.Errorf("CLOCKD_OIDC_GROUPS: %w", err)
	}
	return oidc.Config{
		Issuer: f.OIDCIssuer, ClientID: f.OIDCClientID, ClientSecret: f.OIDCClientSecret,
		RedirectURL: f.OIDCRedirectURL, Scopes: f.OIDCScopes, NameClaim: f.OIDCNameClaim,
		GroupsClaim: f.OIDCGroupsClaim, Grants: grants,
	}, nil
}

// signInOf returns the provider with which people sign in, nil without one.
func signInOf(cfg *config, tb *clock.Timebase) clockhttp.SignIn {
	if !cfg.oidc.Enabled() {
		return nil
	}
	return oidc.New(cfg.oidc, tb.AtLeast)
}
