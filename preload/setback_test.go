package preload

import (
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// commitElsewhere puts a row into the table like another node that sends no wake-up, because the row is due past its
// window.
func (r *rig) commitElsewhere(id int64, due clock.Instant) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.table.rows[id] = store.Due{ID: id, NextTryTime: due, Rank: store.Rank(store.Named{}, 0), Shard: int(id % 3),
		Application: "a"}
}

// load lets every loader read until there is nothing more to read, without a sweep.
func (r *rig) load(t *testing.T) {
	t.Helper()
	for _, l := range r.loaders {
		for more := true; more; {
			l.lastSweep = time.Now()
			var err error
			if more, err = l.read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The database's clock is set back by minutes. The loaders read rows past their window before these are due, without a
// sweep. Entries stay in the heap, and rows before the window's end are not read a second time.
func TestClockSetBackLoadsRowsBeforeTheyAreDue(t *testing.T) {
	cfg := testConfig()
	r := newRig(t, cfg, 1<<20, allShards(3))
	r.assign(assignment{shards: r.ownership.Shards()})
	now, _ := r.time.AtLeast()
	r.commitElsewhere(1, now.Add(-time.Minute))
	r.commitElsewhere(2, now.Add(cfg.Window-time.Second))
	r.load(t)
	const back = 5 * time.Minute
	r.time.add(-back)
	now, _ = r.time.AtLeast()
	r.load(t) // loaders also step when there is nothing to read
	for i := range int64(500) {
		r.commitElsewhere(10+i, now.Add(cfg.Window+time.Second).Add(time.Duration(i)*100*time.Millisecond))
	}
	for passed := time.Duration(0); passed < 2*cfg.Window; passed += time.Second {
		r.time.add(time.Second)
		r.load(t)
		now, _ = r.time.AtLeast()
		var late []int64
		for id, d := range r.table.rows {
			if _, inHeap := r.heap.get(id); !inHeap && d.NextTryTime <= now {
				late = append(late, id)
			}
		}
		if slices.Sort(late); late != nil {
			t.Fatalf("%s after the clock was set back, %d rows are due and not loaded", passed, len(late))
		}
	}
	if _, inHeap := r.heap.get(2); !inHeap {
		t.Error("an earlier entry is gone")
	}
	if n := counter(t, r.reg, "clockd_preload_rows_total"); n > 502 {
		t.Errorf("%v rows were read, want at most 502", n)
	}
}
