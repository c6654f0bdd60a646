package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is by how much the heap may grow, at least, before it is collected. What lives in it is little, 5 to 30 MiB, and
// Go's default of as much again would collect some fifty times a second under load.
const heapRoom = 40 << 20

// goPercent is Go's own default, of which nothing is taken away: a heap of more than heapRoom is collected as ever.
const goPercent = 100

// collector sets GOGC after every collection, so that the heap may grow by heapRoom until the next.
type collector struct {
	samples []metrics.Sample
	percent int
}

// paceCollector takes effect for the life of the process, unless the operator has set GOGC. A GOMEMLIMIT holds with it.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collector{percent: goPercent, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	c.adjust()
}

// adjust sets the percentage for the next collection, and comes again after it: a sentinel dies in each.
func (c *collector) adjust() {
	metrics.Read(c.samples)
	live, roots := c.samples[0].Value.Uint64(), c.samples[1].Value.Uint64()+c.samples[2].Value.Uint64()
	if p := percentFor(live, roots); differs(p, c.percent) {
		debug.SetGCPercent(p)
		c.percent = p
	}
	runtime.AddCleanup(new([64]byte), (*collector).adjust, c)
}

// percentFor returns the GOGC that leaves heapRoom above so much that lives, or the default if that leaves more. Go counts the
// percentage from all that it scans, the roots too.
func percentFor(live, roots uint64) int {
	const least = 4 << 20 // the smallest heap that Go collects
	return max(goPercent, int(heapRoom*100/max(live+roots, least)))
}

// differs reports whether a change is worth stopping the world for, which SetGCPercent does.
func differs(a, b int) bool { return a != b && (a == goPercent || 10*max(a-b, b-a) > b) }
