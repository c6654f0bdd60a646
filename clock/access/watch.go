package access

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

// StaleAfter is the age beyond which the tokens in memory count as stale: a token may have been revoked since.
const StaleAfter = 5 * time.Second

// useEvery is the least time between two writes of the last uses.
const useEvery = time.Minute

// HowToMake is the command that makes the first token.
const HowToMake = "clockd token create NAME --role admin"

// renewalWait is the longest time that a request with an unknown token waits for a poll.
const renewalWait = time.Second

// Use is the last use of a token.
type Use struct {
	ID string
	At clock.Instant
}

// Source reads tokens from the database, and writes their last uses.
type Source interface {
	// TokenChanges returns a number that rises with every change of a token.
	TokenChanges(ctx context.Context) (int64, error)
	// AllTokens returns all tokens.
	AllTokens(ctx context.Context) ([]Token, error)
	// UseTokens writes the last uses. A later use that is stored already stays.
	UseTokens(ctx context.Context, uses []Use) error
}

// Config says when a request needs a token.
type Config struct {
	Mode     Mode
	Loopback bool // the service listens on loopback alone
	Rate     int  // operations a second of one token; 0: no limit
	// People is a hash of the settings by which people sign in with a provider. Their sessions end when it changes.
	// Zero: there is none. With a provider Auto always needs a token or a session.
	People Hash
}

// Deps are the dependencies of a Watch.
type Deps struct {
	Source Source
	Now    func() (clock.Instant, error) // database's time; an error while it is not known
	Trail  *Trail                        // records refusals and logins; nil: nothing does
	Log    *slog.Logger
}

// Watch keeps all tokens in memory, and knows the callers of requests. Its ChangePoll reads the tokens. While the
// database is away, the last known tokens apply.
type Watch struct {
	*clock.ChangePoll

	cfg  Config
	deps Deps

	snapshot atomic.Pointer[snapshot] // never nil
	failures *limiters[netip.Addr]

	mu    sync.Mutex
	now   clock.Instant // latest known database's time
	nowAt time.Time     // when it was that
	kept  map[*kept]struct{}

	usesWritten time.Time // last write of uses; only Run uses it
}

// snapshot holds all tokens and sessions at one moment, by id. Its map does not change.
type snapshot struct {
	tokens     map[string]*entry
	number     int // without sessions
	unreadable int
}

// entry is a token in memory.
type entry struct {
	Token
	limiter *rate.Limiter // nil: no limit
	used    *atomic.Int64 // instant of the last use by this process; clock.NoInstant: none
	written clock.Instant // last use that this process has written; only Run uses it
}

// kept is a context that ends with the validity of its caller.
type kept struct {
	caller *Caller
	end    context.CancelCauseFunc
}

// NewWatch returns a Watch without tokens. Load reads them.
func NewWatch(cfg Config, deps Deps) *Watch {
	w := &Watch{cfg: cfg, deps: deps, failures: newLimiters[netip.Addr](failureBurst, failureEvery), kept: map[*kept]struct{}{}, now: clock.NoInstant}
	w.ChangePoll = clock.NewChangePoll(clock.ChangePollDeps{
		Count: deps.Source.TokenChanges, Read: w.readAll, After: w.afterPoll, Part: "access tokens", Log: deps.Log,
	})
	w.snapshot.Store(&snapshot{})
	return w
}

