package preload

import (
	"slices"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// recordingAnnouncer is an Announcer that records the ids of the last rows.
type recordingAnnouncer struct {
	mu  sync.Mutex
	ids []int64
}

func (a *recordingAnnouncer) Announce(rows []store.Due) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = nil
	for _, d := range rows {
		a.ids = append(a.ids, d.ID)
	}
}

// Rows that this node commits are announced, whoever rings them. Ended alarms and rows of other nodes are not.
func TestCommittedRowsAreAnnounced(t *testing.T) {
	r := newRig(t, testConfig(), 1000, allShards(1))
	r.load(t)
	r.assign(assignment{shards: []int{0}})
	r.load(t)
	want := func(what string, want ...int64) {
		t.Helper()
		if !slices.Equal(r.announced.ids, want) {
			t.Errorf("%s: %v are announced, want %v", what, r.announced.ids, want)
		}
		r.announced.ids = nil
	}
	r.write(1, 1_000_500)
	want("set", 1)
	r.write(1, clock.NoInstant)
	want("cancelled")
	r.Offer([]store.Due{{ID: 5, Shard: 2, NextTryTime: 1_000_700, Application: "a"},
		{ID: 6, NextTryTime: 1_000_700, Application: "a"}})
	want("due again", 5, 6)
	r.Take([]store.Due{{ID: 300, NextTryTime: 1_000_500, Rank: 3, Application: "b"},
		{ID: 301, Shard: 1, NextTryTime: 1_000_500, Application: "b"}})
	want("committed by another node")
	if d, inHeap := r.heap.get(300); !inHeap || d.Rank != 3 || d.NextTryTime != 1_000_500 {
		t.Errorf("the row of another node is %+v, in heap: %t", d, inHeap)
	}
	if _, inHeap := r.heap.get(301); inHeap {
		t.Error("a row of another node's shard is in the heap")
	}
}
