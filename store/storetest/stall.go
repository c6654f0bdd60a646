package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// lockAge is how long locks may outlive a client that stopped.
const lockAge = 10 * time.Second

// stalls are the moments at which a client stops while it holds locks. begin leads up to the stall. What is locked is the first row, or
// the node's.
func stalls() []stallCase {
	big := payload([]byte(strings.Repeat("x", 4<<20)))
	write := func(op clock.Op) func(*fixture, store.Store, *Proxy) {
		return func(f *fixture, s store.Store, _ *Proxy) {
			_, _ = s.Write(f.t.Context(), clock.WriteRequest{Now: t0, Ops: []clock.Op{op}})
		}
	}
	claim := func(f *fixture, s store.Store, names ...string) {
		r := store.ClaimRequest{Now: t0, ClaimID: claimID(), MaxBytes: 64 << 20}
		for _, name := range names {
			r.IDs = append(r.IDs, f.get(name).ID)
		}
		c, err := s.Claim(f.t.Context(), r)
		if err == nil && c.Settler != nil {
			f.t.Cleanup(func() { _ = c.Settler.Release(context.Background()) }) // so that the store can be closed
		}
	}
	return []stallCase{
		{
			name: "in a claim, while it rings", rows: []clock.Op{set("rings", t0)},
			begin: func(f *fixture, s store.Store, p *Proxy) {
				claim(f, s, "rings")
				p.Stall()
			},
		},
		{
			name: "in a claim, while it reads",
			rows: []clock.Op{set("large 1", t0, big), set("large 2", t0, big), set("large 3", t0, big), set("large 4", t0, big), set("large 5", t0, big)},
			begin: func(f *fixture, s store.Store, p *Proxy) {
				p.StallAnswer(1 << 20)
				claim(f, s, "large 1", "large 2", "large 3", "large 4", "large 5")
			},
		},
		{
			name: "in a write, before its commit", rows: []clock.Op{set("moves", t0)},
			text: commits, begin: write(set("moves", t0+1)),
		},
		{
			name: "in a write, within a statement", rows: []clock.Op{set("grows", t0)},
			text: []string{"rewritealarms"}, after: 1 << 20, begin: write(set("grows", t0+1, big)),
		},
		{
			name: "while it attends", text: commits,
			begin: func(f *fixture, s store.Store, _ *Proxy) { _ = s.Attend(f.t.Context(), node("stops", t0+3000), 0) },
		},
	}
}

// commits are COMMIT as PostgreSQL and MySQL get it, not the end of READ COMMITTED.
var commits = []string{"commit\x00", "\x03commit"}

type stallCase struct {
	name  string
	rows  []clock.Op // that exist before
	text  []string   // at which the proxy stalls, see Proxy.StallAt; nil: begin stalls it
	after int
	begin func(f *fixture, s store.Store, p *Proxy)
}

// testStalled stops clients that hold locks, all at once: the server frees the rows in time.
func testStalled(t *testing.T, f *fixture) {
	var g errgroup.Group
	f.attend(node("stops", t0), 0)
	for _, c := range stalls() {
		locked := "node WHERE incarnation = 'stops'"
		if len(c.rows) > 0 {
			locked = fmt.Sprintf("alarm WHERE id = %d", f.set(t0, c.rows...)[0])
		}
		p := NewProxy(t, f.db.Server)
		s := f.db.Via(t, p.Address())
		ok(t, s.Check(t.Context()), "check through a proxy")
		p.StallAt(c.after, c.text...)
		g.Go(func() error {
			c.begin(f, s, p)
			return nil
		})
		g.Go(func() error {
			defer p.Close()
			age, err := f.age(locked, p)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else {
				t.Logf("%s: locks were gone after %s", c.name, age.Round(10*time.Millisecond))
			}
			return nil
		})
	}
	ok(t, g.Wait(), "a client that stopped")
}

// age waits for the lock of a row, and returns how long they outlived the stall.
func (f *fixture) age(locked string, p *Proxy) (time.Duration, error) {
	select {
	case <-p.Stalled():
	case <-time.After(10 * prompt):
		return 0, fmt.Errorf("the proxy does not stall")
	}
	begin := time.Now()
	ctx, stop := context.WithTimeout(f.t.Context(), 2*lockAge)
	defer stop()
	tx, err := f.db.SQL.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	var one int
	err = tx.QueryRowContext(ctx, "SELECT 1 FROM "+locked+" FOR UPDATE").Scan(&one)
	age := time.Since(begin)
	switch {
	case err != nil:
		return age, fmt.Errorf("still locked after %s: %w", age, err)
	case age > lockAge:
		return age, fmt.Errorf("locked for %s", age)
	case age < time.Second:
		return age, fmt.Errorf("was not locked: free after %s", age)
	}
	return age, nil
}
