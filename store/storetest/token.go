package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/store"
)

// token returns a new token with the name.
func token(t testing.TB, name string) *access.Token {
	t.Helper()
	made, err := access.New(access.NewText(), name, access.Operator, access.Applications{"shop", "bank-*"}, t0,
		"näme’ of the maker")
	ok(t, err, "new token")
	return made
}

func (f *fixture) addToken(token *access.Token) {
	f.t.Helper()
	added, err := f.AddToken(f.t.Context(), token)
	ok(f.t, err, "add a token")
	same(f.t, "added", added, true)
}

// tokenChange returns a change that the audit calls a rotation.
func tokenChange(change func(t *access.Token) error) store.TokenChange {
	return store.TokenChange{Action: "token_rotate", At: t0 + 10,
		By: clock.Actor{Name: "ops’", Token: "t", From: "192.0.2.1"}, Change: change}
}

func (f *fixture) tokenChanges() int64 {
	f.t.Helper()
	n, err := f.TokenChanges(f.t.Context())
	ok(f.t, err, "token changes")
	return n
}

func (f *fixture) allTokens() []access.Token {
	f.t.Helper()
	all, err := f.AllTokens(f.t.Context())
	ok(f.t, err, "all tokens")
	return all
}

// testTokens demands that a token is stored with all its fields, that an id is used once, and that a change keeps the
// other tokens.
func testTokens(t *testing.T, f *fixture) {
	same(t, "changes of a new database", f.tokenChanges(), 0)
	same(t, "tokens of a new database", len(f.allTokens()), 0)

	first, other := token(t, "näme’"), token(t, "other")
	first.ID, other.ID = "aaaaaaaaaaaa", "AAAAAAAAAAAA"
	other.Role, other.Applications, other.ExpiresAt = access.Administrator, access.Applications{"*"}, t0+9
	f.addToken(first)
	f.addToken(other)
	same(t, "tokens", f.allTokens(), []access.Token{*other, *first})
	same(t, "changes", f.tokenChanges(), 2)

	again := token(t, "again")
	again.ID = first.ID
	added, err := f.AddToken(t.Context(), again)
	ok(t, err, "add an existing id")
	same(t, "added an existing id", added, false)
	_, err = f.ChangeToken(t.Context(), "unknown", tokenChange(func(*access.Token) error { return nil }))
	if !errors.Is(err, clock.ErrNotFound) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a change of an unknown token: %v", err)
	}
	same(t, "changes after refused changes", f.tokenChanges(), 2)

	secret := access.NewText().Hash()
	rotated, err := f.ChangeToken(t.Context(), first.ID,
		tokenChange(func(t *access.Token) error { return t.Rotate(secret, t0+10, time.Second) }))
	ok(t, err, "rotate")
	ok(t, first.Rotate(secret, t0+10, time.Second), "rotate")
	same(t, "rotated", rotated, *first)
	revoked, err := f.ChangeToken(t.Context(), first.ID,
		tokenChange(func(t *access.Token) error { t.Revoke(t0 + 20); return nil }))
	ok(t, err, "revoke")
	first.Revoke(t0 + 20)
	same(t, "revoked", revoked, *first)
	_, err = f.ChangeToken(t.Context(), first.ID,
		tokenChange(func(t *access.Token) error { return t.Rotate(access.Hash{}, t0+30, 0) }))
	if !errors.Is(err, clock.ErrConflict) || !errors.Is(err, access.ErrRevoked) {
		t.Errorf("a rotation of a revoked token: %v", err)
	}
	same(t, "tokens after changes", f.allTokens(), []access.Token{*other, *first})
	same(t, "changes after changes", f.tokenChanges(), 4)

	uses := []access.Use{{ID: first.ID, At: t0 + 50}, {ID: "unknown", At: t0 + 60}, {ID: other.ID, At: t0 + 70}}
	ok(t, f.UseTokens(t.Context(), uses), "use")
	ok(t, f.UseTokens(t.Context(), []access.Use{{ID: other.ID, At: t0 + 69}, {ID: first.ID, At: t0 + 51}}), "use again")
	first.LastUsedAt, other.LastUsedAt = t0+51, t0+70
	same(t, "tokens after uses", f.allTokens(), []access.Token{*other, *first})
	same(t, "changes after uses", f.tokenChanges(), 4)

	s := func(i clock.Instant) string { return i.Time().Format(reportLayout) }
	same(t, "report", f.report(`SELECT name, role, applications, created_at, created_by, revoked_at, old_secret_until FROM access_token_report
		WHERE id = 'aaaaaaaaaaaa' AND expires_at IS NULL AND last_used_at IS NOT NULL`), [][]string{
		{first.Name, "operator", "shop,bank-*", s(t0), first.CreatedBy, s(t0 + 20), s(t0 + 1010)},
	})
}

// session returns a session of the token.
func session(t testing.TB, of *access.Token, at, expires clock.Instant) *access.Token {
	t.Helper()
	s := token(t, of.Name)
	s.CreatedBy = of.Name
	s.CreatedAt, s.ExpiresAt, s.ParentID, s.ParentSecret = at, expires, of.ID, of.Secret
	return s
}