// readAll replaces the tokens in memory. A token that was there before keeps its last use and its limit.
func (w *Watch) readAll(ctx context.Context, _ int64) error {
	stored, err := w.deps.Source.AllTokens(ctx)
	if err != nil {
		return err
	}
	before, after := w.snapshot.Load(), &snapshot{tokens: make(map[string]*entry, len(stored)+1)}
	for _, t := range stored {
		e := &entry{Token: t, written: t.LastUsedAt}
		if known := before.tokens[t.ID]; known != nil {
			e.used, e.limiter = known.used, known.limiter
		} else {
			e.used, e.limiter = new(atomic.Int64), newLimiter(w.cfg.Rate)
			e.used.Store(int64(clock.NoInstant))
		}
		if t.Unreadable != nil {
			after.unreadable++
		}
		if known := before.tokens[t.ID]; t.Unreadable != nil && (known == nil || known.Unreadable == nil) {
			w.deps.Log.Error("an access token cannot be read: it opens nothing", "token", t.ID, "err", t.Unreadable)
		}
		after.tokens[t.ID] = e
		if !t.IsSession() {
			after.number++
		}
	}
	for _, e := range after.tokens {
		if parent := after.tokens[e.ParentID]; parent != nil {
			e.limiter = parent.limiter
		}
	}
	after.tokens[ParentProvider] = &entry{Token: Token{
		ID: ParentProvider, Secret: w.cfg.People, ExpiresAt: clock.NoInstant, RevokedAt: clock.NoInstant,
	}}
	w.snapshot.Store(after)
	return nil
}

// Open reports whether requests need no token now.
func (w *Watch) Open() bool {
	return w.cfg.Mode == None ||
		w.cfg.Mode == Auto && w.cfg.Loopback && !w.People() && w.snapshot.Load().number == 0
}

// Mode returns the mode.
func (w *Watch) Mode() Mode { return w.cfg.Mode }

// all returns all tokens and sessions by id. LastUsedAt has the uses at this node too.
func (w *Watch) all() []Listed {
	tokens, now := w.snapshot.Load().tokens, w.time()
	all := make([]Listed, 0, len(tokens))
	for id, e := range tokens {
		if id == ParentProvider {
			continue
		}
		l := Listed{Token: e.Token, State: e.State(parentOf(tokens, e), now)}
		l.LastUsedAt = max(l.LastUsedAt, clock.Instant(e.used.Load()))
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// parentOf returns the parent of a session, nil if it is unknown.
func parentOf(tokens map[string]*entry, session *entry) *Token {
	if parent := tokens[session.ParentID]; parent != nil {
		return &parent.Token
	}
	return nil
}

// People reports whether people sign in with a provider.
func (w *Watch) People() bool { return w.cfg.People != Hash{} }

// Tokens returns the number of tokens in memory, revoked and expired ones included, and the number of those that cannot
// be read.
func (w *Watch) Tokens() (all, unreadable int) {
	s := w.snapshot.Load()
	return s.number, s.unreadable
}

// Request is what a request says about its caller.
type Request struct {
	Authorization []string // values of the header
	Session       string   // text of the session in the cookie, which counts without Authorization; "": none
	Forwarded     bool     // a proxy has passed the request on
	Address       netip.Addr
}

// Caller returns the caller of a request, Anyone if it needs no token. It returns a clock.ErrUnauthenticated for a
// request without a valid token, and a clock.ErrLimited if its address has sent too many of them. Requests that a proxy
// passes on always need a token, unless the mode is None: they come from elsewhere than loopback. An address with too
// many failures may still send valid tokens. A token that this node does not know yet may wait for a poll.
func (w *Watch) Caller(ctx context.Context, r Request) (*Caller, error) {
	c, err := w.find(r)
	if isUnknown(err) && !w.failures.full(r.Address) {
		c, err = w.findRenewed(ctx, r)
	}
	if err == nil {
		return c, nil
	}
	if wait := w.failures.add(r.Address); wait > 0 {
		return nil, limited(wait, "too many requests without a valid token came from this address: "+err.Error())
	}
	return nil, err
}

// findRenewed is find after a poll. It returns a clock.ErrUnavailable if the database does not respond, because the token
// may be new.
func (w *Watch) findRenewed(ctx context.Context, r Request) (*Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, renewalWait)
	defer cancel()
	failed := w.Renew(ctx)
	c, err := w.find(r)
	if failed != nil && isUnknown(err) {
		return nil, &clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: failed,
			Detail: "this node does not know the token or session, and the database does not respond",
		}
	}
	return c, err
}

