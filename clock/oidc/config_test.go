package oidc

import (
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock/access"
)

func TestFaultsOfTheConfigurationAreNamed(t *testing.T) {
	t.Parallel()
	good := Config{
		Issuer: "https://login.example.com/realms/x", ClientID: "clockd",
		RedirectURL: "https://clockd.example.com" + CallbackPath, Scopes: []string{"openid"},
		Grants: []Grant{{Group: "ops", Role: access.Reader, Applications: access.Applications{"*"}}},
	}
	if err := good.Validate(); err != nil || !good.Enabled() {
		t.Error(err)
	}
	none := Config{Scopes: []string{"openid"}}
	if err := none.Validate(); err != nil || none.Fingerprint() != (access.Hash{}) {
		t.Error(err)
	}
	other := good
	other.Grants = []Grant{{Group: "ops", Role: access.Operator, Applications: access.Applications{"*"}}}
	if same := good; same.Fingerprint() != good.Fingerprint() || other.Fingerprint() == good.Fingerprint() {
		t.Error("the fingerprint does not tell grants apart")
	}
	for want, change := range map[string]func(c *Config){
		"no CLOCKD_OIDC_ISSUER":                           func(c *Config) { c.Issuer = "" },
		"CLOCKD_OIDC_ISSUER is \"http://login.":           func(c *Config) { c.Issuer = "http://login.example.com" },
		"CLOCKD_OIDC_ISSUER is \"http://127.":             func(c *Config) { c.Issuer = "http://127.evil.example" },
		"CLOCKD_OIDC_ISSUER is \"login":                   func(c *Config) { c.Issuer = "login.example.com" },
		"CLOCKD_OIDC_CLIENT_ID is missing":                func(c *Config) { c.ClientID = "" },
		"CLOCKD_OIDC_REDIRECT_URL is \"\"":                func(c *Config) { c.RedirectURL = "" },
		"CLOCKD_OIDC_REDIRECT_URL must end with /v1/oidc": func(c *Config) { c.RedirectURL = "https://clockd.example.com/ui/" },
		"CLOCKD_OIDC_SCOPES must have openid":             func(c *Config) { c.Scopes = []string{"email"} },
		"CLOCKD_OIDC_GROUPS is missing":                   func(c *Config) { c.Grants = nil },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestGrantsAreRead(t *testing.T) {
	t.Parallel()
	got, err := ParseGrants(" ops=admin ; cn=shop,dc=x = operator: shop,shop-* ;a=reader:*")
	want := []Grant{
		{Group: "ops", Role: access.Administrator, Applications: access.Applications{"*"}},
		{Group: "cn=shop,dc=x", Role: access.Operator, Applications: access.Applications{"shop", "shop-*"}},
		{Group: "a", Role: access.Reader, Applications: access.Applications{"*"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{
		"ops", "=admin", " = admin", "ops=root", "ops=reader", "ops=reader:", "ops=reader:sh op", "ops=admin;;",
	} {
		if got, err := ParseGrants(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	if got, err := ParseGrants(" "); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzParseGrants(f *testing.F) {
	f.Add("ops=admin; cn=shop,dc=x=operator:shop,shop-*")
	f.Fuzz(func(t *testing.T, text string) {
		grants, err := ParseGrants(text)
		if err != nil {
			return
		}
		var shown []string
		for _, g := range grants {
			shown = append(shown, g.String())
		}
		again, err := ParseGrants(strings.Join(shown, ";"))
		if err != nil || !reflect.DeepEqual(again, grants) {
			t.Errorf("%q: %v, then %v, %v", text, grants, again, err)
		}
	})
}

func TestAttemptKeepsPagesOfTheConsoleAlone(t *testing.T) {
	t.Parallel()
	for page, kept := range map[string]bool{
		"": true, "?view=alarm&id=a%20b": true, "?": true,
		"//evil.example": false, "https://evil.example/": false, "/v1/nodes": false, "?a=\r\nSet-Cookie: x": false,
		"?a#b": false, `?\\evil`: false, "?" + strings.Repeat("x", maxPage): false, "?ä": false,
	} {
		a := newAttempt(page)
		if (a.Page == page) != kept || a.Page != page && a.Page != "" {
			t.Errorf("%q became %q", page, a.Page)
		}
		if again, err := parseAttempt(a.encode()); err != nil || again != a {
			t.Errorf("%+v, %v", again, err)
		}
	}
	if a, b := newAttempt(""), newAttempt(""); a.State == b.State || a.Nonce == b.Nonce || a.Verifier == b.Verifier {
		t.Error("two attempts have the same random values")
	}
}

func FuzzParseAttempt(f *testing.F) {
	f.Add(newAttempt("?view=nodes").encode())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAttempt(text)
		if err == nil && (a.State == "" || a.Nonce == "" || a.Verifier == "" || !isPage(a.Page)) ||
			err != nil && a != (attempt{}) {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	})
}