// testSessions demands that a session is stored with its token, that the oldest ones beyond the most end, that ended and
// expired ones disappear, and that no token is ended as a session.
func testSessions(t *testing.T, f *fixture) {
	ops, other := token(t, "ops"), token(t, "other")
	f.addToken(ops)
	f.addToken(other)
	by := clock.Actor{Name: "ops", Token: ops.ID, From: "192.0.2.1", RequestID: "r"}
	start := func(s *access.Token) *access.Token {
		t.Helper()
		ok(t, f.AddSession(t.Context(), s, 2, by), "start a session")
		return s
	}
	stored := func() map[string]access.Token {
		all := map[string]access.Token{}
		for _, s := range f.allTokens() {
			if s.IsSession() {
				all[s.ID] = s
			}
		}
		return all
	}
	short, first := start(session(t, ops, t0, t0+9)), start(session(t, ops, t0+1, t0+1000))
	others := start(session(t, other, t0+2, t0+1000))
	same(t, "sessions", stored(), map[string]access.Token{short.ID: *short, first.ID: *first, others.ID: *others})

	second := start(session(t, ops, t0+3, t0+1000))
	short.Revoke(t0 + 3)
	same(t, "sessions beyond the most", stored(),
		map[string]access.Token{short.ID: *short, first.ID: *first, second.ID: *second, others.ID: *others})

	changes := f.tokenChanges()
	ok(t, f.EndSession(t.Context(), first.ID, t0+4, by), "end a session")
	first.Revoke(t0 + 4)
	for _, id := range []string{ops.ID, "unknown", first.ID} {
		if err := f.EndSession(t.Context(), id, t0+4, by); !errors.Is(err, clock.ErrNotFound) {
			t.Errorf("the end of %s as a session: %v", id, err)
		}
	}
	same(t, "changes", f.tokenChanges(), changes+1)

	brief := start(session(t, other, t0+5, t0+9))
	third := start(session(t, ops, t0+9, t0+1000))
	same(t, "sessions without the ended and the expired ones", stored(),
		map[string]access.Token{second.ID: *second, others.ID: *others, third.ID: *third})
	same(t, "tokens", len(f.allTokens()), 5)
	person := token(t, "anna")
	person.ExpiresAt, person.ParentID = t0+1000, access.ParentProvider
	start(person)
	same(t, "a session of a person", stored()[person.ID], *person)
	_, err := f.ChangeToken(t.Context(), ops.ID, tokenChange(func(t *access.Token) error { t.Revoke(t0 + 9); return nil }))
	ok(t, err, "revoke")
	err = f.AddSession(t.Context(), session(t, ops, t0+9, t0+1000), 2, by)
	if !errors.Is(err, access.ErrParentEnded) {
		t.Errorf("a session of a revoked token: %v", err)
	}
	if secret := f.report("SELECT secret FROM access_token WHERE id = '" + third.ID + "'"); secret[0][0] != "" {
		t.Error("a build without sessions takes a session for a token")
	}

	acts, err := f.Acts(t.Context(), clock.ActsQuery{Limit: 6})
	ok(t, err, "acts")
	for i, want := range []string{
		"token_rotate " + ops.ID, "session_start " + person.ID, "session_start " + third.ID, "session_start " + brief.ID,
		"session_end " + first.ID, "session_end " + short.ID,
	} {
		got := acts[i]
		if got.Action+" "+got.Subject != want || i > 0 && (got.Actor != by || !strings.Contains(got.After, "session_of")) {
			t.Errorf("act %d is %+v, want %s", i, got, want)
		}
	}
	same(t, "report", f.report("SELECT name, parent_id FROM access_token_report WHERE id = '"+third.ID+"'"),
		[][]string{{"ops", ops.ID}})
}

// testRacingTokens adds tokens from several stores at once. Of additions of one id exactly one succeeds.
func testRacingTokens(t *testing.T, f *fixture) {
	const writers, rounds = 4, 10
	shared := make([]*access.Token, rounds)
	for i := range shared {
		shared[i] = token(t, "shared")
	}
	var g errgroup.Group
	wins := make(chan int, writers*rounds)
	for i := range writers {
		s := f
		if i > 0 {
			s = f.other()
		}
		g.Go(func() error {
			for n := range rounds {
				if _, err := s.AddToken(t.Context(), token(t, fmt.Sprint(i))); err != nil {
					return err
				}
				added, err := s.AddToken(t.Context(), shared[n])
				if err != nil {
					return err
				}
				if added {
					wins <- n
				}
			}
			return nil
		})
	}
	ok(t, g.Wait(), "add at once")
	close(wins)
	var won []int
	for n := range wins {
		won = append(won, n)
	}
	slices.Sort(won)
	same(t, "shared tokens added once", won, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	same(t, "tokens", len(f.allTokens()), writers*rounds+rounds)
	same(t, "changes", f.tokenChanges(), writers*rounds+rounds)
}

// testUnreadableToken changes a stored token by hand. It opens nothing, is still listed, and can be revoked. The other
// tokens stay.
func testUnreadableToken(t *testing.T, f *fixture) {
	for column, value := range map[string]string{"role": "root", "applications": "sh op", "secret": "12", "old_secret": "x"} {
		text := access.NewText()
		broken, err := access.New(text, "broken "+column, access.Reader, access.Applications{"*"}, t0, "maker")
		ok(t, err, "new token")
		f.addToken(broken)
		f.exec("UPDATE access_token SET %s = '%s' WHERE id = '%s'", column, value, broken.ID)
		all := f.allTokens()
		i := slices.IndexFunc(all, func(t access.Token) bool { return t.ID == broken.ID })
		if i < 0 || all[i].Unreadable == nil || all[i].Name != broken.Name || all[i].Check(text.Hash(), t0) == nil {
			t.Errorf("%s = %q: %+v", column, value, all)
		}
		_, err = f.ChangeToken(t.Context(), broken.ID,
			tokenChange(func(t *access.Token) error { t.Revoke(t0 + 1); return nil }))
		ok(t, err, "revoke an unreadable token")
	}
}
