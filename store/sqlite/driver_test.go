package sqlite

import (
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
	"github.com/clockd/clockd/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestStore(t *testing.T)      { storetest.Run(t, testedEngine()) }
func TestStoreApart(t *testing.T) { storetest.RunApart(t, testedEngine()) }
func TestStoreAlone(t *testing.T) { storetest.RunAlone(t, testedEngine()) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, testedEngine()) }

func testedEngine() storetest.Engine {
	return storetest.Engine{
		Dialect:     goose.DialectSQLite3,
		Migrations:  migrations(),
		Allocations: 18,
		New: func(tb testing.TB) *storetest.Database {
			path := filepath.Join(tb.TempDir(), "clockd test 100%.db")
			return &storetest.Database{
				Open: func(tb testing.TB) store.Store { return newStore(tb, path) },
				Log:  func(tb testing.TB, log *slog.Logger) store.Store { return newLogged(tb, path, log) },
				SQL:  rawSQL(tb, path),
			}
		},
		Unreachable: func(tb testing.TB) store.Store {
			return newStore(tb, filepath.Join(tb.TempDir(), "missing", "clockd.db"))
		},
		Plans: assertPlans,
	}
}

func newStore(tb testing.TB, path string) *opened {
	tb.Helper()
	return newLogged(tb, path, nil)
}

