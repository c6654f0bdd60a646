package access

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// Token is the record of a token.
type Token struct {
	ID             string
	Name           string // for people, and the default of "by" in answers
	Role           Role
	Applications   Applications
	Secret         Hash
	OldSecret      Hash          // secret before the last rotation; zero: none
	OldSecretUntil clock.Instant // end of the old secret; NoInstant without one
	CreatedAt      clock.Instant
	CreatedBy      string
	ExpiresAt      clock.Instant // NoInstant: never
	RevokedAt      clock.Instant // NoInstant: not revoked
	LastUsedAt     clock.Instant // NoInstant: never used
	ParentID       string        // id of the token of a session; "": this is no session
	ParentSecret   Hash          // secret of that token which the session began with
	Unreadable     error         // why the stored record cannot be read; nil: it can. No secret opens such a token
}

// MaxName is the most bytes of a token's name, and of the name of its maker.
const MaxName = 128

// New returns a token that opens with the secret of the text, or an error that names what is wrong with its parts.
func New(text Text, name string, role Role, applications Applications, now clock.Instant, by string) (*Token, error) {
	if err := validateName("name", name); err != nil {
		return nil, err
	}
	if err := validateName("maker", by); err != nil {
		return nil, err
	}
	if _, known := roles[role]; !known {
		return nil, fmt.Errorf("a token needs a role: %s", strings.Join(RoleNames, ", "))
	}
	if err := applications.Validate(); err != nil {
		return nil, err
	}
	return &Token{
		ID: text.ID, Name: name, Role: role, Applications: applications, Secret: text.Hash(),
		OldSecretUntil: clock.NoInstant,
		CreatedAt:      now, CreatedBy: by, ExpiresAt: clock.NoInstant, RevokedAt: clock.NoInstant,
		LastUsedAt: clock.NoInstant,
	}, nil
}

// validateName returns an error if the name is empty, too long, or no printable text.
func validateName(what, name string) error {
	printable := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if name == "" || len(name) > MaxName || !printable || strings.TrimSpace(name) != name {
		return fmt.Errorf("the %s of a token has 1 to %d bytes of printable text, without a blank at its ends", what,
			MaxName)
	}
	return nil
}

// Reasons why a token is refused.
var (
	ErrWrongSecret = errors.New("the secret of the token is wrong")
	ErrExpired     = errors.New("the token has expired")
	ErrRevoked     = errors.New("the token is revoked")
	ErrUnreadable  = errors.New("the record of the token cannot be read")

	errSessionRotation = errors.New("a session of the console keeps its secret: sign in again")
)

// Check returns nil if the secret opens the token at now, else the reason. It says only to the owner of the secret that
// the token has expired or is revoked.
func (t *Token) Check(secret Hash, now clock.Instant) error {
	current, old := t.Secret.Matches(secret), t.OldSecret.Matches(secret)
	switch {
	case !current && !old:
		return ErrWrongSecret
	case t.Unreadable != nil:
		return ErrUnreadable
	case t.RevokedAt != clock.NoInstant:
		return ErrRevoked
	case t.Expired(now):
		return ErrExpired
	case !current && now >= t.OldSecretUntil:
		return ErrWrongSecret
	}
	return nil
}

// State returns valid, revoked, unreadable or expired. A session is valid or ended; parent is its token, nil if that is
// unknown.
func (t *Token) State(parent *Token, now clock.Instant) string {
	state := "valid"
	switch {
	case t.RevokedAt != clock.NoInstant:
		state = "revoked"
	case t.Unreadable != nil:
		state = "unreadable"
	case t.Expired(now):
		state = "expired"
	}
	if t.IsSession() && (state != "valid" || t.orphaned(parent, now)) {
		return "ended"
	}
	return state
}

// Expired reports whether the token's end has come.
func (t *Token) Expired(now clock.Instant) bool {
	return t.ExpiresAt != clock.NoInstant && now >= t.ExpiresAt
}

// Rotate gives the token a new secret. The present one stays valid for the grace time, an older one ends at once. It
// changes nothing if the token is revoked, has expired or is a session, or the grace time is negative. The token's end
// stays.
func (t *Token) Rotate(secret Hash, now clock.Instant, grace time.Duration) error {
	switch {
	case t.IsSession():
		return errSessionRotation
	case t.RevokedAt != clock.NoInstant:
		return ErrRevoked
	case t.Expired(now):
		return ErrExpired
	}
	if grace < 0 {
		return fmt.Errorf("the grace time %s is negative", grace)
	}
	until := now.Add(grace)
	if t.ExpiresAt != clock.NoInstant {
		until = min(until, t.ExpiresAt)
	}
	t.OldSecret, t.OldSecretUntil, t.Secret = t.Secret, until, secret
	return nil
}

// Revoke ends the token. A later call keeps the time of the first.
func (t *Token) Revoke(now clock.Instant) {
	if t.RevokedAt == clock.NoInstant {
		t.RevokedAt = now
	}
}
