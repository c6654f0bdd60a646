package access

import (
	"context"
	"errors"
	"slices"
	"strings"
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
					time.Sleep(max(c.lives-time.Millisecond, 0))
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

// A token that another node has made is read when the first request has it. Many unknown tokens poll a few times.
func TestUnknownTokenWaitsForAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		w := watch(t, Config{Mode: Required}, source)
		run(t, w)
		ci := source.add(t, "ci", Reader, "*")
		begun := time.Now()
		if _, err := w.Caller(t.Context(), bearer(ci)); err != nil || time.Since(begun) != 0 {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		polls := source.polls
		for range 100 {
			if _, err := w.Caller(t.Context(), bearer(NewText())); err == nil {
				t.Fatal("an unknown token is valid")
			}
		}
		if n := source.polls - polls; n < 1 || n > renewalBurst {
			t.Errorf("%d polls of 100 unknown tokens", n)
		}
		other := source.add(t, "other", Reader, "*")
		if _, err := w.Caller(t.Context(), bearer(other)); err == nil {
			t.Error("an unknown token was read beyond the most polls")
		}
		time.Sleep(time.Second)
		if _, err := w.Caller(t.Context(), bearer(other)); err != nil {
			t.Errorf("after the next poll: %v", err)
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
		if _, err := w.Caller(t.Context(), bearer(NewText())); err == nil || time.Since(begun) != renewalWait {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		close(stall)
	})
}
