package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// An application is paused under load of two nodes. After the command has answered, no ring of it starts, also not when
// one node is killed. After the resume each alarm rings.
func TestPausedApplicationDoesNotRing(t *testing.T) {
	t.Parallel()
	const whilePaused = 50
	forCluster(t, "mariadb", func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.awaitShares("two nodes", 32, 32)
		got := b.receive("shop")
		steady(one, two)
		eventually(t, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		if out := application(t, databaseURL, "pause", "shop"); !strings.Contains(out, "every node has confirmed") {
			t.Errorf("pause prints %s", out)
		}
		for i := range whilePaused { // on a busy machine all others may have rung before the command answered
			one.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("while paused ", i)),
				map[string]any{"delay": 0})
		}
		waiting := one.inState("shop", clock.Scheduled)
		two.kill()
		one.awaitShares("after the kill", 64)
		if details := one.details("paused", statusWarning); len(details) != 1 || !strings.Contains(details[0], "shop") {
			t.Errorf("readiness: %q", details)
		}
		one.must(http.StatusCreated, http.MethodPut, alarmPath("bank", "1"), map[string]any{"delay": 0})
		awaitRung(t, b.receive("bank"), 1)
		eventually(t, "all alarms are due",
			func() bool { return one.metric("clockd_preload_overdue_alarms") >= float64(waiting) })
		if now := one.inState("shop", clock.Scheduled); waiting < whilePaused || now != waiting {
			t.Errorf("%d alarms waited after the command, %d wait now", waiting, now)
		}
		application(t, databaseURL, "resume", "shop")
		one.requireInDoubt(awaitRungOnTime(t, got, steadyCount+whilePaused))
		eventually(t, "readiness has no warning", func() bool { return len(one.details("paused", statusOK)) == 1 })
	})
}

// A build that does not know pauses of applications writes a row without the number of settings. The command names the
// node.
func TestPauseNamesNodesThatCannotConfirm(t *testing.T) {
	t.Parallel()
	databaseURL := postgres(t)
	p := startOn(t, databaseURL, nil)
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "1"), map[string]any{"delay": 0})
	if _, err := openDatabase(t, databaseURL).Exec("INSERT INTO node (incarnation, name, address, version, started, expires, applications) VALUES ('x', 'old', '', 'v0', 1, 99999999999999, '')"); err != nil {
		t.Fatal(err)
	}
	out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, "application", "pause", "shop",
		"--wait=1s").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `node "old" (x) runs build v0, which cannot confirm it`) {
		t.Errorf("%v: %s", err, out)
	}
}
