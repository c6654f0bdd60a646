package access

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// fakeSource is a database of tokens.
type fakeSource struct {
	mu      sync.Mutex
	changes int64
	tokens  []Token
	uses    []Use
	away    error
	polls   int           // calls of TokenChanges
	stall   chan struct{} // TokenChanges waits until it is closed; nil: it does not wait
}

func (f *fakeSource) TokenChanges(context.Context) (int64, error) {
	f.mu.Lock()
	f.polls++
	stall := f.stall
	f.mu.Unlock()
	if stall != nil {
		<-stall
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes, f.away
}

func (f *fakeSource) AllTokens(context.Context) ([]Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tokens), f.away
}

func (f *fakeSource) UseTokens(_ context.Context, uses []Use) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != nil {
		return f.away
	}
	f.uses = append(f.uses, uses...)
	for _, u := range uses {
		i := slices.IndexFunc(f.tokens, func(t Token) bool { return t.ID == u.ID })
		if i >= 0 {
			f.tokens[i].LastUsedAt = u.At
		}
	}
	return nil
}

// written returns the uses that were written.
func (f *fakeSource) written() []Use {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.uses)
}

// counted returns the number of polls.
func (f *fakeSource) counted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.polls
}

// change changes the database.
func (f *fakeSource) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes++
	do()
}

