package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is the least growth of the heap between two collections, in bytes. The live heap is small, 5 to 30 MiB. Go's default,
// a growth by 100 %, would collect it about fifty times a second under load.
const heapRoom = 40 << 20

// goPercent is Go's default for GOGC. It stays the minimum: a live heap larger than heapRoom is collected as without this package.
const goPercent = 100

// collector sets GOGC after every collection, so that the heap may grow by heapRoom before the next one.
type collector struct {
	samples []metrics.Sample
	percent int
}

// Start paces the collector for the life of the process. It does nothing if the operator has set GOGC. A GOMEMLIMIT stays in force.
func Start() {
	if os.Getenv("GOGC") != "" {
		return
	}
	c := &collector{percent: goPercent, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	c.adjust()
}

// adjust sets GOGC for the next collection. It runs again after that collection, as the cleanup of an object that nothing refers to.
func (c *collector) adjust() {
	metrics.Read(c.samples)
	live, roots := c.samples[0].Value.Uint64(), c.samples[1].Value.Uint64()+c.samples[2].Value.Uint64()
	if p := percentFor(live, roots); differs(p, c.percent) {
		debug.SetGCPercent(p)
		c.percent = p
	}
	runtime.AddCleanup(new([64]byte), (*collector).adjust, c)
}

// percentFor returns the GOGC that leaves heapRoom above the live heap, or the default if that leaves more. Both arguments are bytes;
// Go applies the percentage to the live heap and the roots.
func percentFor(live, roots uint64) int {
	const least = 4 << 20 // the smallest heap that Go collects
	return max(goPercent, int(heapRoom*100/max(live+roots, least)))
}

// differs reports whether a new GOGC is worth its price: SetGCPercent stops the world.
func differs(a, b int) bool { return a != b && (a == goPercent || 10*max(a-b, b-a) > b) }
