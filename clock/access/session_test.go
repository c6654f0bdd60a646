package access

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// AddSession adds a session. It counts no limit, and deletes nothing.
func (f *fakeSource) AddSession(_ context.Context, session *Token, _ int, _ clock.Actor) error {
	f.change(func() { f.tokens = append(f.tokens, *session) })
	return nil
}

// EndSession revokes the session.
func (f *fakeSource) EndSession(_ context.Context, id string, at clock.Instant, _ clock.Actor) error {
	f.change(func() { f.find(id).Revoke(at) })
	return nil
}

// find returns the token in the database.
func (f *fakeSource) find(id string) *Token {
	return &f.tokens[slices.IndexFunc(f.tokens, func(t Token) bool { return t.ID == id })]
}

// cookie is a request with the session.
func cookie(text Text) Request { return Request{Session: text.String()} }

// started starts a session of the token.
func started(t *testing.T, s *Sessions, token Text) Text {
	t.Helper()
	caller, err := s.watch.Caller(t.Context(), bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	text, session, err := s.Start(t.Context(), caller, clock.Actor{})
	if err != nil || session.ID != text.ID {
		t.Fatalf("%+v, %v", session, err)
	}
	return text
}

func TestSessionIsValidInItsCookieAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		ci := source.add(t, "ci", Operator, "shop", "bank-*")
		w := watch(t, Config{Mode: Required, Rate: 7}, source)
		run(t, w)
		sessions := NewSessions(w, source, time.Hour)
		text := started(t, sessions, ci)
		own, err := w.Caller(t.Context(), bearer(ci))
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Caller(t.Context(), cookie(text))
		if err != nil || c.Name() != "ci" || c.TokenID() != text.ID || c.Allow(Operate) != nil ||
			c.Allow(Admin) == nil || !c.Covers("bank-1") || c.Covers("till") {
			t.Fatalf("%+v, %v", c, err)
		}
		if c.limiter != own.limiter {
			t.Error("a session has operations of its own")
		}
		for what, r := range map[string]Request{
			"a session in the header": bearer(text), "a token in the cookie": cookie(ci),
			"both, the wrong one in the header": {Authorization: bearer(text).Authorization, Session: text.String()},
			"another text":                      {Session: "x"},
			"another secret":                    cookie(Text{ID: text.ID, Secret: NewText().Secret}),
		} {
			if got, err := w.Caller(t.Context(), r); !errors.Is(err, clock.ErrUnauthenticated) ||
				strings.Contains(err.Error(), text.Secret) {
				t.Errorf("%s: %+v, %v", what, got, err)
			}
		}
		r := bearer(ci)
		r.Session = "x"
		if _, err := w.Caller(t.Context(), r); err != nil {
			t.Errorf("a token beside an old cookie: %v", err)
		}
		for what, caller := range map[string]*Caller{"a session": c, "anyone": Anyone} {
			if _, _, err := sessions.Start(t.Context(), caller, clock.Actor{}); !errors.Is(err, clock.ErrForbidden) {
				t.Errorf("%s starts a session: %v", what, err)
			}
		}
		if err := source.find(text.ID).Rotate(NewText().Hash(), began, 0); err == nil {
			t.Error("a session got a new secret")
		}
	})
}

// A session ends by hand, at its time, and with the secret of its token.
func TestSessionEnds(t *testing.T) {
	for name, c := range map[string]struct {
		expires  time.Duration // end of the token; 0: none
		end      func(t *testing.T, s *Sessions, f *fakeSource, token, session string)
		lives    time.Duration // after end
		endsByIt bool          // the call itself ends the session, at this node
	}{
		"by hand": {end: func(t *testing.T, s *Sessions, _ *fakeSource, _, session string) {
			t.Helper()
			if err := s.End(t.Context(), session, clock.Actor{}); err != nil {
				t.Fatal(err)
			}
		}, endsByIt: true},
		"at its time":          {lives: time.Hour},
		"with a short token":   {expires: time.Minute, lives: time.Minute},
		"with a revoked token": {end: revoked},
		"with a deleted token": {end: func(_ *testing.T, _ *Sessions, f *fakeSource, token, _ string) {
			f.change(func() { f.tokens = slices.DeleteFunc(f.tokens, func(t Token) bool { return t.ID == token }) })
		}},
		"with the old secret": {end: func(_ *testing.T, _ *Sessions, f *fakeSource, token, _ string) {
			f.change(func() { _ = f.find(token).Rotate(NewText().Hash(), began, time.Minute) })
		}, lives: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{}
				ci := source.add(t, "ci", Reader, "*")
				if c.expires > 0 {
					source.change(func() { source.find(ci.ID).ExpiresAt = began.Add(c.expires) })
				}
				w := watch(t, Config{Mode: Required}, source)
				run(t, w)
				sessions := NewSessions(w, source, time.Hour)
				text := started(t, sessions, ci)
				caller, err := w.Caller(t.Context(), cookie(text))
				if err != nil {
					t.Fatal(err)
				}
				kept, release := w.Keep(t.Context(), caller)
				defer release()
				if c.end != nil {
					c.end(t, sessions, source, ci.ID, text.ID)
				}
				if !c.endsByIt {
					time.Sleep(max(c.lives-200*time.Millisecond, 0)) // less the polls so far
					if _, err := w.Caller(t.Context(), cookie(text)); c.lives > 0 && err != nil {
						t.Errorf("before its end: %v", err)
					}
					time.Sleep(2 * time.Second)
				}
				_, err = w.Caller(t.Context(), cookie(text))
				if !errors.Is(err, clock.ErrUnauthenticated) || EndedToken(err) == nil || w.Check(caller) == nil {
					t.Errorf("after its end: %v", err)
				}
				time.Sleep(2 * time.Second)
				if kept.Err() == nil {
					t.Error("what the session began goes on")
				}
			})
		})
	}
}

