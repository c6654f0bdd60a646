package ring_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// wantBlockers checks the reasons why alarms of an application wait. Each want is a code, and a part of the detail
// after a blank.
func (n *node) wantBlockers(application string, wants ...string) {
	n.t.Helper()
	got := n.loop.Blockers(store.Addressee{Application: application})
	if len(got) != len(wants) {
		n.t.Fatalf("%s: blockers %+v, want %q", application, got, wants)
	}
	for i, want := range wants {
		code, detail, _ := strings.Cut(want, " ")
		if string(got[i].Code) != code || !strings.Contains(got[i].Detail, detail) {
			n.t.Errorf("%s: blocker %+v, want %q", application, got[i], want)
		}
	}
}

func TestBlockersSayWhyDueAlarmsWait(t *testing.T) {
	var stale atomic.Bool
	cfg := defaultNode()
	cfg.hold = stale.Load
	cfg.hasNoRoute = func(application string) bool { return application == "lost" }
	inBubble(t, cfg, func(_ *testing.T, n *node) {
		n.target.update(func() { n.target.absent["absent"] = true })
		n.target.respond("unbound", clock.Returned)
		for _, application := range []string{"well", "absent", "unbound", "lost"} {
			n.set(application, "1", time.Second)
		}
		n.wantBlockers("well")
		n.wantBlockers("unbound") // it is not tried yet
		n.wantBlockers("absent", "no_receiver no receiver of the model")
		n.wantBlockers("lost", "no_target")
		time.Sleep(1010 * time.Millisecond)
		n.wantBlockers("unbound", "failing returned")
		time.Sleep(20 * time.Second)
		n.wantBlockers("unbound", "held clockd tries one due alarm of the application every 1s: returned")
		n.wantBlockers("well")
		n.target.setDown(errDown)
		synctest.Wait()
		n.wantBlockers("well", "target_down "+errDown.Error())
		n.target.setDown(nil)
		stale.Store(true)
		n.wantBlockers("well", "node settings")
		stale.Store(false)
		n.target.respond("unbound", clock.Confirmed)
		time.Sleep(20 * time.Second)
		n.wantBlockers("unbound")
		n.loop.Reroute(func(store.Addressee) *ring.Route { return ring.PausedRoute },
			[]store.Addressee{{Application: "well"}})
		synctest.Wait()
		n.wantBlockers("well", "paused paused")
	})
}

// A worker that has finished its rings comes back soon, so the target accepts its application. But it does not ask for
// rings now.
func TestAlarmsOfWorkersThatDoNotAskAreBlocked(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		n.wantBlockers("shop", "no_receiver no worker has asked")
		ctx, leave := context.WithCancel(n.ctx)
		n.workers.Go(func() { n.reserve(ctx, "shop", 1, 0) })
		synctest.Wait()
		n.wantBlockers("shop")
		leave()
		n.workers.Wait()
		n.wantBlockers("shop", "no_receiver no worker asks")
	})
}
