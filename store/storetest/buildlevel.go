package storetest

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// requireBuildLevel sets the oldest build level that may work on the database. The caller must set it back.
func (f *fixture) requireBuildLevel(oldest int64) {
	f.t.Helper()
	f.exec("UPDATE build_level SET oldest = %d", oldest)
}

// testBuildLevel raises the oldest build level above this build's level. From the next statement on, this build claims,
// writes, expires, purges and renews nothing. It may still settle its open claim. No alarm is lost: once the level is
// back, all calls work again.
func testBuildLevel(t *testing.T, f *fixture) {
	f.set(t0, set("rung", t0), set("due", t0), set("once", t0, atMostOnce), set("moved", t0.Add(time.Hour)),
		set("finished", t0+1),
		set("late", t0, latestRingAt(t0+1)))
	f.set(t0, cancel("finished"))
	leasingNode := node("a", t0+2000)
	f.heartbeat(leasingNode, 0)
	same(t, "taken", f.take(leasingNode, t0, 3), []int{3})
	claimed := f.claim(t0, f.get("rung").ID).wantRings(f.get("rung").ID)
	before := map[string]clock.Alarm{}
	for _, id := range []string{"due", "once", "moved", "finished", "late"} {
		before[id] = *f.get(id)
	}

	f.requireBuildLevel(store.BuildLevel() + 1)
	defer f.requireBuildLevel(store.BuildLevel())
	claimed.settle(t0, everyRing(clock.Confirmed))
	same(t, "state of the claimed alarm", f.get("rung").State, clock.Rung)
	same(t, "oldest build level", f.cluster().OldestBuild, store.BuildLevel()+1)
	for _, once := range []bool{false, true} {
		r := f.request(t0+5, before["due"].ID, before["once"].ID, before["late"].ID)
		r.AtMostOnce = once
		c, err := f.tryClaim(r)
		if err == nil && len(c.Rings)+len(c.Ended) > 0 || err != nil && !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("a claim of a build that is too old: %v", err)
			if err == nil && len(c.Rings) > 0 {
				c.release() // without it, Close would wait for the claim's end
			}
		}
	}
	for what, op := range map[string]clock.Op{
		"a new alarm": set("new", t0), "a set to another time": set("moved", t0+7),
		"a set of a finished alarm": set("finished", t0),
		"a cancel":                  cancel("due"), "a brief cancel": {Cancel: &clock.Cancel{Key: key("moved"), Brief: true}},
	} {
		if _, err := f.tryWrite(t0+5, op); !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	page, err := f.Expire(t.Context(), t0+5, f.shards(), store.Position{}, 100)
	if len(page.Ended) > 0 || err != nil && !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("expired %v, %v", page.Ended, err)
	}
	if n, err := f.Purge(t.Context(), t0+5000, t0+5000, 100); n > 0 ||
		err != nil && !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("purged %d, %v", n, err)
	}
	leasingNode.Expires = t0 + 9000
	_ = f.Attend(t.Context(), leasingNode, 0)
	same(t, "lease's end", f.cluster().Leases[3].Expires, t0+2000)
	if _, err := f.Get(t.Context(), key("new")); !errors.Is(err, clock.ErrNotFound) {
		t.Errorf("an alarm was set: %v", err)
	}
	for _, a := range before {
		f.want(a)
	}
	if err := f.Check(t.Context()); !errors.Is(err, store.ErrOldBuild) || errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	f.requireBuildLevel(store.BuildLevel())
	ok(t, f.Check(t.Context()), "check")
	f.set(t0+5, set("new", t0))
	same(t, "rings", len(f.claim(t0+5, before["due"].ID, before["late"].ID).Rings), 1)
}

// sideBySide matches the line that every migration must have in its header.
var sideBySide = regexp.MustCompile(`(?m)^-- side by side: (yes|no), because \S`)

// testSideBySide demands that each migration says whether previous builds may work beside it. If they may not, it must
// raise the level.
func testSideBySide(t *testing.T, e Engine) {
	for _, m := range migrationsOf(t, e) {
		match := sideBySide.FindStringSubmatch(m.Header)
		if match == nil {
			t.Errorf("migration %s does not say in its header \"-- side by side: yes|no, because ...\"", m.Name)
			continue
		}
		raises := strings.HasPrefix(m.Up[0], "UPDATE build_level SET oldest = ")
		if raises != (match[1] == "no") {
			t.Errorf("migration %s says side by side: %s, and raises the build level first: %t", m.Name, match[1],
				raises)
		}
	}
}
