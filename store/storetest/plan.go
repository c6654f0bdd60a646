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

// testPlans runs the hot statements on a million finished alarms and a thousand due ones.
func testPlans(t *testing.T, e Engine) {
	db := e.New(t)
	f := &fixture{t: t, db: db, Store: db.Open(t), timeout: claimTimeout, dialect: e.Dialect}
	ok(t, f.Migrate(t.Context()), "migrate")
	ok(t, f.Check(t.Context()), "check")
	finished := finishedRows
	switch {
	case underRace && e.Dialect == goose.DialectSQLite3:
		finished /= 50
	case partly(): // TestSoakStoreApart has all
		finished /= 10
	}
	begin := time.Now()
	f.insertRows(finished, 6, "NULL", fmt.Sprintf("%d + n", t0))
	f.insertRows(dueRows, 1, fmt.Sprintf("%d + n", t0), "NULL")
	t.Logf("%d rows in %s", finished+dueRows, time.Since(begin).Round(time.Millisecond))

	f.logDuration("due", func() {
		page, err := f.Due(t.Context(),
			store.DueQuery{Shards: f.shards(), Until: store.Position{Time: clock.MaxInstant}, Limit: 100})
		ok(t, err, "due")
		same(t, "due rows", len(page.Rows), dueRows)
	})
	f.logDuration("overdue", func() {
		o, err := f.Overdue(t.Context(), clock.MaxInstant, f.shards(), 5000)
		ok(t, err, "overdue")
		same(t, "overdue", o, store.Overdue{Count: dueRows, Oldest: t0})
	})
	f.logDuration("list", func() {
		a := f.list(clock.ListQuery{Application: "plan", Prefix: "s6-1001", Limit: 10})
		same(t, "listed", len(a), 10)
	})
	f.logDuration("purge", func() {
		n, err := f.Purge(t.Context(), t0+100, t0+100, 100)
		ok(t, err, "purge")
		same(t, "purged", n, 100)
	})
	f.logDuration("claim", func() {
		ids := make([]int64, 300)
		page, err := f.Due(t.Context(),
			store.DueQuery{Shards: f.shards(), Until: store.Position{Time: clock.MaxInstant}, Limit: 100})
		ok(t, err, "due")
		for i := range ids {
			ids[i] = page.Rows[i].ID
		}
		same(t, "rings", len(f.claim(t0+5000, ids...).Rings), len(ids))
	})
	f.logDuration("expire", func() {
		same(t, "expired", len(f.expireAll(t0+5000, 5000)), 0)
	})
	e.Plans(t, db)
}

// logDuration runs do and logs its duration. Only Plans judges, because a duration means nothing on a busy machine.
func (f *fixture) logDuration(what string, do func()) {
	f.t.Helper()
	begin := time.Now()
	do()
	f.t.Logf("%s: %s", what, time.Since(begin).Round(10*time.Microsecond))
}

// insertRows inserts n rows of application "plan" in one state, with SQL that all engines accept. A cross join of
// digits yields the number n of each row. The expressions nextTry and finished may use n.
func (f *fixture) insertRows(n, state int, nextTry, finished string) {
	f.t.Helper()
	empty := "''" // literals of empty blobs differ between engines
	if f.dialect == goose.DialectSQLite3 {
		empty = "x''"
	}
	id, columns := "", `application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at,
		next_try_time, max_rings, priority, create_time, update_time, finished_at`
	if f.distributed { // the database makes no ids there: an id tells its shard (engine.ShardOfID)
		id, columns = fmt.Sprintf("64 * (%d + n) + n %% 64, ", 1_000_000*(state+1)), "id, "+columns
	}
	digits := "(SELECT 0 AS d" + strings.Repeat(" UNION ALL SELECT %d", 9) + ")"
	digits = fmt.Sprintf(digits, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	from := strings.Join(slices.Collect(func(yield func(string) bool) {
		for i := 4; i >= 0; i-- { // the outermost digit first, so that n grows
			if !yield(fmt.Sprintf("%s AS d%d", digits, i)) {
				return
			}
		}
	}), " CROSS JOIN ")
	for start := 0; start < n; start += 100_000 {
		numbers := fmt.Sprintf("SELECT d0.d + 10*d1.d + 100*d2.d + 1000*d3.d + 10000*d4.d + %d AS n FROM %s", start,
			from)
		f.exec(`INSERT INTO alarm (%s) SELECT %s'plan', concat('s%d-', 1000000 + n), n %% 64, %d, 1, %s, 0, 'text/plain', %d, %s, 10, 0, %d, %d, %s
			FROM (%s) AS numbers WHERE n < %d`, columns, id, state, state, empty, t0, nextTry, t0, t0, finished, numbers, n)
	}
}
