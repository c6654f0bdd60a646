package stats

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

func (t *table) AddSightings(ctx context.Context, seen map[string]clock.Instant) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, at := range seen {
		t.seen[name] = max(t.seen[name], at)
	}
	t.wrote += len(seen)
	return nil
}

func (t *table) DeleteSightings(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	if err := t.enter(ctx); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.seen, func(_ string, at clock.Instant) bool {
		old := at < before && deleted < limit
		if old {
			deleted++
		}
		return old
	})
	return deleted, nil
}

// sighted returns when an application was seen last, and how many sightings were written.
func (t *table) sighted(application string) (at clock.Instant, written int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[application], t.wrote
}

// openStep returns the begin of the open step.
func openStep() clock.Instant { return clock.Instant(time.Now().Truncate(Hour.Step).UnixMilli()) }

func TestApplicationsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		first := openStep()
		a.sets("shop", 3)
		a.Op(cancel("bank"), clock.Keep)
		a.Op(set("zoo"), clock.Refuse)
		a.Rung([]clock.Ring{{Key: clock.Key{Application: "rung"}}}, []clock.Outcome{{Kind: clock.Confirmed}}, first)
		pass(0)
		for _, name := range []string{"shop", "bank", "zoo"} {
			if at, written := n.table.sighted(name); at != first || written != 3 {
				t.Errorf("%s was seen at %s, want %s; %d were written", name, at, first, written)
			}
		}
		for range 11 { // a busy application is written once a minute
			a.sets("shop", 1)
			pass(0)
		}
		if at, written := n.table.sighted("shop"); at != first || written != 3 {
			t.Errorf("within a minute: seen at %s; %d were written", at, written)
		}
		latest := openStep()
		a.sets("shop", 1)
		pass(0)
		if at, written := n.table.sighted("shop"); at != latest || written != 4 {
			t.Errorf("after a minute: seen at %s, want %s; %d were written", at, latest, written)
		}
		if at, _ := n.table.sighted("rung"); at != 0 {
			t.Error("an application was seen that did nothing")
		}
		n.clock.set(-sightingKept, nil) // the database's clock is set ahead
		pass(time.Minute)
		if at, _ := n.table.sighted("zoo"); at != 0 {
			t.Errorf("a sighting of %s is kept", at)
		}
	})
}

func TestSightingsSurviveAnEndAndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		a.sets("shop", 1)
		pass(0)
		n.table.set(func() { n.table.away = true })
		during := openStep()
		a.sets("bank", 1)
		pass(time.Minute)
		if at, _ := n.table.sighted("bank"); at != 0 {
			t.Errorf("written at %s while the database is away", at)
		}
		n.table.set(func() { n.table.away = false })
		pass(0)
		if at, _ := n.table.sighted("bank"); at != during {
			t.Errorf("after the outage: seen at %s, want %s", at, during)
		}
		end := openStep()
		a.sets("bank", 1) // was just written, so the end alone writes it again
		a.stop()
		<-a.ended
		if at, _ := n.table.sighted("bank"); at != end {
			t.Errorf("after the end: seen at %s, want %s", at, end)
		}
	})
}

func TestSightingsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		n.table.set(func() { n.table.away = true })
		for step := range 12 {
			for i := range maxLive {
				a.sets(fmt.Sprint("application-", step*maxLive+i), 1)
			}
			pass(0)
		}
		n.table.set(func() { n.table.away = false })
		pass(0)
		if _, written := n.table.sighted(""); written != maxSeen {
			t.Errorf("%d sightings waited, want %d", written, maxSeen)
		}
	})
}
