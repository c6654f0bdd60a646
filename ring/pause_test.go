package ring_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// pauses pauses and resumes applications of a switchboard.
type pauses struct {
	*switchboard
	paused  map[string]bool
	version int64
}

func withPauses(t *testing.T, change func(*nodeConfig), test func(t *testing.T, p *pauses)) {
	t.Helper()
	withSwitchboard(t, change,
		func(t *testing.T, b *switchboard) { test(t, &pauses{switchboard: b, paused: map[string]bool{}}) })
}

// set pauses or resumes the application, and asks for the confirmation of a new version.
func (p *pauses) set(application string, paused bool) {
	p.paused[application] = paused
	p.version++
	routed, isPaused := p.router(), map[string]bool{}
	for name, is := range p.paused {
		isPaused[name] = is
	}
	p.n.loop.Reroute(func(to store.Addressee) *ring.Route {
		if isPaused[to.Application] {
			return ring.PausedRoute
		}
		return routed(to)
	}, []store.Addressee{{Application: application}})
	p.n.loop.Confirm(p.version)
}

// awaitConfirmed waits until the loop has confirmed the last version.
func (p *pauses) awaitConfirmed(t *testing.T) {
	t.Helper()
	for range 1000 {
		if p.n.loop.Confirmed() == p.version {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("version %d is not confirmed, only %d", p.version, p.n.loop.Confirmed())
}

// tries returns the number of tries of the application's rings at both targets.
func (p *pauses) tries(application string) (n int) {
	for _, r := range p.n.rungs() {
		if r.application == application {
			n++
		}
	}
	return n
}

// An application is paused under load. After the confirmation none of its rings is tried, until it is resumed. Then
// each of its alarms rings once. The other application rings on time.
func TestPausedApplicationRingsNothingAfterTheConfirmation(t *testing.T) {
	withPauses(t, func(cfg *nodeConfig) { smallHeap(cfg, 400) }, func(t *testing.T, p *pauses) {
		p.n.target.slow(20 * time.Millisecond)
		ids, others := p.n.setEvery("orders", 2000, 5*time.Millisecond), p.n.setEvery("bank", 2000, 5*time.Millisecond)
		time.Sleep(5 * time.Second)
		p.set("orders", true)
		p.awaitConfirmed(t)
		before := p.tries("orders")
		time.Sleep(30 * time.Second)
		if after := p.tries("orders"); before == 0 || after != before {
			t.Errorf("%d rings before the confirmation, %d later", before, after)
		}
		p.n.wantRungOnce(others, 500*time.Millisecond)
		for _, id := range ids {
			if a := p.n.db.get(id); a.State != clock.Rung &&
				(a.State != clock.Scheduled || a.RetryTimes != 0 || a.InDoubt) {
				t.Fatalf("alarm %s is %+v", a.Key, a.RingRow)
			}
		}
		p.set("orders", false)
		time.Sleep(30 * time.Second)
		p.n.wantRungOnce(ids, time.Minute)
	})
}

// A batch that was handed out before the pause ends. The loop confirms the pause only after it.
func TestPauseIsConfirmedAfterTheBatchesUnderWay(t *testing.T) {
	withPauses(t, nil, func(t *testing.T, p *pauses) {
		p.n.target.slow(1500 * time.Millisecond)
		ids := p.n.setMany("orders", 10, time.Second)
		time.Sleep(1200 * time.Millisecond)
		p.set("orders", true)
		time.Sleep(time.Second)
		if p.n.loop.Confirmed() == p.version {
			t.Error("the pause is confirmed while a batch is under way")
		}
		p.awaitConfirmed(t)
		p.n.wantRungOnce(ids, 5*time.Second)
	})
}

// Tries in doubt wait too while their application is paused, also those at a former target.
func TestPausedApplicationKeepsItsDoubt(t *testing.T) {
	for _, moves := range []bool{false, true} {
		withPauses(t, nil, func(t *testing.T, p *pauses) {
			p.n.target.respond("orders", clock.Doubtful)
			ids := p.n.setMany("orders", 30, time.Second)
			time.Sleep(10 * time.Second)
			if moves {
				p.move("orders")
				time.Sleep(2 * time.Second)
			}
			p.set("orders", true)
			p.awaitConfirmed(t)
			before := p.tries("orders")
			p.n.target.respond("orders", clock.Confirmed)
			time.Sleep(2 * time.Minute)
			if after := p.tries("orders"); before == 0 || after != before {
				t.Errorf("%d tries before the confirmation, %d later", before, after)
			}
			p.set("orders", false)
			time.Sleep(time.Minute)
			for _, id := range ids {
				if a := p.n.db.get(id); a.State != clock.Rung {
					t.Errorf("alarm %s is %s", a.Key, a.State)
				}
			}
			wantOneMessageIDPerAlarm(t, p.n.rungs())
		})
	}
}

// An alarm of a paused application expires at its latest_ring_at, with the reason.
func TestAlarmsOfAPausedApplicationExpire(t *testing.T) {
	withPauses(t, nil, func(t *testing.T, p *pauses) {
		p.set("orders", true)
		p.awaitConfirmed(t)
		var ids []int64
		for i := range 20 {
			ids = append(ids,
				p.n.set("orders", fmt.Sprint(i), time.Second,
					func(s *clock.Set) { s.LatestRingAt = s.RingAt.Add(5 * time.Second) }))
		}
		time.Sleep(30 * time.Second)
		for _, id := range ids {
			if a := p.n.db.get(id); a.State != clock.Expired || a.LastError != clock.ReasonExpired {
				t.Errorf("alarm %s is %s: %s", a.Key, a.State, a.LastError)
			}
		}
	})
}

// A process whose settings may be old starts no claim.
func TestHeldProcessStartsNoClaim(t *testing.T) {
	var hold atomic.Bool
	hold.Store(true)
	cfg := defaultNode()
	cfg.hold = hold.Load
	inBubble(t, cfg, func(t *testing.T, n *node) {
		ids := n.setMany("orders", 100, time.Second)
		time.Sleep(10 * time.Second)
		if len(n.rungs()) > 0 {
			t.Errorf("%d rings", len(n.rungs()))
		}
		hold.Store(false)
		time.Sleep(5 * time.Second)
		n.wantRungOnce(ids, 15*time.Second)
	})
}
