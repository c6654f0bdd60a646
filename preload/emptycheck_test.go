package preload

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// While no alarm is overdue, the loaders together read once a second. They find an overdue row within a second although
// its wake-up was lost. Then each of them sweeps its shards, until no row is overdue.
func TestIdleLoadersReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Loaders = 3
		r := newRig(t, cfg, 1000, allShards(3))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = r.Run(ctx) })
		running.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				r.time.add(10 * time.Millisecond)
			}
		})
		pages := func(kind string) float64 { return counterOf(t, r.reg, "clockd_preload_pages_total", kind) }
		// counts the pages that a duration of the loaders' work brings
		during := func(d time.Duration) (checks, sweeps float64) {
			checks, sweeps = pages(readCheck), pages(readSweep)
			time.Sleep(d)
			return pages(readCheck) - checks, pages(readSweep) - sweeps
		}
		time.Sleep(3500 * time.Millisecond)
		if checks, sweeps := during(20 * time.Second); checks != 20 || sweeps != 0 {
			t.Errorf("%v checks and %v sweeps in 20 idle seconds, want 20 and 0", checks, sweeps)
		}
		now, _ := r.time.AtLeast()
		r.commit("a", 1, 3, now.Add(-time.Second)) // one row of each shard
		time.Sleep(1100 * time.Millisecond)
		for id := range int64(3) {
			if _, found := r.heap.get(1 + id); !found {
				t.Errorf("%d is not in the heap after a second", 1+id)
			}
		}
		if checks, sweeps := during(10 * time.Second); checks != 0 || sweeps != 30 {
			t.Errorf("%v checks and %v sweeps in 10 s beside overdue rows, want 0 and 30", checks, sweeps)
		}
		r.table.mu.Lock()
		clear(r.table.rows)
		r.table.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		if checks, sweeps := during(10 * time.Second); checks != 10 || sweeps != 0 {
			t.Errorf("%v checks and %v sweeps in 10 s after the rows ended, want 10 and 0", checks, sweeps)
		}
	})
}

// A check that hangs holds up the loader that reads it, and no other loader. A check that is slow still stands for all
// loaders.
func TestSlowCheckHoldsUpNoOtherLoader(t *testing.T) {
	for name, slow := range map[string]time.Duration{"hangs": time.Hour, "slow": 700 * time.Millisecond, "a little slow": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Loaders = 3
				r := newRig(t, cfg, 1000, allShards(3))
				for _, l := range r.loaders {
					l.assign(assignment{shards: []int{l.number}})
					if _, err := l.read(t.Context()); err != nil { // sweeps and finds nothing
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				r.table.wait = slow
				now, _ := r.time.AtLeast()
				r.commit("a", 1, 3, now.Add(-time.Second)) // one row of each shard
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				begun := time.Now()
				for _, l := range r.loaders {
					running.Go(func() { _, _ = l.read(ctx) })
				}
				synctest.Wait() // one of them reads
				r.table.set(0)
				time.Sleep(300 * time.Millisecond)
				r.heap.mu.Lock()
				found := len(r.heap.rows)
				r.heap.mu.Unlock()
				if want := map[bool]int{true: 3, false: 2}[slow < 300*time.Millisecond]; found != want {
					t.Errorf("after %s %d rows were found, want %d", time.Since(begun), found, want)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// A check that began before a loader's last sweep says nothing about the time since. Nor does a check without one of
// the loader's shards.
func TestEmptyCheckIsForLaterSweepsAndReadShards(t *testing.T) {
	r := newRig(t, DefaultConfig(), 1000, allShards(3))
	c := r.loaders[0].check
	now, _ := r.time.AtLeast()
	read := func(lastSweep time.Time, shards ...int) (reads int, empty bool) {
		t.Helper()
		before := r.table.reads
		_, empty, err := c.read(t.Context(), lastSweep, now, shards)
		if err != nil {
			t.Fatal(err)
		}
		return r.table.reads - before, empty
	}
	begun := time.Now()
	if reads, empty := read(begun, 0, 1); reads != 1 || !empty {
		t.Errorf("the first check: %d reads, empty %t", reads, empty)
	}
	if reads, empty := read(begun, 2); reads != 0 || !empty {
		t.Errorf("the second loader: %d reads, empty %t", reads, empty)
	}
	if _, empty := read(begun, 2, 3); empty {
		t.Error("a shard that was not read counts as empty")
	}
	r.commit("a", 1, 1, now.Add(-time.Second))
	if reads, empty := read(time.Now(), 1); reads != 1 || empty {
		t.Errorf("after a later sweep: %d reads, empty %t", reads, empty)
	}
	r.table.fail = true
	if _, _, err := c.read(t.Context(), time.Now(), now, []int{0}); err == nil {
		t.Error("a failed read is no error")
	}
}
