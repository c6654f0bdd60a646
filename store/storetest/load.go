package storetest

import (
	"testing"

	"github.com/clockd/clockd/clock"
)

// testLoadLimit demands that a group loads at most LoadBytes of payloads and postpones the other ops. A brief cancel
// loads none.
func testLoadLimit(t *testing.T, f *fixture) {
	const rows, maxLoad = 24, 256 << 10
	ids := f.together(names("large", rows)...)
	f.set(t0, sets(ids, t0, payload(make([]byte, clock.DefaultMaxPayload)))...)
	cancels, again := make([]clock.Op, rows), make([]clock.Op, rows)
	for i, id := range ids {
		cancels[i] = cancel(id)
		again[i] = clock.Op{Cancel: &clock.Cancel{Key: key(id), Brief: true}}
	}
	groups := 0
	for remaining := cancels; len(remaining) > 0; groups++ {
		ds, err := f.Write(t.Context(),
			clock.WriteRequest{Now: t0, Ops: remaining, LoadBytes: maxLoad, LargestPayload: clock.DefaultMaxPayload})
		ok(t, err, "write")
		var later []clock.Op
		loaded := 0
		for i, d := range ds {
			loaded += len(d.Alarm.Payload)
			if d.Verdict == clock.Postpone {
				later = append(later, remaining[i])
			} else {
				same(t, "verdict", d.Verdict, clock.Disarm)
			}
		}
		if loaded > maxLoad || len(later) == len(remaining) {
			t.Fatalf("a group of %d ops loaded %d bytes and postponed %d ops", len(remaining), loaded, len(later))
		}
		remaining = later
	}
	same(t, "groups", groups, rows*clock.DefaultMaxPayload/maxLoad)
	ds, err := f.Write(t.Context(),
		clock.WriteRequest{Now: t0 + 1, Ops: again, LoadBytes: maxLoad, LargestPayload: clock.DefaultMaxPayload})
	ok(t, err, "cancel again")
	for _, d := range ds {
		same(t, "verdict on a repeated cancel", d.Verdict, clock.Keep)
		same(t, "payload of a brief cancel", len(d.Alarm.Payload), 0)
	}
}
