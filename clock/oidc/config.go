package oidc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock/access"
)

// Config names the provider. The zero Config is for no provider.
type Config struct {
	Issuer       string // URL of the provider, below which it has /.well-known/openid-configuration
	ClientID     string // id of clockd at the provider
	ClientSecret string // "": clockd is a public client
	RedirectURL  string // URL of CallbackPath as browsers reach it
	Scopes       []string
	NameClaim    string // claim with the name of a person; without it the name is the subject
	GroupsClaim  string // claim with the groups; a name with dots leads into objects
	Grants       []Grant
}

// CallbackPath ends RedirectURL.
const CallbackPath = "/v1/oidc/callback"

// Enabled reports whether there is a provider.
func (c Config) Enabled() bool { return c.Issuer != "" }

// Fingerprint returns a hash of the provider, the claims and the grants: sessions of people end when it changes. It is
// zero without a provider.
func (c Config) Fingerprint() access.Hash {
	if !c.Enabled() {
		return access.Hash{}
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", c.Issuer, c.ClientID, c.NameClaim, c.GroupsClaim, c.Grants))
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	if !c.Enabled() {
		if c.ClientID != "" || c.RedirectURL != "" || len(c.Grants) > 0 {
			return errors.New("options of OpenID Connect are given, but no CLOCKD_OIDC_ISSUER")
		}
		return nil
	}
	errs := []error{validURL("CLOCKD_OIDC_ISSUER", c.Issuer), validURL("CLOCKD_OIDC_REDIRECT_URL", c.RedirectURL)}
	if c.ClientID == "" {
		errs = append(errs, errors.New("CLOCKD_OIDC_CLIENT_ID is missing: the id of clockd at the provider"))
	}
	if !strings.HasSuffix(c.RedirectURL, CallbackPath) {
		errs = append(errs, fmt.Errorf("CLOCKD_OIDC_REDIRECT_URL must end with %s", CallbackPath))
	}
	if !slices.Contains(c.Scopes, "openid") {
		errs = append(errs, errors.New("CLOCKD_OIDC_SCOPES must have openid"))
	}
	if len(c.Grants) == 0 {
		errs = append(errs, errors.New("CLOCKD_OIDC_GROUPS is missing: without it nobody gets a role"))
	}
	return errors.Join(errs...)
}

// validURL returns an error unless the text is a URL of the configuration.
func validURL(variable, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s is %q; it must be a URL like https://login.example.com, without user and query",
			variable, text)
	}
	return secureURL(variable, text)
}

// secureURL returns an error for any URL without TLS. Plain HTTP is for loopback alone, because requests carry
// tokens.
func secureURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return fmt.Errorf("%s is %.300q; it must begin with https:// (http:// is for loopback alone)", name, text)
	}
	return nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
