package oidc

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"golang.org/x/oauth2"
)

// attempt is a sign-in under way.
type attempt struct {
	State    string `json:"state"`    // ties the response of the provider to this browser
	Nonce    string `json:"nonce"`    // ties the provider's token to this sign-in
	Verifier string `json:"verifier"` // of PKCE
	Page     string `json:"page"`     // query of the console's page to return to, "" or with a question mark
}

// maxPage is the most bytes of a page.
const maxPage = 1000

// newAttempt returns an attempt with new random values. A page that is none is left out.
func newAttempt(page string) attempt {
	if !isPage(page) {
		page = ""
	}
	return attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Page: page}
}

// isPage reports whether the text is a query, so that it leads to no other host and path.
func isPage(text string) bool {
	beyond := func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII || r == '\x7f' || strings.ContainsRune(`#"\;`, r)
	}
	return text == "" || text[0] == '?' && len(text) <= maxPage && !strings.ContainsFunc(text, beyond)
}

// encode returns the attempt as the value of a cookie.
func (a attempt) encode() string {
	b, _ := json.Marshal(a) //nolint:errchkjson // texts alone
	return base64.RawURLEncoding.EncodeToString(b)
}

// errAttempt is the error for a text that is no attempt.
var errAttempt = errors.New("this is no sign-in")

// parseAttempt reads what encode returns.
func parseAttempt(text string) (a attempt, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &a) != nil || a.State == "" || a.Nonce == "" || a.Verifier == "" ||
		!isPage(a.Page) {
		return attempt{}, errAttempt
	}
	return a, nil
}
