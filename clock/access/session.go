package access

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
)

// MaxSessions is the most open sessions of one token. A further one ends the oldest.
const MaxSessions = 100

// Errors of callers that cannot start a session.
var (
	errSessionInside = forbidden("a session cannot start another one: send the token in the header Authorization")
	errSessionOfNone = forbidden("this service needs no access token now, so nobody has to sign in")
)

// session returns a session of the token, which the secret has opened. It ends after the lifetime, or with the token.
func (t *Token) session(text Text, secret Hash, now clock.Instant, lifetime time.Duration) *Token {
	s := &Token{
		ID: text.ID, Name: t.Name, Role: t.Role, Applications: t.Applications, Secret: text.Hash(),
		OldSecretUntil: clock.NoInstant, CreatedAt: now, CreatedBy: t.Name, ExpiresAt: now.Add(lifetime),
		RevokedAt: clock.NoInstant, LastUsedAt: clock.NoInstant,
		ParentID: t.ID, ParentSecret: secret,
	}
	if t.ExpiresAt != clock.NoInstant {
		s.ExpiresAt = min(s.ExpiresAt, t.ExpiresAt)
	}
	return s
}

// IsSession reports whether the token is a session.
func (t *Token) IsSession() bool { return t.ParentID != "" }

// orphaned reports whether parent, which is nil if it is unknown, is not open any more with the secret that the session
// began with.
func (t *Token) orphaned(parent *Token, now clock.Instant) bool {
	return parent == nil || parent.Check(t.ParentSecret, now) != nil
}

// SessionStore stores sessions beside the tokens.
type SessionStore interface {
	// AllTokens returns all tokens and sessions by id.
	AllTokens(ctx context.Context) ([]Token, error)
	// AddSession adds a session, and deletes the expired ones. If its token has more than the most open sessions then,
	// the oldest ones end.
	AddSession(ctx context.Context, session *Token, most int, by clock.Actor) error
	// EndSession ends a session. It returns a clock.ErrNotFound for any other id.
	EndSession(ctx context.Context, id string, at clock.Instant, by clock.Actor) error
}

// Sessions starts and ends sessions. Any goroutine may call it.
type Sessions struct {
	watch    *Watch
	store    SessionStore
	lifetime time.Duration
}

// NewSessions returns Sessions of tokens that the watch knows.
func NewSessions(watch *Watch, store SessionStore, lifetime time.Duration) *Sessions {
	return &Sessions{watch: watch, store: store, lifetime: lifetime}
}

// Start starts a session of the caller's token, and returns its text. This node knows the session then. Any other node
// reads it when a request has it.
func (s *Sessions) Start(ctx context.Context, c *Caller, by clock.Actor) (Text, *Token, error) {
	switch {
	case c.token == nil:
		return Text{}, nil, errSessionOfNone
	case c.token.IsSession():
		return Text{}, nil, errSessionInside
	}
	text := NewText()
	session := c.token.session(text, c.secret, s.watch.time(), s.lifetime)
	if err := s.store.AddSession(ctx, session, MaxSessions, by); err != nil {
		return Text{}, nil, err
	}
	s.watch.Renew(ctx)
	return text, session, nil
}

// End ends a session at this node at once, and at any other one within 2 s.
func (s *Sessions) End(ctx context.Context, id string, by clock.Actor) error {
	if err := s.store.EndSession(ctx, id, s.watch.time(), by); err != nil {
		return err
	}
	s.watch.Renew(ctx)
	return nil
}

// All returns all tokens and sessions by id, and the database's time.
func (s *Sessions) All(ctx context.Context) ([]Token, clock.Instant, error) {
	all, err := s.store.AllTokens(ctx)
	return all, s.watch.time(), err
}
