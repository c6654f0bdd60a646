package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// trySettleAfterCrash settles a claim whose connection was cut.
func (c *claim) trySettleAfterCrash() ([]clock.Fate, error) {
	c.unsettled = true
	fates, err := c.trySettle(c.request.Now, everyRing(clock.Confirmed))
	if err != nil && !errors.Is(err, clock.ErrUnavailable) && !errors.Is(err, clock.ErrUnconfirmed) {
		err = fmt.Errorf("unexpected kind of error: %w", err)
		c.f.t.Error(err)
	}
	return fates, err
}

// reconnect makes calls until the store has dropped all broken connections and works again.
func (f *fixture) reconnect() {
	f.t.Helper()
	for range 100 {
		_, readErr := f.Overdue(f.t.Context(), t0, f.shards(), 1)
		_, listErr := f.listAlarms(f.t.Context(),
			clock.ListQuery{Application: app, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: 1})
		_, claimErr := f.Claim(f.t.Context(),
			store.ClaimRequest{IDs: []int64{1 << 60}, Now: t0, ClaimID: claimID(), MaxBytes: 1, Timeout: f.timeout})
		leaseErr := f.Attend(f.t.Context(), node("fault", t0+1), t0)
		if readErr == nil && listErr == nil && claimErr == nil && leaseErr == nil {
			return
		}
		if err := errors.Join(readErr, listErr, claimErr, leaseErr); !errors.Is(err, clock.ErrUnavailable) {
			f.t.Fatalf("after the connections were cut: %v", err)
		}
	}
	f.t.Fatal("the store does not recover after its connections were cut")
}

// calls returns one call of each method that talks to the database.
func (f *fixture) calls() map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"write": func(ctx context.Context) error {
			_, err := f.Write(ctx, clock.WriteRequest{Now: t0, Ops: []clock.Op{set("fault", t0), cancel("x")}})
			return err
		},
		"write that waits": func(ctx context.Context) error {
			_, err := f.Write(ctx,
				clock.WriteRequest{Now: t0, Ops: []clock.Op{set("fault", t0)}, LockWait: time.Second})
			return err
		},
		"get": func(ctx context.Context) error {
			_, err := f.Get(ctx, key("fault"))
			if errors.Is(err, clock.ErrNotFound) {
				return nil
			}
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := f.listAlarms(ctx,
				clock.ListQuery{Application: app, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: 1})
			return err
		},
		"time": func(ctx context.Context) error {
			_, err := f.Time(ctx)
			return err
		},
		"due": func(ctx context.Context) error {
			_, err := f.Due(ctx, store.DueQuery{Shards: []int{1, 2, 3}, Until: store.Position{Time: t0}, Limit: 1})
			return err
		},
		"claim": func(ctx context.Context) error {
			c, err := f.Claim(ctx, f.request(t0, 1, 2, 3))
			if err == nil && c.Settler != nil { // "fault" can exist already
				return c.Settler.Release(ctx)
			}
			return err
		},
		"expire": func(ctx context.Context) error {
			_, err := f.Expire(ctx, t0, []int{1, 2, 3}, store.Position{}, 1)
			return err
		},
		"purge": func(ctx context.Context) error {
			_, err := f.Purge(ctx, t0, t0, 1)
			return err
		},
		"overdue": func(ctx context.Context) error {
			_, err := f.Overdue(ctx, t0, []int{1, 2, 3}, 1)
			return err
		},
		"cluster": func(ctx context.Context) error {
			_, err := f.Cluster(ctx)
			return err
		},
		"attend": func(ctx context.Context) error { return f.Attend(ctx, node("fault", t0+1), t0) },
		"take": func(ctx context.Context) error {
			_, err := f.Take(ctx, node("fault", t0+1), t0, []int{1, 2, 3})
			return err
		},
		"setting changes": func(ctx context.Context) error {
			_, err := f.SettingChanges(ctx)
			return err
		},
		"all settings": func(ctx context.Context) error {
			_, err := f.AllSettings(ctx)
			return err
		},
		"settings": func(ctx context.Context) error {
			_, err := f.Settings(ctx, app)
			return err
		},
		"settings history": func(ctx context.Context) error {
			_, err := f.SettingsHistory(ctx, app, 1)
			return err
		},
		"change settings": func(ctx context.Context) error {
			_, err := f.ChangeSettings(ctx, change(app, "{}", t0, settings.AnyVersion))
			return err
		},
		"rewrite settings": func(ctx context.Context) error {
			_, err := f.RewriteSettings(ctx, settings.Rewrite{
				Application: app, Action: "settings_seal", At: t0,
				Document: func(v *settings.Version) string { return v.Document + " " },
			})
			return err
		},
		"count pending alarms": func(ctx context.Context) error {
			_, err := f.CountPending(ctx, 1)
			return err
		},
		"token changes": func(ctx context.Context) error {
			_, err := f.TokenChanges(ctx)
			return err
		},
		"all tokens": func(ctx context.Context) error {
			_, err := f.AllTokens(ctx)
			return err
		},
		"add token": func(ctx context.Context) error {
			_, err := f.AddToken(ctx, token(f.t, "fault"))
			return err
		},
		"change token": func(ctx context.Context) error {
			existing := token(f.t, "fault")
			if _, err := f.AddToken(ctx, existing); err != nil {
				return err
			}
			_, err := f.ChangeToken(ctx, existing.ID, tokenChange(func(*access.Token) error { return nil }))
			return err
		},
		"add session": func(ctx context.Context) error {
			parent := token(f.t, "fault")
			if _, err := f.AddToken(ctx, parent); err != nil {
				return err
			}
			return f.AddSession(ctx, session(f.t, parent, t0, t0+1), 1, clock.Actor{})
		},
		"end session": func(ctx context.Context) error {
			existing := session(f.t, token(f.t, "fault"), t0, t0+1)
			existing.ParentID = access.ParentProvider
			if err := f.AddSession(ctx, existing, 1, clock.Actor{}); err != nil {
				return err
			}
			return f.EndSession(ctx, existing.ID, t0, clock.Actor{})
		},
		"use tokens": func(ctx context.Context) error {
			return f.UseTokens(ctx, []access.Use{{ID: "fault", At: t0}})
		},
		"acts": func(ctx context.Context) error {
			_, err := f.Acts(ctx, clock.ActsQuery{Limit: 1})
			return err
		},
		"purge acts": func(ctx context.Context) error {
			_, err := f.PurgeActs(ctx, t0, 1)
			return err
		},
		"add steps": func(ctx context.Context) error {
			return f.AddSteps(ctx, []clock.NodeStep{{Length: time.Minute, Figures: "{}"}})
		},
		"steps": func(ctx context.Context) error {
			_, err := f.Steps(ctx, clock.StepsQuery{Length: time.Minute, From: t0, Until: t0 + 1, Limit: 1})
			return err
		},
		"delete steps": func(ctx context.Context) error {
			_, err := f.DeleteSteps(ctx, time.Minute, t0, 1)
			return err
		},
		"manifests": func(ctx context.Context) error {
			_, err := f.Manifests(ctx, "fault")
			return err
		},
		"next manifests": func(ctx context.Context) error {
			_, err := f.NextManifests(ctx, "", 1)
			return err
		},
		"change manifests": func(ctx context.Context) error {
			stored, err := f.Manifests(ctx, "fault")
			if err == nil {
				_, err = f.ChangeManifests(ctx, manifestChange("fault", "{}", stored.Version, t0))
			}
			return err
		},
		"add sightings": func(ctx context.Context) error {
			return f.AddSightings(ctx, map[string]clock.Instant{"fault": t0})
		},
		"sightings": func(ctx context.Context) error {
			_, err := f.Sightings(ctx, []string{"fault"})
			return err
		},
		"delete sightings": func(ctx context.Context) error {
			_, err := f.DeleteSightings(ctx, t0, 1)
			return err
		},
		"yield": func(ctx context.Context) error { return f.Yield(ctx, "fault", []int{1, 2, 3}) },
		"leave": func(ctx context.Context) error { return f.Leave(ctx, "fault") },
	}
}

