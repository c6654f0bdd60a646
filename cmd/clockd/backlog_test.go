package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// The backlog of one application without a target must not delay other applications. These tests compare the number of
// rows that were read before the other applications rang. A duration would depend on the machine.

const (
	// smallBacklog is the size of a backlog for tests of every change. Soak tests have a larger one.
	smallBacklog = 60_000
	// restartBacklog is larger than what a node reads within the seconds after its start.
	restartBacklog = 200_000
	// silent is the application of the backlog. It has neither a subscriber nor a queue.
	silent = "silent"
)

// overdue inserts alarms of an application into the database without clockd. The first alarm is due at begin, each next
// alarm a step later.
func overdue(
	t *testing.T, db *sql.DB, databaseURL, application string, count int, begin time.Time, step time.Duration,
) {
	t.Helper()
	payload := "'\\x'::bytea"
	if parse(t, databaseURL).Scheme == "mysql" {
		payload = "''"
	}
	us := step.Microseconds()
	const digits = "SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9"
	statement := fmt.Sprintf(`INSERT INTO alarm (application, business_id, shard, state, generation, payload, payload_kind, content_type,
			target_ring_at, next_try_time, max_rings, priority, create_time, update_time)
		WITH d AS (%s), r AS (SELECT a.n + 10*b.n + 100*c.n + 1000*e.n + 10000*f.n + 100000*g.n AS n
			FROM d a CROSS JOIN d b CROSS JOIN d c CROSS JOIN d e CROSS JOIN d f CROSS JOIN d g)
		SELECT '%s', CONCAT('%d-', n), n %% 64, 1, 1, %s, 0, 'application/json', %d + FLOOR(n * %d.0 / 1000), %d + FLOOR(n * %d.0 / 1000), 10, 0, 1, 1 FROM r WHERE n < %d`,
		digits, application, begin.UnixMilli(), payload, begin.UnixMilli(), us, begin.UnixMilli(), us, count)
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// leaveBacklog starts and stops clockd on the database. Then it inserts a backlog of the silent application, due in the
// last hour.
func leaveBacklog(t *testing.T, databaseURL string, b *testBroker, count int) *sql.DB {
	t.Helper()
	if err := startOn(t, databaseURL, b).terminate(); err != nil {
		t.Fatal(err)
	}
	db := openDatabase(t, databaseURL)
	overdue(t, db, databaseURL, silent, count, time.Now().Add(-time.Hour), time.Hour/time.Duration(count))
	return db
}

// Alarms are set for the past on one node, and the other node rings them by its sweep, although there is a backlog. On
// MariaDB no wake-ups pass between nodes with streams.
func TestSweepFindsAlarmsWithoutWakeUpBesideABacklog(t *testing.T) {
	t.Parallel()
	databaseURL := mariadb(t)
	db := leaveBacklog(t, databaseURL, nil, smallBacklog)
	one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
	one.awaitShares("two nodes", 32, 32)
	got := one.listen("shop")
	eventually(t, "the nodes know of the subscriber, and that the silent application has none", func() bool {
		v, err := two.nodes()
		return err == nil &&
			slices.ContainsFunc(v.Nodes, func(n nodeView) bool { return slices.Contains(n.Applications, "shop") }) &&
			one.metric(`clockd_ring_unwell_applications{health="absent"}`) == 1 &&
			one.metric("clockd_preload_backlog_shards") == 0
	})
	rung := 0
	ringMissed := func(prefix string, count int) {
		t.Helper()
		before, begun := one.metric("clockd_preload_swept_rows_total"), time.Now()
		two.set("shop", prefix, count, func(int) time.Time { return time.Now().Add(-time.Minute) })
		rung += count
		eventually(t, "all ring", func() bool { d, _ := got.byID(); return len(d) == rung })
		swept := one.metric("clockd_preload_swept_rows_total") - before
		t.Logf("%s: all rang %s after their set, the sweeps read %v rows until then", prefix,
			time.Since(begun).Round(time.Millisecond), swept)
		if swept > smallBacklog/3 { // on a busy machine there are some sweeps until the receiver has all
			t.Errorf("%s: the sweeps read %v rows of a backlog of %d before the others rang", prefix, swept,
				smallBacklog)
		}
	}
	ringMissed("backlog", 50)
	const flood = 20_000
	overdue(t, db, databaseURL, silent, flood, time.Now().Add(-5*time.Second), 5*time.Second/flood)
	ringMissed("flood", 50)
}

// restartBesideBacklog restarts clockd while the silent application has a backlog. Another application has alarms that
// became due before the restart or become due after it. They must ring before the backlog has been read.
func restartBesideBacklog(t *testing.T, databaseURL string, b *testBroker, backlog int) {
	t.Helper()
	db := leaveBacklog(t, databaseURL, b, backlog)
	const count = 600
	got := b.receive("shop")
	overdue(t, db, databaseURL, "shop", count, time.Now().Add(-3*time.Second), 10*time.Millisecond)
	begun := time.Now()
	p := startOn(t, databaseURL, b)
	eventually(t, "the others ring", func() bool { d, _ := got.byID(); return len(d) == count })
	read := p.metric("clockd_preload_rows_total")
	t.Logf("%d alarms rang %s after the start, the latest %s late, with %v rows read of a backlog of %d", count,
		time.Since(begun).Round(time.Millisecond), lateness(got.all())[count-1], read, backlog)
	if read >= float64(backlog) {
		t.Errorf("%v rows were read before the others rang, beside a backlog of %d", read, backlog)
	}
}

func TestOtherAlarmsRingBeforeABacklogIsReadAfterARestart(t *testing.T) {
	t.Parallel()
	forCluster(t, "mariadb", func(t *testing.T, databaseURL string, b *testBroker) {
		restartBesideBacklog(t, databaseURL, b, restartBacklog)
	})
}

// subscribe opens an application's stream; stop closes it.
func (p *process) subscribe(application string) (stop func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/applications/"+application+"/rings", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // stop closes it
	if err != nil {
		p.t.Fatal(err)
	}
	return func() {
		cancel()
		_ = res.Body.Close()
	}
}

// No node reads a backlog again because subscribers of other applications come and go.
func TestNewSubscribersDoNotCauseABacklogToBeReadAgain(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			leaveBacklog(t, databaseURL, nil, smallBacklog)
			one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
			one.awaitShares("two nodes", 32, 32)
			got := one.listen("shop")
			known := func(application string) {
				t.Helper()
				eventually(t, "the other node knows of a subscriber of "+application, func() bool {
					v, err := one.nodes()
					return err == nil &&
						slices.ContainsFunc(v.Nodes,
							func(n nodeView) bool { return slices.Contains(n.Applications, application) })
				})
			}
			known("shop")
			eventually(t, "the backlog is read once", func() bool {
				return one.metric("clockd_preload_backlog_shards")+two.metric("clockd_preload_backlog_shards") == 0 &&
					one.metric(`clockd_ring_unwell_applications{health="absent"}`)+two.metric(`clockd_ring_unwell_applications{health="absent"}`) == 2
			})
			rows := func() float64 {
				return one.metric("clockd_preload_rows_total") + two.metric("clockd_preload_rows_total")
			}
			moves := func() (sum int) { // how often shards have changed hands; the new owner reads the shard's backlog
				for _, epoch := range one.epochs() {
					sum += epoch
				}
				return sum
			}
			before, movesBefore := rows(), moves()
			const visits, count = 8, 200
			one.set("shop", "beside", count,
				func(i int) time.Time { return time.Now().Add(time.Second + time.Duration(i)*20*time.Millisecond) })
			for i := range visits {
				guest := fmt.Sprintf("guest-%d", i)
				two.set(guest, "held", 3, func(int) time.Time { return time.Now() })
				stop := two.subscribe(guest)
				known(guest)
				eventually(t, "the guest's alarms ring", func() bool { return two.inState(guest, clock.Rung) == 3 })
				stop()
			}
			eventually(t, "the others ring", func() bool { d, _ := got.byID(); return len(d) == count })
			read, moved := rows()-before, moves()-movesBefore
			t.Logf("%d subscribers came and went: %v rows read beside a backlog of %d; the others rang up to %s late; shards moved %d times",
				visits, read, smallBacklog, lateness(got.all())[count-1], moved)
			// on a busy machine a node may lose an ability, and its shards
			if most := float64(smallBacklog + 2*moved*smallBacklog/clock.DefaultShards); read > most {
				t.Errorf("%d subscribers had %v rows read, at most %v are allowed", visits, read, most)
			}
		})
	}
}