// isUnknown reports whether the error is about a token or session that is not in memory.
func isUnknown(err error) bool {
	return errors.Is(err, errUnknown) || errors.Is(err, errUnknownSession)
}

// find returns the caller of a request.
func (w *Watch) find(r Request) (*Caller, error) {
	if w.Open() {
		if w.cfg.Mode == Auto && r.Forwarded {
			return nil, unauthenticated("a proxy has passed this request on, so it needs a token, and none exists: make one with " + HowToMake)
		}
		return Anyone, nil
	}
	if len(r.Authorization) == 0 && r.Session != "" {
		return w.sessionCaller(r.Session)
	}
	if len(r.Authorization) == 0 {
		if all, _ := w.Tokens(); all == 0 && !w.People() {
			return nil, unauthenticated("this service needs a token, and none exists: make one with " + HowToMake)
		}
		return nil, unauthenticated("this service needs a token: send the header Authorization: Bearer, followed by the token")
	}
	if len(r.Authorization) > 1 {
		return nil, unauthenticated("the request has several headers Authorization")
	}
	scheme, credentials, _ := strings.Cut(r.Authorization[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, unauthenticated("the header Authorization must be Bearer, followed by the token")
	}
	text, err := ParseText(strings.TrimSpace(credentials))
	if err != nil {
		return nil, unauthenticated(err.Error())
	}
	c, err := w.callerOf(text)
	if err == nil && c.token.IsSession() {
		return nil, unauthenticated("this is a session of the console, which is valid in its cookie alone")
	}
	return c, err
}

// sessionCaller returns the caller with the session in a cookie.
func (w *Watch) sessionCaller(cookie string) (*Caller, error) {
	text, err := ParseText(cookie)
	if err != nil {
		return nil, unauthenticated("the cookie has no session of clockd: sign in again")
	}
	c, err := w.callerOf(text)
	switch {
	case errors.Is(err, errUnknown):
		return nil, errUnknownSession
	case err == nil && !c.token.IsSession():
		return nil, unauthenticated("the cookie has an access token, which is valid in the header Authorization alone")
	}
	return c, err
}

// callerOf returns the caller with the token or the session.
func (w *Watch) callerOf(text Text) (*Caller, error) {
	secret, now := text.Hash(), w.time()
	e, err := w.valid(text.ID, secret, now)
	if err != nil {
		return nil, err
	}
	e.used.Store(int64(now))
	return &Caller{token: &e.Token, secret: secret, limiter: e.limiter}, nil
}

// errUnknown is the error for an unknown id, and for a wrong secret, and errUnknownSession the same for a session.
// errSessionEnded is the one for a session that has ended, expired or lost its token.
var (
	errUnknown        = unauthenticated("the token is unknown, or its secret is wrong")
	errUnknownSession = unauthenticated("the session has ended, or is unknown: sign in again")
	errSessionEnded   = unauthenticated("the session has ended: sign in again")
)

// valid returns the token that the secret opens at now.
func (w *Watch) valid(id string, secret Hash, now clock.Instant) (*entry, error) {
	tokens := w.snapshot.Load().tokens
	e := tokens[id]
	if e == nil {
		return nil, errUnknown
	}
	err := e.Check(secret, now)
	switch {
	case errors.Is(err, ErrWrongSecret):
		return nil, errUnknown
	case e.IsSession():
		if err != nil || e.orphaned(parentOf(tokens, e), now) {
			return nil, &endedError{errSessionEnded, &e.Token}
		}
	case err != nil:
		return nil, &endedError{unauthenticated(err.Error()), &e.Token}
	}
	return e, nil
}

// endedError is the refusal of a request with the secret of a token that is not valid any more.
type endedError struct {
	error

	token *Token
}

// Unwrap returns the refusal itself.
func (e *endedError) Unwrap() error { return e.error }

// EndedToken returns the token that a refused request had the secret of, nil if it had none.
func EndedToken(err error) *Token {
	if e, is := errors.AsType[*endedError](err); is {
		return e.token
	}
	return nil
}

// Check returns a clock.ErrUnauthenticated if the caller of an earlier request would not be the caller of a new one.
func (w *Watch) Check(c *Caller) error {
	if c.anyone {
		if w.Open() {
			return nil
		}
		return unauthenticated("this service needs a token now")
	}
	_, err := w.valid(c.token.ID, c.secret, w.time())
	return err
}

// Named returns the caller of a request that needs a token although others need none: a change of settings. The token
// may be the first one, which ends the time without tokens.
func (w *Watch) Named(ctx context.Context, r Request) (*Caller, error) {
	if len(r.Authorization) > 0 && w.cfg.Mode == Auto {
		ctx, cancel := context.WithTimeout(ctx, renewalWait)
		defer cancel()
		_ = w.Renew(ctx) // after a failure the request is refused
		if c, err := w.find(r); c != Anyone {
			return c, err
		}
	}
	return nil, w.nameless()
}

// nameless returns the error of Anyone's request for what only the owner of a token may do.
func (w *Watch) nameless() error {
	const other = "change the settings in the database: clockd application with --database-url"
	if w.cfg.Mode == None {
		return forbidden("this request needs an access token, and this service takes none (CLOCKD_AUTH=none): " + other)
	}
	return forbidden("this request needs an access token of the role admin, and no token exists: make one with " +
		HowToMake + ", or " + other)
}

// Refused records the refusal of a request.
func (w *Watch) Refused(r Refusal) {
	if w.deps.Trail != nil {
		w.deps.Trail.Refused(r)
	}
}

// Used records that a caller that operates has sent a request from an address.
func (w *Watch) Used(c *Caller, from, requestID string) {
	if w.deps.Trail != nil {
		w.deps.Trail.Used(c, from, requestID)
	}
}

// Keep returns a context that ends when the caller's token is not valid any more, at most about a second later. Call
// release when the request ends.
func (w *Watch) Keep(ctx context.Context, c *Caller) (kctx context.Context, release func()) {
	kctx, end := context.WithCancelCause(ctx)
	k := &kept{caller: c, end: end}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[k] = struct{}{}
	return kctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.kept, k)
		end(nil)
	}
}

