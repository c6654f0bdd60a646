package preload

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// restrictedApplication is the application whose rows the heap leaves out.
const restrictedApplication = "restricted"

// commit puts rows of an application into the table, due one a millisecond. It sends no wake-up.
func (r *rig) commit(application string, first int64, count int, due clock.Instant) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for i := range int64(count) {
		id := first + i
		r.table.rows[id] = store.Due{ID: id, NextTryTime: due + clock.Instant(i), Rank: store.Rank(store.Named{}, 0),
			Shard: int(id % 3), Application: application}
	}
}

// backlogRig returns a rig with one loader, whose heap leaves out the rows of restrictedApplication. It also returns
// the rig's time.
func backlogRig(t *testing.T, owner Ownership) (*rig, clock.Instant) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Loaders = 1
	r := newRig(t, cfg, 1<<20, owner)
	r.heap.restricted[restrictedApplication] = true
	now, _ := r.time.AtLeast()
	return r, now
}

const (
	backlogRows = 20_000
	firstOther  = int64(1_000_000) // lowest id of other applications' rows
)

// A restricted application has a backlog. The first page brings the other alarms that are recent or come due. Other
// applications' older rows in the backlog follow. The database reads past the restricted application's rows.
func TestBacklogDelaysNoOtherAlarm(t *testing.T) {
	r, now := backlogRig(t, allShards(3))
	r.commit(restrictedApplication, 1, backlogRows, now.Add(-10*time.Minute))
	r.commit("a", firstOther, 5, now.Add(-10*time.Minute).Add(15*time.Second))
	r.commit("a", firstOther+5, 5, now.Add(-time.Second))
	r.commit("a", firstOther+10, 5, now.Add(time.Second))
	r.assign(assignment{shards: r.ownership.Shards()})
	l := r.loaders[0]
	l.lastSweep = time.Now()
	if _, err := l.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	inHeap := func(first int64) bool { _, found := r.heap.get(first + 4); return found }
	if !inHeap(firstOther+5) || !inHeap(firstOther+10) || l.progress.shardsWithGaps() != 3 {
		t.Errorf("after the first page: recent rows in heap %t, coming rows %t, %d shards with a backlog",
			inHeap(firstOther+5), inHeap(firstOther+10), l.progress.shardsWithGaps())
	}
	r.load(t)
	if !inHeap(firstOther) || l.progress.shardsWithGaps() != 0 {
		t.Errorf("in the end: old rows in heap %t, %d shards with a backlog", inHeap(firstOther),
			l.progress.shardsWithGaps())
	}
	if r.table.rowsRead > backlogRows/10 {
		t.Errorf("%d rows were read beside a backlog of %d", r.table.rowsRead, backlogRows)
	}
}

// One sweep finds recent rows of other applications beside a restricted application's backlog. It also finds them among
// thousands of recent rows of the restricted application.
func TestSweepFindsRecentRowsBesideBacklog(t *testing.T) {
	for _, flood := range []int{0, 5000} {
		t.Run(fmt.Sprintf("flood of %d", flood), func(t *testing.T) {
			r, now := backlogRig(t, allShards(3))
			r.commit(restrictedApplication, 1, backlogRows, now.Add(-time.Hour))
			r.assign(assignment{shards: r.ownership.Shards()})
			r.load(t)
			r.commit(restrictedApplication, backlogRows+1, flood, now.Add(-5*time.Second))
			r.commit("a", firstOther, 5, now.Add(-3*time.Second))
			r.commit("a", firstOther+5, 5, now.Add(-10*time.Millisecond))
			l := r.loaders[0]
			l.lastSweep = time.Time{}
			if _, err := l.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			for id := firstOther; id < firstOther+10; id++ {
				if _, inHeap := r.heap.get(id); !inHeap {
					t.Errorf("the sweep missed %d", id-firstOther)
				}
			}
		})
	}
}

// Thousands of recent rows of one application are in the heap. A sweep finds another application's new row beside them,
// in few pages.
func TestSweepFindsNewRowsBesideThousandsInHeap(t *testing.T) {
	r, now := backlogRig(t, allShards(3))
	r.commit("b", 1, backlogRows, now.Add(-5*time.Second))
	r.assign(assignment{shards: r.ownership.Shards()})
	r.load(t)
	l := r.loaders[0]
	sweep := func() (reads int) {
		l.lastSweep, reads = time.Time{}, r.table.reads
		if _, err := l.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.table.reads - reads
	}
	sweep()
	r.time.add(time.Second)
	now, _ = r.time.AtLeast()
	r.commit("a", firstOther, 5, now.Add(-100*time.Millisecond))
	if reads := sweep(); reads > 5 {
		t.Errorf("%d reads for one sweep", reads)
	}
	if _, inHeap := r.heap.get(firstOther); !inHeap {
		t.Error("the sweep missed the row that came due since the last sweep")
	}
}

