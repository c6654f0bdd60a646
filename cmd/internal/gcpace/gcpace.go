package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is the least growth of the heap between two collections, in bytes. The live heap is small, 5 to 30 MiB. Go's
// default, a growth by 100 %, would collect it about fifty times a second under load.
const heapRoom = 40 << 20

// goPercent is Go's default for GOGC. It stays the minimum: a live heap larger than heapRoom is collected as without
// this package.
const goPercent = 100

// leastLimit is the smallest soft memory limit in bytes. The percentage of a small heap is large, and it still holds
// for the first collection that finds a large heap: without a limit, a flood of requests would let the heap grow to
// several times its live size.
const leastLimit = 160 << 20

// collector sets GOGC and the soft memory limit after every collection.
type collector struct {
	samples []metrics.Sample
	percent int
	limit   int64 // 0: the operator has set it
}

// Start paces the collector for the life of the process. It does nothing if the operator has set GOGC. A GOMEMLIMIT
// stays in force.
func Start() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collector{percent: goPercent, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	if os.Getenv("GOMEMLIMIT") == "" {
		c.limit = leastLimit
		debug.SetMemoryLimit(leastLimit)
	}
	c.adjust()
}

// adjust sets GOGC and the limit for the next collection. It runs again after that collection, as the cleanup of an
// object that nothing refers to.
func (c *collector) adjust() {
	metrics.Read(c.samples)
	live, roots := c.samples[0].Value.Uint64(), c.samples[1].Value.Uint64()+c.samples[2].Value.Uint64()
	if p := percentFor(live, roots); differs(p, c.percent, goPercent) {
		debug.SetGCPercent(p)
		c.percent = p
	}
	if l := limitFor(live, roots); c.limit != 0 && differs(l, c.limit, leastLimit) {
		debug.SetMemoryLimit(l)
		c.limit = l
	}
	runtime.AddCleanup(new([64]byte), (*collector).adjust, c)
}

// percentFor returns the GOGC that leaves heapRoom above the live heap, or the default if that leaves more. Both
// arguments are bytes; Go applies the percentage to the live heap and the roots.
func percentFor(live, roots uint64) int {
	const least = 4 << 20 // the smallest heap that Go collects
	return max(goPercent, int(heapRoom*100/max(live+roots, least)))
}

// limitFor returns the soft memory limit of the process in bytes: twice the live heap and the roots.
func limitFor(live, roots uint64) int64 { return max(leastLimit, 2*int64(live+roots)) } //nolint:gosec // no process holds so much

// differs reports whether a new value is worth its price: to set it stops the world.
func differs[T int | int64](a, b, least T) bool {
	return a != b && (a == least || 10*max(a-b, b-a) > b)
}
