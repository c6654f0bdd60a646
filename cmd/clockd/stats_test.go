package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

// TestStatsAreThoseOfAllNodes rings at one node and reads the figures at the others, also after the first has ended.
func TestStatsAreThoseOfAllNodes(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			a, b := startNamed(t, "a", databaseURL, nil), startNamed(t, "b", databaseURL, nil)
			rings := a.listen("shop")
			a.set("shop", "order-", 3, func(int) time.Time { return time.Now() })
			eventually(t, "the alarms ring", func() bool { return rings.number() == 3 })
			demandStats(t, b, "hour", "a b")
			if err := a.terminate(); err != nil {
				t.Fatal(err)
			}
			demandStats(t, b, "hour", "b")
			c := startNamed(t, "c", databaseURL, nil)
			demandStats(t, c, "day", "b c")
		})
	}
}

// TestStatsOutliveARestart rings, and reads the figures after a restart on the same file.
func TestStatsOutliveARestart(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := startNamed(t, "a", databaseURL, nil)
	rings := p.listen("shop")
	p.set("shop", "order-", 3, func(int) time.Time { return time.Now() })
	eventually(t, "the alarms ring", func() bool { return rings.number() == 3 })
	if err := p.terminate(); err != nil {
		t.Fatal(err)
	}
	p = startNamed(t, "a", databaseURL, nil)
	demandStats(t, p, "hour", "a")
	demandStats(t, p, "day", "a")
	out, code := typed(t, []string{"CLOCKD_SERVER=" + p.url}, "stats", "--range", "day", "--application", "shop")
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 27 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "FROM  SETS") ||
		!strings.Contains(lines[25], "Nodes: a") || strings.Contains(out, "without") {
		t.Errorf("clockd stats: exit code %d, printed\n%s", code, out)
	}
}

// demandStats waits until a node has the figures of three sets and rings of shop, from these nodes.
func demandStats(t *testing.T, p *process, of, nodes string) {
	t.Helper()
	c, err := client.New(p.url)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(column []int64) (n int64) {
		for _, v := range column {
			n += v
		}
		return n
	}
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the last figures:", last)
		}
	})
	eventually(t, "the nodes write their steps", func() bool {
		for _, application := range []string{"", "shop", "bank"} {
			s, err := c.Stats(t.Context(), client.StatsQuery{Range: of, Application: application})
			if err != nil {
				last = err.Error()
				return false
			}
			want := int64(3)
			if application == "bank" {
				want = 0
			}
			late := slices.ContainsFunc(s.LatenessP99, func(d time.Duration) bool { return d >= 0 })
			last = fmt.Sprint(s.Nodes, s.Missing, sum(s.Sets), sum(s.Rings), late)
			if strings.Join(s.Nodes, " ") != nodes || len(s.Missing) > 0 ||
				sum(s.Sets) != want || sum(s.Rings) != want || late != (want > 0) {
				return false
			}
		}
		return true
	})
}