// add adds a token and returns its text.
func (f *fakeSource) add(t testing.TB, name string, role Role, applications ...string) Text {
	t.Helper()
	text := NewText()
	token, err := New(text, name, role, applications, 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	f.change(func() { f.tokens = append(f.tokens, *token) })
	return text
}

// began is the database's time at the begin of a test.
const began = clock.Instant(1_000_000_000_000)

// watch returns a Watch that has read the source. Its time is the bubble's.
func watch(t testing.TB, cfg Config, source *fakeSource) *Watch {
	t.Helper()
	start := time.Now()
	w := NewWatch(cfg, Deps{Source: source, Log: slog.New(slog.DiscardHandler), Now: func() (clock.Instant, error) {
		source.mu.Lock()
		defer source.mu.Unlock()
		return began.Add(time.Since(start)), source.away
	}})
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// bearer is a request with the token.
func bearer(text Text) Request { return Request{Authorization: []string{"Bearer " + text.String()}} }

// A header other than the token's own authenticates nobody, and never repeats the secret in its error.
func FuzzAuthorization(f *testing.F) {
	source := &fakeSource{}
	text := source.add(f, "ops", Operator, "shop")
	w := watch(f, Config{Mode: Required}, source)
	whole := bearer(text).Authorization[0]
	for _, seed := range []string{
		whole, "bearer  " + text.String() + " ", "Bearer", "", "Basic " + text.String(), whole + "x", whole[:40],
		"Bearer " + NewText().String(), "Bearer\t" + text.String(), strings.ToUpper(whole), whole + "," + whole,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		caller, err := w.find(Request{Authorization: []string{header}})
		scheme, rest, _ := strings.Cut(header, " ")
		own := strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(rest) == text.String()
		if (err == nil) != own || own && caller.Name() != "ops" {
			t.Errorf("%q: %v, %v", header, caller, err)
		}
		if err != nil && (!errors.Is(err, clock.ErrUnauthenticated) || strings.Contains(err.Error(), text.String())) {
			t.Errorf("%q: %v", header, err)
		}
	})
}

func TestRequestsNeedTokensByMode(t *testing.T) {
	for _, c := range []struct {
		mode                        Mode
		loopback, exists, forwarded bool
		open                        bool
	}{
		{mode: Auto, loopback: true, open: true},
		{mode: Auto, loopback: true, forwarded: true},
		{mode: Auto, loopback: true, exists: true},
		{mode: Auto},
		{mode: Auto, exists: true},
		{mode: Required, loopback: true},
		{mode: Required, loopback: true, exists: true},
		{mode: None, open: true},
		{mode: None, exists: true, forwarded: true, open: true},
	} {
		source := &fakeSource{}
		if c.exists {
			source.add(t, "revoked", Reader, "shop")
			source.tokens[0].Revoke(1)
		}
		w := watch(t, Config{Mode: c.mode, Loopback: c.loopback}, source)
		caller, err := w.Caller(t.Context(), Request{Forwarded: c.forwarded})
		if (err == nil) != c.open || c.open && caller != Anyone {
			t.Errorf("%+v: %+v, %v", c, caller, err)
		}
		if err != nil &&
			(!errors.Is(err, clock.ErrUnauthenticated) || strings.Contains(err.Error(), HowToMake) == c.exists) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCallerIsTheOwnerOfTheToken(t *testing.T) {
	source := &fakeSource{}
	ci, other := source.add(t, "ci", Operator, "shop"), source.add(t, "other", Reader, "*")
	expired := source.add(t, "expired", Reader, "*")
	source.tokens[2].ExpiresAt = began
	w := watch(t, Config{Loopback: true}, source)
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		c, err := w.Caller(t.Context(), Request{Authorization: []string{scheme + ci.String()}, Forwarded: true})
		if err != nil || c.Name() != "ci" || c.Allow(Operate) != nil || c.Allow(Take) == nil ||
			c.Cover("shop") != nil || c.Cover("bank") == nil || c.CoversAll() {
			t.Errorf("%q: %+v, %v", scheme, c, err)
		}
	}
	if c, err := w.Caller(t.Context(), bearer(other)); err != nil || c.Name() != "other" || !c.CoversAll() ||
		!c.Covers("bank") {
		t.Errorf("other: %+v, %v", c, err)
	}
	stolen := Text{ID: ci.ID, Secret: other.Secret}
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"none":           {nil, "send the header"},
		"no scheme":      {[]string{ci.String()}, "must be Bearer"},
		"Basic":          {[]string{"Basic Y2k6eA=="}, "must be Bearer"},
		"no token":       {[]string{"Bearer"}, "this is not a token of clockd"},
		"a cut token":    {[]string{bearer(ci).Authorization[0][:30]}, "this is not a token of clockd"},
		"two":            {[]string{"Bearer " + ci.String(), "Bearer " + ci.String()}, "several headers"},
		"unknown":        bearerCase(NewText(), "the token is unknown, or its secret is wrong"),
		"another secret": bearerCase(stolen, "the token is unknown, or its secret is wrong"),
		"expired":        bearerCase(expired, "expired"),
	} {
		got, err := w.Caller(t.Context(), Request{Authorization: c.values})
		if !errors.Is(err, clock.ErrUnauthenticated) || got != nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), ci.Secret) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

func bearerCase(text Text, want string) struct {
	values []string
	want   string
} {
	return struct {
		values []string
		want   string
	}{bearer(text).Authorization, want}
}

func TestCallerIsToldWhatIsMissing(t *testing.T) {
	source := &fakeSource{}
	text := source.add(t, "ci", Reader, "shop", "bank-*")
	c, err := watch(t, Config{}, source).Caller(t.Context(), bearer(text))
	if err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]string{
		c.Allow(Write):  `the token "ci" has the role reader; this request needs one of the roles application, operator, admin`,
		c.Cover("bank"): `the token "ci" is for the applications shop,bank-*; it does not cover "bank"`,
	} {
		if !errors.Is(err, clock.ErrForbidden) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	nobody := new(Caller)
	if nobody.Allow(Read) == nil || nobody.Cover("shop") == nil || nobody.CoversAll() || nobody.Name() != "" {
		t.Error("a request without a caller may do something")
	}
	if Anyone.Allow(Admin) != nil || Anyone.Cover("shop") != nil || !Anyone.CoversAll() {
		t.Error("anyone may not do everything")
	}
}

// A revocation holds within 2 s, also for a request that began before, and a new secret ends the old one after the
// grace time.
func TestRevocationHoldsWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		ci, other := source.add(t, "ci", Reader, "*"), source.add(t, "other", Reader, "*")
		w := watch(t, Config{}, source)
		run(t, w)
		caller, err := w.Caller(t.Context(), bearer(ci))
		if err != nil {
			t.Fatal(err)
		}
		kept, release := w.Keep(t.Context(), caller)
		defer release()
		ended, releaseEnded := w.Keep(t.Context(), caller)
		releaseEnded()
		if ended.Err() == nil {
			t.Error("a released context goes on")
		}
		time.Sleep(5 * time.Second)
		if kept.Err() != nil || w.Check(caller) != nil {
			t.Error("a valid token has ended")
		}
		source.change(func() { source.tokens[0].Revoke(began) })
		time.Sleep(2 * time.Second)
		if _, err := w.Caller(t.Context(), bearer(ci)); !errors.Is(err, clock.ErrUnauthenticated) {
			t.Errorf("the revoked token: %v", err)
		}
		if kept.Err() == nil || !errors.Is(context.Cause(kept), clock.ErrUnauthenticated) || w.Check(caller) == nil {
			t.Errorf("the request of the revoked token goes on: %v", context.Cause(kept))
		}
		if _, err := w.Caller(t.Context(), bearer(other)); err != nil {
			t.Errorf("the other token: %v", err)
		}
	})
}

