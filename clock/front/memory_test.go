package front

import (
	"testing"

	"pgregory.net/rapid"
)

// TestMemoryKeepsEachShare takes and gives memory at random. Each class can always take its share, and all classes
// together never have more than the total.
func TestMemoryKeepsEachShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory(DefaultConfig())
		for range 50 {
			c := Class(rapid.IntRange(0, int(classCount)-1).Draw(rt, "class"))
			n := int64(rapid.IntRange(0, 20<<20).Draw(rt, "bytes"))
			if rapid.Bool().Draw(rt, "give") {
				m.Give(c, min(n, m.InUse(c)))
				continue
			}
			within := m.InUse(c)+n <= m.reserved[c]
			if took := m.Take(c, n); within && !took {
				rt.Fatalf("%s: %d bytes within its share are refused", classNames[c], n)
			}
			var all int64
			for c := range classCount {
				all += m.InUse(c)
			}
			if all > m.total {
				rt.Fatalf("%d bytes of %d are taken", all, m.total)
			}
		}
	})
}
