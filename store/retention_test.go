package store

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// recordedPurge records the arguments of the last Purge.
type recordedPurge struct{ before, settled clock.Instant }

func (p *recordedPurge) Purge(_ context.Context, before, settled clock.Instant, _ int) (int, error) {
	p.before, p.settled = before, settled
	return 0, nil
}

// noActs has no acts to purge.
type noActs struct{}

func (noActs) PurgeActs(context.Context, clock.Instant, int) (int, error) { return 0, nil }

// countedActs deletes the acts that are left, at most limit in a purge, and records the purges.
type countedActs struct {
	left   int
	before []clock.Instant
}

func (c *countedActs) PurgeActs(_ context.Context, before clock.Instant, limit int) (int, error) {
	n := min(c.left, limit)
	c.left -= n
	c.before = append(c.before, before)
	return n, nil
}

// Acts of the audit have a retention of their own. They are looked for once a minute, and at once again after a full
// purge.
func TestActsArePurgedAfterTheirRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultRetentionConfig()
		cfg.KeepActs = 100 * time.Second
		acts := &countedActs{left: 2*cfg.BatchSize + 1}
		r, err := NewRetention(cfg, RetentionDeps{
			Purger: &countedPurges{}, Acts: acts, Time: fixedClock(1_000_000), Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 130 {
			if _, err := r.purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if acts.left != 0 || len(acts.before) != 5 || acts.before[0] != 900_000 {
			t.Errorf("%d acts are left after the purges %v", acts.left, acts.before)
		}
	})
	negative := DefaultRetentionConfig()
	negative.KeepActs = -1
	if negative.Validate() == nil {
		t.Error("Validate accepts a negative retention of the audit")
	}
}

// fixedClock is a clock that stands still.
type fixedClock clock.Instant

func (f fixedClock) AtLeast() (clock.Instant, error) { return clock.Instant(f), nil }

// Even without a retention, an alarm in doubt is kept as long as its claim may be settled.
func TestAlarmsInDoubtOutliveTheRetention(t *testing.T) {
	for keep, want := range map[time.Duration]recordedPurge{
		0:         {before: 1_000_000, settled: 940_000},
		time.Hour: {before: 0, settled: 940_000},
	} {
		cfg := DefaultRetentionConfig()
		cfg.Keep = keep
		var asked recordedPurge
		r, err := NewRetention(cfg, RetentionDeps{
			Purger: &asked, Acts: noActs{}, Time: fixedClock(1_000_000), Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.purge(t.Context()); err != nil || asked != want {
			t.Errorf("retention %s: %+v, %v; want %+v", keep, asked, err, want)
		}
	}
	short := DefaultRetentionConfig()
	short.KeepInDoubt = time.Second
	if short.Validate() == nil {
		t.Error("Validate accepts a time that is shorter than a claim")
	}
}

// countedPurges deletes the alarms that are left, at most limit in a purge, and counts the purges.
type countedPurges struct {
	sync.Mutex
	left, purges int
}

func (c *countedPurges) Purge(_ context.Context, _, _ clock.Instant, limit int) (int, error) {
	c.Lock()
	defer c.Unlock()
	n := min(c.left, limit)
	c.left -= n
	c.purges++
	return n, nil
}

// restart sets the number of alarms that are left, and returns the purges and alarms so far.
func (c *countedPurges) restart(left int) (purges, wereLeft int) {
	c.Lock()
	defer c.Unlock()
	purges, wereLeft = c.purges, c.left
	c.left, c.purges = left, 0
	return purges, wereLeft
}

// While nothing is to be deleted, purges are rare.
func TestPurgesRestWhileNothingIsToBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		purger := &countedPurges{}
		r, err := NewRetention(DefaultRetentionConfig(), RetentionDeps{
			Purger: purger, Acts: noActs{}, Time: fixedClock(1_000_000), Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ended errgroup.Group
		ended.Go(func() error { return r.Run(ctx) })
		time.Sleep(59 * time.Second)
		if purges, _ := purger.restart(1250); purges != 12 { // 1250: two full batches, and half of one
			t.Errorf("%d purges in a minute without work, not 12", purges)
		}
		time.Sleep(3 * time.Second)
		if purges, left := purger.restart(0); left != 0 || purges != 4 {
			t.Errorf("%d alarms are left after %d purges; want none after 4, of which the last finds nothing", left,
				purges)
		}
		cancel()
		if err := ended.Wait(); err != nil {
			t.Error(err)
		}
	})
}