// Requests without a token end when the first token is made.
func TestFirstTokenEndsOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Loopback: true}, source)
		run(t, w)
		kept, release := w.Keep(t.Context(), Anyone)
		defer release()
		time.Sleep(3 * time.Second)
		if kept.Err() != nil {
			t.Error("an open request has ended")
		}
		source.add(t, "first", Administrator, "*")
		time.Sleep(2 * time.Second)
		if kept.Err() == nil {
			t.Error("an open request goes on although a token exists")
		}
	})
}

// Known tokens work while the database is away, and end at their time.
func TestKnownTokensWorkWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		text := source.add(t, "ci", Reader, "*")
		source.tokens[0].ExpiresAt = began + 60_000
		w := watch(t, Config{}, source)
		run(t, w)
		caller, err := w.Caller(t.Context(), bearer(text))
		if err != nil {
			t.Fatal(err)
		}
		kept, release := w.Keep(t.Context(), caller)
		defer release()
		source.change(func() { source.away = errors.New("no database") })
		time.Sleep(59 * time.Second)
		if _, err := w.Caller(t.Context(), bearer(text)); err != nil || kept.Err() != nil {
			t.Errorf("a known token: %v, %v", err, kept.Err())
		}
		if age := w.Age(); age < 58*time.Second {
			t.Errorf("the tokens are %s old", age)
		}
		time.Sleep(2 * time.Second)
		if _, err := w.Caller(t.Context(), bearer(text)); err == nil || kept.Err() == nil {
			t.Errorf("an expired token: %v, %v", err, kept.Err())
		}
	})
}

// The last use of a token is written at most once a minute, and again after a failure.
func TestLastUseIsWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		text := source.add(t, "ci", Reader, "*")
		source.add(t, "unused", Reader, "*")
		w := watch(t, Config{}, source)
		run(t, w)
		use := func(seconds int) {
			for range seconds {
				if _, err := w.Caller(t.Context(), bearer(text)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}
		use(180)
		if uses := source.written(); len(uses) < 2 || len(uses) > 4 || uses[0].ID != text.ID {
			t.Errorf("uses written: %v", uses)
		}
		source.change(func() { source.away = errors.New("no database") })
		use(70)
		before := len(source.written())
		source.change(func() { source.away = nil })
		time.Sleep(3 * time.Minute)
		if uses := source.written(); len(uses) != before+1 || uses[before].At < began+240_000 {
			t.Errorf("uses written after a failure: %v", uses)
		}
	})
}

// run runs the watch until the test ends.
func run(t *testing.T, w *Watch) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestModesHaveNames(t *testing.T) {
	for _, name := range []string{"auto", "required", "none"} {
		if m, err := ParseMode(name); err != nil || m.String() != name {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if _, err := ParseMode("off"); err == nil {
		t.Error("an unknown mode was read")
	}
}