// A gained shard is read from the beginning, and the other shards are not read again. For a gained application few
// other rows are read. Lost shards and lost applications cause no read.
func TestOnlyGainedShardsAndApplicationsAreReadAgain(t *testing.T) {
	o := &fakeOwnership{shards: []int{0, 1}, changed: make(chan struct{})}
	r, now := backlogRig(t, o)
	o.rungElsewhere = "a"
	r.commit(restrictedApplication, 1, backlogRows, now.Add(-time.Hour))
	r.commit("b", firstOther, 30, now.Add(-time.Hour))
	r.commit("a", 2*firstOther, 30, now.Add(-time.Hour))
	change := func(change func()) (asked []store.DueQuery, read int) {
		o.change(change)
		before := r.table.rowsRead
		r.table.asked = nil
		gained, applications := o.Gained()
		r.assign(assignment{o.Shards(), gained, applications})
		r.load(t)
		return r.table.asked, r.table.rowsRead - before
	}
	change(func() {})
	asked, _ := change(func() { o.shards = []int{0, 1, 2} })
	for _, q := range asked {
		if !slices.Equal(q.Shards, []int{2}) {
			t.Errorf("after shard 2 was gained: %+v", q)
		}
	}
	if _, inHeap := r.heap.get(firstOther + 1); len(asked) == 0 || !inHeap { // a row of shard 2
		t.Errorf("%d reads after shard 2 was gained, its row is in the heap: %t", len(asked), inHeap)
	}
	if asked, _ := change(func() { o.shards = []int{0, 2} }); len(asked) > 0 {
		t.Errorf("after shard 1 was lost: %+v", asked)
	}
	asked, read := change(func() { o.rungElsewhere = "" })
	if _, inHeap := r.heap.get(2 * firstOther); !inHeap || read > backlogRows/10 {
		t.Errorf("after an application was gained: its row is in the heap: %t, %d rows read in %d reads", inHeap, read,
			len(asked))
	}
	if asked, _ := change(func() { o.rungElsewhere = "a" }); len(asked) > 0 {
		t.Errorf("after an application was lost: %+v", asked)
	}
}

// Refresh lets the loaders read the recent and the coming alarms again, and not the backlog.
func TestRefreshReadsNoBacklog(t *testing.T) {
	r, now := backlogRig(t, allShards(3))
	r.commit("b", 1, 1000, now.Add(-time.Hour))
	r.assign(assignment{shards: r.ownership.Shards()})
	r.load(t)
	r.commit("a", firstOther, 3, now.Add(time.Second))
	before := r.table.rowsRead
	r.Refresh()
	r.load(t)
	if _, inHeap := r.heap.get(firstOther); !inHeap || r.table.rowsRead-before != 3 {
		t.Errorf("the coming alarm is in the heap: %t, %d rows read", inHeap, r.table.rowsRead-before)
	}
}

// Loaders are given gained applications at most once a second. The first one goes to them at once, and none is lost.
func TestGainedApplicationsReachLoadersOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fakeOwnership{shards: []int{0}, changed: make(chan struct{})}
		r, _ := backlogRig(t, o)
		a := assigner{lastGiven: time.Now().Add(-time.Hour)}
		r.assign(assignment{shards: o.shards})
		r.load(t)
		gains := func() int {
			applications := map[string]bool{}
			for to := range r.loaders[0].progress.behind.gainedAddressees {
				applications[to.Application] = true
			}
			return len(applications)
		}
		gain := func(application string) {
			o.change(func() { o.gainedApplications = append(o.gainedApplications, application) })
			a.step(r.Preloader)
		}
		gain("a")
		if gains() != 1 || a.timer != nil {
			t.Errorf("%d gained applications at once, want the first one", gains())
		}
		time.Sleep(300 * time.Millisecond)
		gain("b")
		gain("c")
		if gains() != 1 || a.timer == nil {
			t.Errorf("%d gained applications within a second", gains())
		}
		<-a.timer
		a.step(r.Preloader)
		if gains() != 3 || time.Since(a.lastGiven) != 0 {
			t.Errorf("%d gained applications in the end", gains())
		}
	})
}
