package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	finishedRows = 1_000_000
	dueRows      = 1_000
)

// testPlans looks at the hot statements with a million finished alarms beside a thousand due ones.
func testPlans(t *testing.T, e Engine) {
	if testing.Short() {
		t.Skip("fills a database with a million rows")
	}
	db := e.New(t)
	f := &fixture{t: t, db: db, Store: db.Open(t), lease: defaultLease, dialect: e.Dialect}
	ok(t, f.Migrate(t.Context()), "migrate")
	ok(t, f.Check(t.Context()), "check")
	finished := finishedRows
	if underRace && e.Dialect == goose.DialectSQLite3 {
		finished /= 50
	}
	begin := time.Now()
	f.fill(finished, 6, "NULL", fmt.Sprintf("%d + n", t0))
	f.fill(dueRows, 1, fmt.Sprintf("%d + n", t0), "NULL")
	t.Logf("%d rows in %s", finished+dueRows, time.Since(begin).Round(time.Millisecond))

	f.quick("due", func() {
		page, err := f.Due(t.Context(), store.DueQuery{Shards: f.shards(), Until: store.Position{Time: clock.MaxInstant}, Limit: 100})
		ok(t, err, "due")
		same(t, "due rows", len(page.Rows), dueRows)
	})
	f.quick("overdue", func() {
		o, err := f.Overdue(t.Context(), clock.MaxInstant, f.shards(), 5000)
		ok(t, err, "overdue")
		same(t, "overdue", o, store.Overdue{Count: dueRows, Oldest: t0})
	})
	f.quick("list", func() {
		a := f.list(clock.ListQuery{Application: "plan", Prefix: "s6-1001", Limit: 10})
		same(t, "listed", len(a), 10)
	})
	f.quick("purge", func() {
		n, err := f.Purge(t.Context(), t0+100, 100)
		ok(t, err, "purge")
		same(t, "purged", n, 100)
	})
	f.quick("claim", func() {
		ids := make([]int64, 300)
		page, err := f.Due(t.Context(), store.DueQuery{Shards: f.shards(), Until: store.Position{Time: clock.MaxInstant}, Limit: 100})
		ok(t, err, "due")
		for i := range ids {
			ids[i] = page.Rows[i].ID
		}
		same(t, "rings", len(f.claim(t0+5000, ids...).Rings), len(ids))
	})
	f.quick("expire", func() {
		same(t, "expired", len(f.expireAll(t0+5000, 5000)), 0)
	})
	e.Plans(t, db)
}

// quick demands that do takes no time in which a million rows could be worked through, on a busy machine too; Plans looks closer.
func (f *fixture) quick(what string, do func()) {
	f.t.Helper()
	limit := time.Second
	if underRace {
		limit *= 10
	}
	begin := time.Now()
	do()
	if took := time.Since(begin); took > limit {
		f.t.Errorf("%s took %s beside a million finished alarms", what, took)
	} else {
		f.t.Logf("%s: %s", what, took.Round(10*time.Microsecond))
	}
}

// fill inserts n rows of application "plan" in one state, in SQL that all engines understand: a row for each number that the
// cross join of digits makes. The expressions may use n.
func (f *fixture) fill(n, state int, nextTry, finished string) {
	f.t.Helper()
	empty := "''" // a blob: not the same literal everywhere
	if f.dialect == goose.DialectSQLite3 {
		empty = "x''"
	}
	const columns = `application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at,
		next_try_time, max_rings, priority, create_time, update_time, finished_at`
	digits := "(SELECT 0 AS d" + strings.Repeat(" UNION ALL SELECT %d", 9) + ")"
	digits = fmt.Sprintf(digits, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	from := strings.Join(slices.Collect(func(yield func(string) bool) {
		for i := 4; i >= 0; i-- { // the outermost first, so that n grows
			if !yield(fmt.Sprintf("%s AS d%d", digits, i)) {
				return
			}
		}
	}), " CROSS JOIN ")
	for start := 0; start < n; start += 100_000 {
		numbers := fmt.Sprintf("SELECT d0.d + 10*d1.d + 100*d2.d + 1000*d3.d + 10000*d4.d + %d AS n FROM %s", start, from)
		f.exec(`INSERT INTO alarm (%s) SELECT 'plan', concat('s%d-', 1000000 + n), n %% 64, %d, 1, %s, 0, 'text/plain', %d, %s, 10, 0, %d, %d, %s
			FROM (%s) AS numbers WHERE n < %d`, columns, state, state, empty, t0, nextTry, t0, t0, finished, numbers, n)
	}
}
