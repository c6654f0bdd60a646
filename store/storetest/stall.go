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

// stalls returns the moments at which a client stops while it holds locks. begin leads to that moment. The locked row
// is the first of existingRows, or lockedRow.
func stalls(f *fixture) []stallCase {
	big := payload([]byte(strings.Repeat("x", 4<<20)))
	write := func(op clock.Op) func(*fixture, store.Store, *Proxy) {
		return func(f *fixture, s store.Store, _ *Proxy) {
			_, _ = s.Write(f.t.Context(), clock.WriteRequest{Now: t0, Ops: []clock.Op{op}})
		}
	}
	claim := func(f *fixture, s store.Store, names ...string) {
		r := store.ClaimRequest{Now: t0, ClaimID: claimID(), MaxBytes: 64 << 20, Timeout: f.timeout}
		for _, name := range names {
			r.IDs = append(r.IDs, f.get(name).ID)
		}
		c, err := s.Claim(f.t.Context(), r)
		if err == nil && c.Settler != nil {
			f.t.Cleanup(func() { _ = c.Settler.Release(context.Background()) }) // without it the store could not be closed
		}
	}
	large := f.together("large 1", "large 2", "large 3", "large 4", "large 5")
	return []stallCase{
		{
			name: "in a claim, while it rings", held: true, existingRows: []clock.Op{set("rings", t0)},
			begin: func(f *fixture, s store.Store, p *Proxy) {
				claim(f, s, "rings")
				p.Stall()
			},
		},
		{
			name: "in a claim, while it reads", existingRows: sets(large, t0, big),
			begin: func(f *fixture, s store.Store, p *Proxy) {
				p.StallResult(1 << 20)
				claim(f, s, large...)
			},
		},
		{
			name: "in a write, before its commit", existingRows: []clock.Op{set("moves", t0)},
			stallTexts: commitTexts, begin: write(set("moves", t0+1)),
		},
		{
			name: "in a write, within a statement", existingRows: []clock.Op{set("grows", t0)},
			stallTexts: []string{"rewritealarms"}, bytesAfterText: 1 << 20, begin: write(set("grows", t0+1, big)),
		},
		{
			name: "while it takes a shard", stallTexts: commitTexts, lockedRow: "shard WHERE shard = 5",
			begin: func(f *fixture, s store.Store, _ *Proxy) {
				_, _ = s.Take(f.t.Context(), node("stops", t0+3000), t0, []int{5})
			},
		},
	}
}

// commitTexts are the bytes of COMMIT on PostgreSQL and on MySQL. They do not match the end of READ COMMITTED.
var commitTexts = []string{"commit\x00", "\x03commit"}

type stallCase struct {
	name           string
	held           bool       // only claims that hold a transaction lock the row
	existingRows   []clock.Op // sets of the rows that exist before
	lockedRow      string     // table and condition of the locked row; empty: the first of existingRows
	stallTexts     []string   // texts at which the proxy stalls, see Proxy.StallAt; nil: begin stalls it
	bytesAfterText int
	begin          func(f *fixture, s store.Store, p *Proxy)
}

// testStoppedClients stops several clients that hold locks: the server frees the rows in time.
func testStoppedClients(t *testing.T, f *fixture) {
	var g errgroup.Group
	for _, c := range stalls(f) {
		if c.held && f.timeout != 0 {
			continue
		}
		lockedRow := c.lockedRow
		if len(c.existingRows) > 0 {
			shard := c.existingRows[0].Key().Shard(f.ShardCount())
			lockedRow = fmt.Sprintf("alarm WHERE id = %d AND shard = %d", f.set(t0, c.existingRows...)[0], shard)
		}
		p := NewProxy(t, f.db.Server)
		s := f.db.Via(t, p.Address())
		ok(t, s.Check(t.Context()), "check through a proxy")
		p.StallAt(c.bytesAfterText, c.stallTexts...)
		g.Go(func() error {
			c.begin(f, s, p)
			return nil
		})
		g.Go(func() error {
			defer p.Close()
			age, err := f.measureLockAge(lockedRow, p)
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

// measureLockAge waits for the lock of a row. It returns how long the lock outlived the stall.
func (f *fixture) measureLockAge(lockedRow string, p *Proxy) (time.Duration, error) {
	select {
	case <-p.Stalled():
	case <-time.After(hangTimeout):
		return 0, fmt.Errorf("the proxy does not stall")
	}
	begin := time.Now()
	ctx, stop := context.WithTimeout(f.t.Context(), hangTimeout)
	defer stop()
	tx, err := f.db.SQL.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	var one int
	err = tx.QueryRowContext(ctx, "SELECT 1 FROM "+lockedRow+" FOR UPDATE").Scan(&one)
	age := time.Since(begin)
	switch {
	case err != nil:
		return age, fmt.Errorf("still locked after %s: %w", age, err)
	case age < time.Second:
		return age, fmt.Errorf("was not locked: free after %s", age)
	}
	return age, nil
}
