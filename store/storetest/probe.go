package storetest

import (
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// testWriteProbe demands that write probes, many at once too, leave no rows behind. A probe may use up its id.
func testWriteProbe(t *testing.T, f *fixture) {
	before := f.set(t0, set("before", t0))[0]
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() { ended <- f.ProbeWrite(t.Context(), t0) }()
	}
	for range cap(ended) {
		select {
		case err := <-ended:
			ok(t, err, "probe")
		case <-time.After(time.Minute):
			t.Fatal("a probe does not end")
		}
	}
	ids := make([]int64, 100)
	for i := range ids {
		ids[i] = before + int64(i)
	}
	keys, err := f.Keys(t.Context(), ids)
	ok(t, err, "keys")
	same(t, "alarms", len(keys), 1)
	page, err := f.Due(t.Context(), store.DueQuery{
		Shards: f.shards(), Until: store.Position{Time: clock.MaxInstant}, Limit: 10,
	})
	ok(t, err, "due")
	same(t, "due alarms", len(page.Rows), 1)
}