func revoked(_ *testing.T, _ *Sessions, f *fakeSource, token, _ string) {
	f.change(func() { f.find(token).Revoke(began) })
}

// The first token is known to a request that needs one, also while others need none.
func TestFirstTokenIsKnownToARequestThatNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Mode: Auto, Loopback: true}, source)
		run(t, w)
		if c, err := w.Named(t.Context(), bearer(NewText())); !errors.Is(err, clock.ErrForbidden) || c != nil {
			t.Errorf("no token exists: %+v, %v", c, err)
		}
		boss := source.add(t, "boss", Administrator, "*")
		if c, err := w.Caller(t.Context(), bearer(boss)); c != Anyone || err != nil {
			t.Fatalf("the node has read it: %+v, %v", c, err)
		}
		if c, err := w.Named(t.Context(), Request{}); !errors.Is(err, clock.ErrForbidden) || c != nil {
			t.Errorf("a request without a token: %+v, %v", c, err)
		}
		if c, err := w.Named(t.Context(), bearer(boss)); err != nil || c.Name() != "boss" {
			t.Errorf("the first token: %+v, %v", c, err)
		}
	})
}

// The first request with a token that another node has made reads it. Many unknown tokens share a poll.
func TestUnknownTokenWaitsForAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Mode: Required}, source)
		run(t, w)
		ci := source.add(t, "ci", Reader, "*")
		if _, err := w.Caller(t.Context(), bearer(ci)); err != nil {
			t.Error(err)
		}
		attacker := netip.MustParseAddr("192.0.2.1")
		polls, begun := source.counted(), time.Now()
		var g sync.WaitGroup
		for range 100 {
			g.Go(func() {
				r := bearer(NewText())
				r.Address = attacker
				if _, err := w.Caller(t.Context(), r); err == nil {
					t.Error("an unknown token is valid")
				}
			})
		}
		other := source.add(t, "other", Reader, "*")
		if _, err := w.Caller(t.Context(), bearer(other)); err != nil {
			t.Errorf("a new token beside unknown ones: %v", err)
		}
		g.Wait()
		if n := source.counted() - polls; n < 1 || n > 2 || time.Since(begun) > 2*time.Second {
			t.Errorf("%d polls of 100 unknown tokens, after %s", n, time.Since(begun))
		}
		polls = source.counted()
		r := bearer(NewText())
		r.Address = attacker
		if _, err := w.Caller(t.Context(), r); !errors.Is(err, clock.ErrLimited) || source.counted() != polls {
			t.Errorf("%d polls for an address with too many failures: %v", source.counted()-polls, err)
		}
	})
}

// A request waits no longer for a database that does not respond.
func TestUnknownTokenWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Mode: Required}, source)
		run(t, w)
		stall := make(chan struct{})
		source.change(func() { source.stall = stall })
		begun := time.Now()
		_, err := w.Caller(t.Context(), bearer(NewText()))
		if took := time.Since(begun); !errors.Is(err, clock.ErrUnavailable) || took != renewalWait {
			t.Errorf("after %s: %v", took, err)
		}
		close(stall)
		time.Sleep(time.Second)
		source.change(func() { source.away = errors.New("gone") })
		if _, err := w.Caller(t.Context(), bearer(NewText())); !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("without the database: %v", err)
		}
	})
}

