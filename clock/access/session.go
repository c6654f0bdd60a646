package access

import (
	"context"
	"net/netip"
	"time"

	"github.com/clockd/clockd/clock"
)

// MaxSessions is the most open sessions of one token or person. A further one ends the oldest.
const MaxSessions = 100

// ErrParentEnded is the error for a session whose token has ended before its start.
var ErrParentEnded = unauthenticated("the token has ended")

// Errors of callers that cannot start a session.
var (
	errSessionInside = forbidden("a session cannot start another one: send the token in the header Authorization")
	errSessionOfNone = forbidden("this service needs no access token now, so nobody has to sign in")
)

// ParentProvider is the ParentID of a session whose person has signed in with a provider. No token has this id. Its
// ParentSecret is Config.People.
const ParentProvider = "oidc"

// Person is a person as a provider describes them.
type Person struct {
	Name         string
	Subject      string // id at the provider
	Role         Role
	Applications Applications
}

// Lifetime returns the time from the start of a session to its end.
func (t *Token) Lifetime() time.Duration {
	return time.Duration(t.ExpiresAt-t.CreatedAt) * time.Millisecond
}

// IsSession reports whether the token is a session.
func (t *Token) IsSession() bool { return t.ParentID != "" }

// owner returns the id of the token, or of the parent of a session, or the person.
func (t *Token) owner() string {
	switch t.ParentID {
	case "":
		return t.ID
	case ParentProvider:
		return ParentProvider + " " + t.CreatedBy
	}
	return t.ParentID
}

// orphaned reports whether parent, which is nil if it is unknown, is not open any more with the secret that the session
// began with. No session is the parent of another one, or without an end.
func (t *Token) orphaned(parent *Token, now clock.Instant) bool {
	return parent == nil || parent.IsSession() || t.ExpiresAt == clock.NoInstant ||
		parent.Check(t.ParentSecret, now) != nil
}

// Listed is a token or a session among all.
type Listed struct {
	Token

	State string // as Token.State
}

// SessionStore stores sessions beside the tokens.
type SessionStore interface {
	// AddSession adds a session, and deletes the ended ones. If its parent and maker have more than the most open
	// sessions then, the oldest ones end. It returns ErrParentEnded if the parent has ended.
	AddSession(ctx context.Context, session *Token, most int, by clock.Actor) error
	// EndSession ends an open session. It returns a clock.ErrNotFound for any other id.
	EndSession(ctx context.Context, id string, at clock.Instant, by clock.Actor) error
}

// Sessions starts and ends sessions. Any goroutine may call it.
type Sessions struct {
	watch    *Watch
	store    SessionStore
	lifetime time.Duration
	starts   *limiters[string] // by owner
	writing  chan struct{}     // has one element for each start or end that uses the database
}

// sessionWrites is the most starts and ends of sessions that use the database at once. They wait for each other there,
// and must not take the connections of others meanwhile.
const sessionWrites = 2

// NewSessions returns Sessions of tokens that the watch knows.
func NewSessions(watch *Watch, store SessionStore, lifetime time.Duration) *Sessions {
	return &Sessions{
		watch: watch, store: store, lifetime: lifetime, starts: newLimiters[string](startBurst, startEvery),
		writing: make(chan struct{}, sessionWrites),
	}
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
	return s.start(ctx, Token{
		Name: c.token.Name, Role: c.token.Role, Applications: c.token.Applications, CreatedBy: c.token.Name,
		ExpiresAt: c.token.ExpiresAt, ParentID: c.token.ID, ParentSecret: c.secret,
	}, by)
}

// StartFor starts a session of a person, and returns its text, as Start does. The subject replaces a name that cannot be
// shown.
func (s *Sessions) StartFor(ctx context.Context, p *Person, by clock.Actor) (Text, *Token, error) {
	if validateName("name", p.Name) != nil {
		p.Name = p.Subject
	}
	if err := validateName("name", p.Name); err != nil {
		return Text{}, nil, forbidden("the provider has no name that can be shown: " + err.Error())
	}
	by.Name = p.Name
	return s.start(ctx, Token{
		Name: p.Name, Role: p.Role, Applications: p.Applications, CreatedBy: p.maker(), ExpiresAt: clock.NoInstant,
		ParentID: ParentProvider, ParentSecret: s.watch.cfg.People,
	}, by)
}

// maker returns the subject, or the name if the subject cannot be shown.
func (p *Person) maker() string {
	if validateName("maker", p.Subject) != nil {
		return p.Name
	}
	return p.Subject
}

// start adds a session, which has the lifetime, but ends at the end that it has.
func (s *Sessions) start(ctx context.Context, session Token, by clock.Actor) (Text, *Token, error) {
	if wait := s.starts.add(session.owner()); wait > 0 {
		return Text{}, nil, limited(wait, "too many sessions have started; a token itself still works")
	}
	text := NewText()
	session.ID, session.Secret, session.CreatedAt = text.ID, text.Hash(), s.watch.time()
	session.OldSecretUntil, session.RevokedAt, session.LastUsedAt = clock.NoInstant, clock.NoInstant, clock.NoInstant
	end := session.CreatedAt.Add(s.lifetime)
	if session.ExpiresAt == clock.NoInstant || end < session.ExpiresAt {
		session.ExpiresAt = end
	}
	err := s.write(ctx, func() error { return s.store.AddSession(ctx, &session, MaxSessions, by) })
	if err != nil {
		return Text{}, nil, err
	}
	return text, &session, nil
}

// End ends a session at this node at once, and at any other one within 2 s.
func (s *Sessions) End(ctx context.Context, id string, by clock.Actor) error {
	if len(id) != idDigits || !isBase62(id) {
		return &clock.Error{Kind: clock.ErrNotFound, Code: clock.CodeUnknownToken, Detail: "this is no id of a session"}
	}
	return s.write(ctx, func() error { return s.store.EndSession(ctx, id, s.watch.time(), by) })
}

// write changes sessions in the database, as one of few, and makes the change hold at this node.
func (s *Sessions) write(ctx context.Context, change func() error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := change()
	<-s.writing
	if err == nil {
		_ = s.watch.Renew(ctx) // after a failure the change holds here with the next poll
	}
	return err
}

// All returns all tokens and sessions by id, as this node knows them.
func (s *Sessions) All() []Listed { return s.watch.all() }

// MaySignIn returns a clock.ErrLimited if the address has too many failures.
func (s *Sessions) MaySignIn(address netip.Addr) error {
	if !s.watch.failures.full(address) {
		return nil
	}
	return limited(failureEvery, "too many requests without a valid token, and failed sign-ins, came from this address")
}

// SignInFailed counts a failure of the address.
func (s *Sessions) SignInFailed(address netip.Addr) { s.watch.failures.add(address) }
