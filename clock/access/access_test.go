package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestTextOfTokenIsReadBack(t *testing.T) {
	for range 100 {
		text := NewText()
		if got, err := ParseText(text.String()); err != nil || got != text {
			t.Fatalf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestTextKeepsItsForm(t *testing.T) {
	text := Text{ID: "0123456789AB", Secret: strings.Repeat("z", secretDigits)}
	const want = "clockd_0123456789AB_" + "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
	if got := text.String(); !strings.HasPrefix(got, want) || len(got) != textBytes {
		t.Errorf("%s", got)
	}
	if text.Hash().Encode() == (Text{}).Hash().Encode() {
		t.Error("the hash does not depend on the secret")
	}
}

// TestForgedTextIsRefused changes each character of a token.
func TestForgedTextIsRefused(t *testing.T) {
	text := NewText().String()
	for i := range len(text) {
		for _, c := range []byte{'0', 'a', '_', ' ', 0} {
			forged := text[:i] + string(c) + text[i+1:]
			if _, err := ParseText(forged); forged != text && !errors.Is(err, ErrText) {
				t.Errorf("%q for %q: %v", forged, text, err)
			}
		}
	}
	for _, s := range []string{"", prefix, text + "0", text[1:], " " + text, text + "\n"} {
		if _, err := ParseText(s); !errors.Is(err, ErrText) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParseText(f *testing.F) {
	f.Add(NewText().String())
	f.Add("clockd__")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := ParseText(s)
		if err == nil && text.String() != s {
			t.Errorf("%q was read as %q", s, text)
		}
		if err != nil && text != (Text{}) {
			t.Errorf("%q: %v, but also %+v", s, err, text)
		}
	})
}

func TestRandomDigitsAreEven(t *testing.T) {
	const n = 620_000
	counts := map[rune]int{}
	for _, r := range random(n) {
		counts[r]++
	}
	for _, r := range digits {
		if c := counts[r]; c < 9_300 || c > 10_700 { // seven standard deviations
			t.Errorf("digit %c: %d of %d", r, c, n)
		}
	}
}

func TestHashIsReadBackAndZeroHashMatchesNone(t *testing.T) {
	h := NewText().Hash()
	if got, err := ParseHash(h.Encode()); err != nil || !got.Matches(h) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseHash(""); err != nil || got.Matches(Hash{}) || h.Matches(Hash{}) {
		t.Errorf("the zero hash matches: %v, %v", got, err)
	}
	for _, s := range []string{"x", h.Encode()[1:], h.Encode() + "00", strings.Repeat("g", 64)} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("%q was read", s)
		}
	}
}

func TestRolesAllowTheirNeeds(t *testing.T) {
	for need, want := range map[Need][]string{
		Read: {"reader", "application", "operator", "admin"}, Write: {"application", "operator", "admin"},
		Take:    {"application", "admin"},
		Operate: {"operator", "admin"}, Admin: {"admin"}, 0: nil, Read | Take: {"application", "admin"},
	} {
		if got := RolesWith(need); !slices.Equal(got, want) {
			t.Errorf("need %b: %v, want %v", need, got, want)
		}
	}
	for _, name := range RoleNames {
		if r, err := ParseRole(name); err != nil || r.String() != name {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if r, err := ParseRole("root"); err == nil || r.Allows(Read) {
		t.Errorf("an unknown role: %v, %v", r, err)
	}
}

func TestApplicationsCoverNamesAndBeginnings(t *testing.T) {
	for _, c := range []struct {
		entries, application string
		covered              bool
	}{
		{"shop", "shop", true}, {"shop", "shop-eu", false}, {"shop", "Shop", false}, {"shop-*", "shop-eu", true},
		{"shop-*", "shop", false},
		{"shop-*", "shop-", true}, {"bank,shop", "shop", true}, {"*", "shop", true}, {"bank,*", "shop", true},
		{"shop", "", false},
	} {
		a, err := ParseApplications(c.entries)
		if err != nil || a.Cover(c.application) != c.covered || a.String() != c.entries {
			t.Errorf("%s, %s: %v, %v", c.entries, c.application, a, err)
		}
		if a.CoverAll() != strings.Contains(","+c.entries+",", ",*,") {
			t.Errorf("%s covers all: %t", c.entries, a.CoverAll())
		}
	}
	if (Applications)(nil).Cover("shop") {
		t.Error("no applications cover one")
	}
	for _, s := range []string{"", ",", "shop,", "-shop", "sh*op", "**", "shop eu", strings.Repeat("a,", maxApplications) + "a"} {
		if a, err := ParseApplications(s); err == nil {
			t.Errorf("%q was read as %v", s, a)
		}
	}
}

// record returns a token with the secret, which never expires.
func record(secret Hash) *Token {
	return &Token{
		ID: "0123456789AB", Name: "ci", Role: Reader, Applications: Applications{"shop"}, Secret: secret,
		OldSecretUntil: clock.NoInstant,
		ExpiresAt:      clock.NoInstant, RevokedAt: clock.NoInstant, LastUsedAt: clock.NoInstant,
	}
}

func TestTokenIsOpenUntilItsEnd(t *testing.T) {
	const now = clock.Instant(1_000_000)
	secret, other := NewText().Hash(), NewText().Hash()
	for name, c := range map[string]struct {
		change func(t *Token)
		secret Hash
		want   error
	}{
		"its secret":                 {func(*Token) {}, secret, nil},
		"another secret":             {func(*Token) {}, other, ErrWrongSecret},
		"no secret":                  {func(*Token) {}, Hash{}, ErrWrongSecret},
		"a record without a secret":  {func(t *Token) { t.Secret = Hash{} }, Hash{}, ErrWrongSecret},
		"before its end":             {func(t *Token) { t.ExpiresAt = now + 1 }, secret, nil},
		"at its end":                 {func(t *Token) { t.ExpiresAt = now }, secret, ErrExpired},
		"another secret at its end":  {func(t *Token) { t.ExpiresAt = now }, other, ErrWrongSecret},
		"revoked":                    {func(t *Token) { t.Revoke(now - 5) }, secret, ErrRevoked},
		"another secret, if revoked": {func(t *Token) { t.Revoke(now - 5) }, other, ErrWrongSecret},
	} {
		token := record(secret)
		c.change(token)
		if err := token.Check(c.secret, now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestRotationKeepsTheOldSecretForTheGraceTime(t *testing.T) {
	const now = clock.Instant(1_000_000)
	first, second, third := NewText().Hash(), NewText().Hash(), NewText().Hash()
	token := record(first)
	check := func(secret Hash, at clock.Instant, want error) {
		t.Helper()
		if err := token.Check(secret, at); !errors.Is(err, want) {
			t.Errorf("at %d: %v, want %v", at, err, want)
		}
	}
	if err := token.Rotate(second, now, time.Minute); err != nil {
		t.Fatal(err)
	}
	check(second, now, nil)
	check(first, now+59_999, nil)
	check(first, now+60_000, ErrWrongSecret)
	if err := token.Rotate(third, now, 0); err != nil {
		t.Fatal(err)
	}
	check(third, now, nil)
	check(second, now, ErrWrongSecret)
	check(first, now, ErrWrongSecret)
	token.Revoke(now)
	token.Revoke(now + 9)
	check(third, now, ErrRevoked)
	if err := token.Rotate(first, now, 0); !errors.Is(err, ErrRevoked) || token.Secret != third ||
		token.RevokedAt != now {
		t.Errorf("a rotation of a revoked token: %v, %+v", err, token)
	}
	if token = record(first); token.Rotate(second, now, -1) == nil || token.Secret != first {
		t.Error("a negative grace time was accepted")
	}
	token.ExpiresAt = now + 5
	if err := token.Rotate(second, now, time.Minute); err != nil || token.OldSecretUntil != now+5 {
		t.Errorf("the old secret lives until %s, longer than its token: %v", token.OldSecretUntil, err)
	}
	if err := token.Rotate(third, now+5, 0); !errors.Is(err, ErrExpired) || token.Secret != second {
		t.Errorf("a rotation of an expired token: %v", err)
	}
}