// migrated returns a store whose file has the schema and was checked.
func migrated(tb testing.TB, path string) *opened {
	tb.Helper()
	s := newStore(tb, path)
	if err := errors.Join(s.Migrate(tb.Context()), s.Check(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	return s
}

func newLogged(tb testing.TB, path string, log *slog.Logger) *opened {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = scheme+path, time.Minute // a busy machine may take longer than the default
	d, err := newDriver(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := d.newStore(Deps{Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return &opened{Store: s, d: d}
}

// opened is a store and its driver.
type opened struct {
	*engine.Store
	d *Driver
}

// rawSQL opens the file as another program would.
func rawSQL(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite",
		"file:"+strings.ReplaceAll(path, "%",
			"%25")+"?_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// assertPlans asserts that each hot statement searches its index, and that no plan scans the table alarm.
func assertPlans(t *testing.T, db *storetest.Database) {
	for _, c := range []struct {
		name, query string
		args        []any
		want        []string // the index searches of the plan, in order
	}{
		{"due", dbsqlc.ListDue, []any{1, 2, 2, 0, 0, 3, 4, 4, 0, 0, 5, 6},
			[]string{"SEARCH alarm USING COVERING INDEX alarm_due (shard=? AND next_try_time>? AND next_try_time<?)"}},
		{"overdue", dbsqlc.CountDue, []any{"[1,2,3]", 2, 3},
			[]string{
				"SEARCH a USING COVERING INDEX alarm_due (shard=? AND next_try_time<?)",
				"SEARCH a USING COVERING INDEX alarm_due (shard=? AND next_try_time<?)",
			}},
		{"due by time", dbsqlc.CountDueByTime, []any{0, 1000, 1, "plan", 3, 10, 5},
			[]string{"SEARCH a USING COVERING INDEX alarm_due (shard=? AND next_try_time>? AND next_try_time<?)",
				"USE TEMP B-TREE FOR GROUP BY"}},
		{"list", dbsqlc.ListAlarms, []any{"plan", "a", "b", "[1]", 10},
			[]string{"SEARCH alarm USING INDEX alarm_key (application=? AND business_id>? AND business_id<?)"}},
		{"list, attention", dbsqlc.ListAttention, []any{"plan", 5, "a", "b", 10},
			[]string{"SEARCH alarm USING COVERING INDEX alarm_attention (application=? AND state=? AND business_id>? AND business_id<?)"}},
		{"next application with attention", dbsqlc.NextAttentionApplication, []any{"p"},
			[]string{"SEARCH alarm USING COVERING INDEX alarm_attention (application>?)"}},
		{"count attention", dbsqlc.CountAttention, []any{"plan", 5, 10},
			[]string{"SEARCH alarm USING COVERING INDEX alarm_attention (application=? AND state=?)"}},
		{"acts on an alarm", dbsqlc.ListActsOn, []any{"plan", "a", 10, 10},
			[]string{"SEARCH audit USING INDEX audit_subject (application=? AND subject=? AND id<?)"}},
		{"list, repeating", dbsqlc.ListRepeating, []any{"plan", "a", "b", 10},
			[]string{"SEARCH alarm USING INDEX alarm_repeating (application=? AND business_id>? AND business_id<?)"}},
		{"next repeating application", dbsqlc.NextRepeatingApplication, []any{"p"},
			[]string{"SEARCH alarm USING INDEX alarm_repeating (application>?)"}},
		{"rules", dbsqlc.ListRules, []any{"plan", 10}, []string{"SEARCH alarm USING INDEX alarm_repeating (application=?)"}},
		{"count repeating", dbsqlc.CountRepeating, []any{"plan", 10},
			[]string{"SEARCH a USING INDEX alarm_repeating (application=?)"}},
		{"list, bound", dbsqlc.ListBound, []any{"plan", "a", "b", 10},
			[]string{"SEARCH alarm USING COVERING INDEX alarm_key (application=? AND business_id>? AND business_id<?)"}},
		{"next applications", dbsqlc.NextApplications, []any{`["p"]`},
			[]string{"SEARCH a USING COVERING INDEX alarm_key (application>?)", "USE TEMP B-TREE FOR ORDER BY"}},
		{"count states", dbsqlc.CountStates, []any{"plan", 10},
			[]string{"SEARCH a USING INDEX alarm_key (application=?)", "USE TEMP B-TREE FOR GROUP BY"}},
		{"get", dbsqlc.GetAlarm, []any{"plan", "a"},
			[]string{"SEARCH alarm USING INDEX alarm_key (application=? AND business_id=?)"}},
		{"cancel", dbsqlc.CancelScheduled, []any{1, 1, "plan", `["a","b"]`},
			[]string{"SEARCH alarm USING INDEX alarm_key (application=? AND business_id=?)"}},
		{"claim, look", dbsqlc.LockDue, []any{4096, "[1,2,3]", 5},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"claim, take", dbsqlc.TakeTwoPhase, []any{1, 5, 6, "[1,2,3]"},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"claim, take once", dbsqlc.TakeOnce, []any{"c", 6, "[1,2,3]"},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"settle", dbsqlc.SettleAlarms, make([]any, 19), []string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"amend", dbsqlc.AmendAlarms, make([]any, 21), []string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"zoned", dbsqlc.ListZoned, []any{"Europe/Berlin", 5, 10},
			[]string{"SEARCH zoned_alarm USING COVERING INDEX zoned_alarm_zone (time_zone=? AND alarm_id>?)"}},
		{"keys", dbsqlc.ListKeys, []any{"[1,2,3]"}, []string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"list ids", dbsqlc.ListIDs, []any{1, 50}, []string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid>?)"}},
		{"mark due alarms", dbsqlc.DoubtDue, []any{"r", 5, "[1,2,3]"},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"raise generations", dbsqlc.RaiseGenerations, []any{1, "[1,2,3]", 5},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"raise attempts", dbsqlc.RaiseAttempts, []any{1, "[1,2,3]", 5}, []string{
			"SEARCH ring_attempt USING COVERING INDEX ring_attempt_alarm (alarm_id=?)",
			"SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
		}},
		{"expire", dbsqlc.ListEnding, []any{"[1,2,3]", 5},
			[]string{"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"purge", dbsqlc.PurgeAlarms, []any{5, 6, 7}, []string{
			"SEARCH alarm USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH f USING INDEX alarm_finished (finished_at<?)",
		}},
		{"attempts", dbsqlc.ListAttempts, []any{1, 2},
			[]string{"SEARCH ring_attempt USING INDEX ring_attempt_alarm (alarm_id=?)"}},
		{"prune", dbsqlc.PruneAttempts, []any{1, 2}, []string{
			"SEARCH ring_attempt USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH r USING COVERING INDEX ring_attempt_alarm (alarm_id=?)",
		}},
	} {
		var steps []string
		for _, s := range explain(t, db.SQL, c.query, c.args) {
			if strings.Contains(s, "VIRTUAL TABLE") { // json_each
				continue
			}
			if strings.Contains(s, "INDEX") || strings.Contains(s, "PRIMARY KEY") || strings.HasPrefix(s, "SCAN a") ||
				strings.Contains(s, "TEMP B-TREE") {
				steps = append(steps, s)
			}
		}
		if !slices.Equal(steps, c.want) {
			t.Errorf("plan of %s:\n%s\nwant\n%s", c.name, strings.Join(steps, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// explain returns the steps of a query's plan.
func explain(t *testing.T, db *sql.DB, query string, args []any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