// afterPoll ends the contexts of callers whose tokens are not valid any more, and writes the last uses once a minute.
func (w *Watch) afterPoll(ctx context.Context, polled bool) {
	for _, k := range w.keeping() {
		if err := w.Check(k.caller); err != nil {
			k.end(err)
		}
	}
	if polled && time.Since(w.usesWritten) >= useEvery {
		w.usesWritten = time.Now()
		w.writeUses(ctx)
	}
}

func (w *Watch) keeping() []*kept {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*kept, 0, len(w.kept))
	for k := range w.kept {
		all = append(all, k)
	}
	return all
}

// writeUses writes the last uses since the last write. A failed write is repeated with the next.
func (w *Watch) writeUses(ctx context.Context) {
	var uses []Use
	tokens := w.snapshot.Load().tokens
	for id, e := range tokens {
		if e.used == nil { // the provider of people
			continue
		}
		if at := clock.Instant(e.used.Load()); at > e.written {
			uses = append(uses, Use{ID: id, At: at})
		}
	}
	if len(uses) == 0 {
		return
	}
	if err := w.deps.Source.UseTokens(ctx, uses); err != nil {
		if ctx.Err() == nil {
			w.deps.Log.Warn("could not write the last uses of access tokens", "err", err)
		}
		return
	}
	for _, u := range uses {
		tokens[u.ID].written = u.At
	}
}

// time returns the database's time. While it is not known, it goes on from the last known time.
func (w *Watch) time() clock.Instant {
	now, err := w.deps.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.now, w.nowAt = now, time.Now()
		return now
	}
	return w.now.Add(time.Since(w.nowAt))
}