// testCallsWithCancelledContext calls every method with a cancelled context. The error is unavailable and wraps the
// context's error.
func testCallsWithCancelledContext(t *testing.T, f *fixture) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for name, call := range f.calls() {
		if err := call(ctx); !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", name, err)
		}
	}
	same(t, "alarms", f.count("alarm"), 0)
	same(t, "nodes", f.count("node"), 0)
}

// testCallsAfterClose calls every method of a closed store.
func testCallsAfterClose(t *testing.T, f *fixture) {
	ok(t, f.Close(), "close")
	for name, call := range f.calls() {
		if err := call(t.Context()); !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// testSettleCancelled settles a claim with a cancelled context: nothing is written and no row stays locked.
func testSettleCancelled(t *testing.T, f *fixture) {
	id := f.set(t0, set("a", t0))[0]
	c := f.claim(t0, id)
	c.unsettled = false
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := c.Settler.Settle(ctx, t0, []clock.Fate{clock.FateOf(&c.Rings[0], clock.Outcome{Kind: clock.Confirmed}, t0)})
	if !errors.Is(err, clock.ErrUnavailable) {
		t.Fatalf("settlement with a cancelled context: %v", err)
	}
	again := f.claim(t0.Add(f.timeout), id).wantRings(id)
	again.settle(t0.Add(f.timeout), everyRing(clock.Confirmed))
	same(t, "ring no", f.get("a").RingNo, 1)
}

// testCutConnections cuts the connections at the server. Each call succeeds or reports unavailable, and the store
// recovers.
func testCutConnections(t *testing.T, f *fixture) {
	for name, call := range f.calls() {
		ok(t, call(t.Context()), name)
		f.db.Kill(t)
		if err := call(t.Context()); err != nil && !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("%s after its connections were cut: %v", name, err)
		}
		f.reconnect()
	}
}

// testUnreachable calls a store whose database does not answer, with some calls at a time. Each error has the right
// kind and comes within the store's own deadline.
func testUnreachable(t *testing.T, e Engine) {
	// Each call has a store of its own, so that none waits for a connection of a pool behind another one.
	callsOfOwn := func() map[string]func(context.Context) error {
		s := e.Unreachable(t)
		f := &fixture{t: t, Store: s, timeout: claimTimeout}
		calls := f.calls()
		calls["check"], calls["migrate"] = s.Check, s.Migrate
		return calls
	}
	var running errgroup.Group
	for name := range callsOfOwn() {
		calls := callsOfOwn()
		running.Go(func() error {
			ctx, stop := context.WithTimeout(t.Context(), hangTimeout)
			defer stop()
			if err := calls[name](ctx); !errors.Is(err, clock.ErrUnavailable) {
				t.Errorf("%s without a database: %v", name, err)
			}
			if ctx.Err() != nil {
				t.Errorf("%s without a database did not end by itself", name)
			}
			return nil
		})
	}
	_ = running.Wait()
}