// A token starts few sessions at once, and works itself then. Sessions changed in SQL open nothing.
func TestSessionsHaveBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		ci, other := source.add(t, "ci", Reader, "*"), source.add(t, "other", Reader, "*")
		w := watch(t, Config{Mode: Required}, source)
		run(t, w)
		sessions := NewSessions(w, source, time.Hour)
		last := started(t, sessions, ci)
		caller, err := w.Caller(t.Context(), bearer(ci))
		if err != nil {
			t.Fatal(err)
		}
		begun, more := time.Now(), 0
		for err == nil {
			if _, _, err = sessions.Start(t.Context(), caller, clock.Actor{}); err == nil {
				more++
			}
		}
		if most := startBurst + int(time.Since(begun)/startEvery); !errors.Is(err, clock.ErrLimited) || more > most {
			t.Errorf("after %d: %v, want at most %d", more, err, most)
		}
		started(t, sessions, other)
		time.Sleep(startEvery)
		started(t, sessions, ci)

		for _, id := range []string{"", "x", last.ID + " ", "ääääää", last.ID[1:] + "\x00"} {
			if err := sessions.End(t.Context(), id, clock.Actor{}); !errors.Is(err, clock.ErrNotFound) {
				t.Errorf("the end of %q: %v", id, err)
			}
		}
		for what, change := range map[string]func(s *Token){
			"without an end":         func(s *Token) { s.ExpiresAt = clock.NoInstant },
			"of itself":              func(s *Token) { s.ParentID, s.ParentSecret = s.ID, s.Secret },
			"of a provider":          func(s *Token) { s.ParentID = ParentProvider },
			"with another beginning": func(s *Token) { s.ParentSecret = NewText().Hash() },
		} {
			before := *source.find(last.ID)
			source.change(func() { change(source.find(last.ID)) })
			time.Sleep(2 * time.Second)
			if _, err := w.Caller(t.Context(), cookie(last)); !errors.Is(err, clock.ErrUnauthenticated) {
				t.Errorf("a session %s: %v", what, err)
			}
			all := sessions.All()
			i := slices.IndexFunc(all, func(l Listed) bool { return l.ID == last.ID })
			if all[i].State != "ended" || len(all) != len(source.tokens) {
				t.Errorf("a session %s is %s, of %d tokens", what, all[i].State, len(all))
			}
			source.change(func() { *source.find(last.ID) = before })
		}
	})
}

// A person of a provider gets a session, while the service has a provider.
func TestPersonGetsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Mode: Auto, Loopback: true, People: NewText().Hash()}, source)
		run(t, w)
		if _, err := w.Caller(t.Context(), Request{}); !errors.Is(err, clock.ErrUnauthenticated) {
			t.Errorf("nobody: %v", err)
		}
		sessions := NewSessions(w, source, time.Hour)
		for subject, want := range map[string]string{"17": "anna", "18": "18"} {
			person := &Person{Name: map[string]string{"17": "anna"}[subject], Subject: subject, Role: Operator, Applications: Applications{"shop"}}
			text, session, err := sessions.StartFor(t.Context(), person, clock.Actor{From: "192.0.2.1"})
			if err != nil || session.CreatedBy != subject || session.Lifetime() != time.Hour {
				t.Fatalf("%+v, %v", session, err)
			}
			if c, err := w.Caller(t.Context(), cookie(text)); err != nil || c.Name() != want || c.Covers("bank") {
				t.Errorf("%+v, %v, want %s", c, err, want)
			}
		}
		if all, _ := w.Tokens(); all != 0 || w.Open() {
			t.Errorf("%d tokens, open: %t", all, w.Open())
		}
		time.Sleep(2 * time.Minute) // the last uses are written
		other := watch(t, Config{Mode: Required, People: NewText().Hash()}, source)
		for _, l := range sessions.All() {
			if l.State != "valid" || l.LastUsedAt == clock.NoInstant {
				t.Errorf("%+v", l)
			}
		}
		for _, l := range other.all() {
			if l.State != "ended" {
				t.Errorf("a session of another provider is %s", l.State)
			}
		}
		if _, _, err := sessions.StartFor(t.Context(), &Person{Name: "a\nb"}, clock.Actor{}); !errors.Is(err, clock.ErrForbidden) {
			t.Errorf("a person without a name: %v", err)
		}
	})
}

// An address with failed sign-ins has to wait, as one with unknown tokens.
func TestFailedSignInsOfAnAddressAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, Config{Mode: Required}, &fakeSource{})
		sessions := NewSessions(w, &fakeSource{}, time.Hour)
		attacker, neighbour := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		for range failureBurst {
			if err := sessions.MaySignIn(attacker); err != nil {
				t.Fatal(err)
			}
			sessions.SignInFailed(attacker)
		}
		limitedBy(t, "one more", sessions.MaySignIn(attacker), failureEvery)
		if err := sessions.MaySignIn(neighbour); err != nil {
			t.Error(err)
		}
		time.Sleep(failureEvery)
		if err := sessions.MaySignIn(attacker); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}
