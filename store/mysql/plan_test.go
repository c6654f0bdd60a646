package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
	"github.com/clockd/clockd/store/storetest"
)

// hotStatement is one statement as the store runs it, with the required plan. The table has a million finished rows and
// a thousand due rows.
type hotStatement struct {
	name  string
	run   func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error
	index string // index that reads the table alarm
	only  bool   // the statement reads the index alone, and fetches no row
	reads int    // upper bound of the index entries and rows that are read
}

const planEnd = int64(clock.MaxInstant)

// planDue asks for the first due rows of each shard.
func planDue(shards []int) *store.DueQuery {
	return &store.DueQuery{Shards: shards, From: store.Position{Time: 1, Rank: 1, ID: 1},
		Until: store.Position{Time: clock.MaxInstant}, Limit: 5}
}

func hotStatements(ids []int64, keys []clock.Key) []hotStatement {
	shards := make([]int, 64)
	numbers := make([]int64, 64)
	for i := range shards {
		shards[i], numbers[i] = i, int64(i)
	}
	all := engine.Column(clock.States(), func(state *clock.State) int64 { return int64(*state) })
	packed := []any{"1 1 1 0 0 0 -1 1 1", "2 1 1 0 0 0 -1 1 1"}
	return []hotStatement{
		{"due", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.due(ctx, db, planDue(shards))
			return err
		}, "alarm_due", true, 64 * (5 + 2)}, // two of the three ranges are empty here
		{"due: except", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			b := dueBulk(db, planDue(shards), "nobody/0,no-one/0", 5)
			_, err := s.q.ListDueExcept(ctx, b, dbsqlc.ListDueExceptParams{})
			return err
		}, "alarm_due", true, 64 * (5 + 2)},
		{"due: only", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			b := dueBulk(db, planDue(shards), "plan/0,no-one/0", 5)
			_, err := s.q.ListDueOnly(ctx, b, dbsqlc.ListDueOnlyParams{})
			return err
		}, "alarm_due", true, 64 * (5 + 2)},
		{"due: of an application", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			b := dueBulk(db, planDue(shards), "plan", 5)
			_, err := s.q.ListDueOfApplication(ctx, b, dbsqlc.ListDueOfApplicationParams{})
			return err
		}, "alarm_due", true, 64 * (5 + 2)},
		{"due: end", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListDueEnd(ctx, dueBulk(db, planDue(shards), "", 4), dbsqlc.ListDueEndParams{})
			return err
		}, "alarm_due", true, 64 * (5 + 2)},
		{"overdue", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.CountDue(ctx, db, dbsqlc.CountDueParams{Shards: numbers, Now: planEnd, Limit: 500})
			return err
		}, "alarm_due", true, 500 + 65},
		{"due by time", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.CountDueByTime(ctx, db,
				dbsqlc.CountDueByTimeParams{Step: 1000, Shard: 3, FromTime: sql.NullInt64{Valid: true},
					UntilTime: engine.ToNull(clock.MaxInstant), Limit: 10})
			return err
		}, "alarm_due", true, 40}, // the entries, and the rows of the derived and the temporary table
		{"pending", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.CountPending(ctx, db, 3)
			return err
		}, "alarm_due", true, 60}, // the entries, and the rows of the temporary table
		{"oldest", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListOldest(ctx, bulk{DBTX: db, rows: 64, args: oldestArgs(numbers, clock.MaxInstant)},
				dbsqlc.ListOldestParams{})
			return err
		}, "alarm_due", true, 64},
		{"claim: lock", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockDue(ctx, db, dbsqlc.LockDueParams{Build: store.BuildLevel(), Ids: ids, Now: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"claim: take", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.TakeHeld(ctx, lastRepeated{db, packed}, dbsqlc.TakeHeldParams{
				Build: store.BuildLevel(),
				Now:   planEnd, ClaimID: "c", Ids: ids, Generation: 1, OldState: 1, Unrung: 1, Others: ids[:2],
			})
			return err
		}, "PRIMARY", false, len(ids)},
		{"claim: take once", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.TakeOnce(ctx, lastRepeated{db, packed}, dbsqlc.TakeOnceParams{
				Build:   store.BuildLevel(),
				ClaimID: "c", Now: planEnd, Ids: ids, Generation: 1, OldState: 1, Unrung: 1, Others: ids[:2],
			})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: lock once", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockOnce(ctx, db, dbsqlc.LockOnceParams{Ids: ids, ClaimID: "c", UpdateTime: 1})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: read once", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockOnce(ctx, plainRead{db}, dbsqlc.LockOnceParams{Ids: ids, ClaimID: "c", UpdateTime: 1})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: lock awaited", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockAwaited(ctx, db, dbsqlc.LockAwaitedParams{Ids: ids, UpdateTime: 1})
			return err
		}, "PRIMARY", false, len(ids)},
		{"claim: payloads", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListPayloads(ctx, db, ids)
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: lock two-phase", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockTwoPhase(ctx, db, dbsqlc.LockTwoPhaseParams{Ids: ids, ClaimEnd: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: lost", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListLost(ctx, db, dbsqlc.ListLostParams{Ids: ids, ClaimEnd: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle: finish", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ConfirmAlarms(ctx, db,
				dbsqlc.ConfirmAlarmsParams{RungAt: 1, ClaimID: "c", Ids: ids, Generation: 1, ClaimEnd: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"claim: lease", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.TakeTwoPhase(ctx, lastRepeated{db, packed}, dbsqlc.TakeTwoPhaseParams{
				Build:    store.BuildLevel(),
				ClaimEnd: 1, Now: planEnd, Ids: ids, Generation: 1, OldState: 1, Unrung: 1, Others: ids[:2],
			})
			return err
		}, "PRIMARY", false, len(ids)},
		{"settle", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			args := settleArgs.Of(len(ids), func(i int, row *engine.Row) {
				row.SetRing(ids[i], 1, &clock.RingRow{State: clock.Scheduled, LastError: "x"})
			})
			_, err := s.q.SettleAlarms(ctx, bulk{DBTX: db, rows: len(ids), args: args}, dbsqlc.SettleAlarmsParams{})
			return err
		}, "PRIMARY", false, 3 * len(ids)},
		{"lock", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockAlarms(ctx, bulk{DBTX: db, rows: len(keys), args: keyArgs(keys)})
			return err
		}, "alarm_key", false, len(keys)},
		{"read", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ReadAlarms(ctx, bulk{DBTX: db, rows: len(keys), args: keyArgs(keys)})
			return err
		}, "alarm_key", false, len(keys)},
		{"cancel", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.CancelAlarms(ctx, db,
				dbsqlc.CancelAlarmsParams{Build: store.BuildLevel(), Now: 1, Ids: ids, Generation: 1, OldState: 1})
			return err
		}, "PRIMARY", false, len(ids)},
		{"list", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListAlarms(ctx, db, dbsqlc.ListAlarmsParams{
				Application: "plan", After: "s6-1000500", Prefix: "s6-1", RangeEnd: "s6-2", States: all, Limit: 50,
			})
			return err
		}, "alarm_key", false, 51},
		{"list: bound", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListBound(ctx, db,
				dbsqlc.ListBoundParams{Application: "plan", After: "s6-1000500", Prefix: "s6-1", RangeEnd: "s6-2",
					Offset: 499})
			return err
		}, "alarm_key", true, 501},
		{"next application", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			b := bulk{DBTX: db, rows: 2, args: []any{0, "p", 1, "q"}}
			_, err := s.q.NextApplications(ctx, b, dbsqlc.NextApplicationsParams{})
			return err
		}, "alarm_key", true, 2},
		{"count states", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.CountStates(ctx, db, dbsqlc.CountStatesParams{Application: "plan", Limit: 50})
			return err
		}, "alarm_key", false, 120}, // the rows, and those of the derived table
		{"expire", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListEnding(ctx, db, dbsqlc.ListEndingParams{Ids: ids, Now: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"list ids", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListIDs(ctx, db, dbsqlc.ListIDsParams{After: ids[0], Limit: 50})
			return err
		}, "PRIMARY", false, 50},
		{"mark due alarms", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.DoubtDue(ctx, db, dbsqlc.DoubtDueParams{Reason: "r", Now: planEnd, Ids: ids})
			return err
		}, "PRIMARY", false, len(ids)},
		{"raise generations", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.RaiseGenerations(ctx, db, dbsqlc.RaiseGenerationsParams{ByCount: 1, Now: planEnd, Ids: ids})
			return err
		}, "PRIMARY", false, len(ids)},
		{"purge: list", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			b := bulk{DBTX: db, rows: 64, args: finishedArgs(64, clock.MaxInstant, 100)}
			_, err := s.q.ListFinished(ctx, b, dbsqlc.ListFinishedParams{Limit_2: 100})
			return err
		}, "alarm_due", true, 64 * 10},
		{"purge: lock", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockFinished(ctx, db,
				dbsqlc.LockFinishedParams{Build: store.BuildLevel(), Ids: ids, Earlier: planEnd, Settled: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
		{"lock briefly", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockAlarmsBriefly(ctx, bulk{DBTX: db, rows: len(keys), args: keyArgs(keys)})
			return err
		}, "alarm_key", false, len(keys)},
		{"wait", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.LockAlarmsWaiting(ctx, bulk{DBTX: db, rows: len(keys), args: keyArgs(keys)})
			return err
		}, "alarm_key", false, len(keys)},
		{"rewrite", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			args := rewriteArgs.Of(len(ids), func(i int, row *engine.Row) {
				row.SetAlarm(&clock.Alarm{ID: ids[i], Generation: 2, RingRow: clock.RingRow{State: clock.Scheduled}})
			})
			b := bulk{DBTX: db, rows: len(ids), args: args}
			_, err := s.q.RewriteAlarms(ctx, b, dbsqlc.RewriteAlarmsParams{OldState: 1, Build: store.BuildLevel()})
			return err
		}, "PRIMARY", false, 3 * len(ids)},
		{"amend", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			args := amendArgs.Of(len(ids), func(i int, row *engine.Row) {
				row.SetAlarm(&clock.Alarm{ID: ids[i], Generation: 1, RingRow: clock.RingRow{State: clock.Scheduled}})
			})
			b := bulk{DBTX: db, rows: len(ids), args: args}
			_, err := s.q.AmendAlarms(ctx, b, dbsqlc.AmendAlarmsParams{OldState: 1, Build: store.BuildLevel()})
			return err
		}, "PRIMARY", false, 3 * len(ids)},
		{"keys", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.ListKeys(ctx, db, ids)
			return err
		}, "PRIMARY", false, len(ids)},
		{"purge: delete", func(ctx context.Context, s *Driver, db dbsqlc.DBTX) error {
			_, err := s.q.PurgeAlarms(ctx, db, dbsqlc.PurgeAlarmsParams{Ids: ids, Earlier: planEnd, Settled: planEnd})
			return err
		}, "PRIMARY", false, len(ids)},
	}
}

// checkPlans asserts the plans, and counts the entries that the statements really read.
func checkPlans(t *testing.T, db *storetest.Database) {
	ctx := t.Context()
	s := db.Open(t).(*opened).d
	_, err := db.SQL.ExecContext(ctx, "ANALYZE TABLE alarm")
	ok(t, err, "analyze")
	rows, err := db.SQL.QueryContext(ctx, "SELECT id, business_id FROM alarm WHERE state = 1 ORDER BY id LIMIT 300")
	ok(t, err, "list due ids")
	defer func() { _ = rows.Close() }()
	var ids []int64
	var keys []clock.Key
	for rows.Next() {
		var id int64
		k := clock.Key{Application: "plan"}
		ok(t, rows.Scan(&id, &k.BusinessID), "scan an id")
		ids, keys = append(ids, id), append(keys, k)
	}
	ok(t, rows.Err(), "list due ids")
	many := slices.Clone(keys)
	for i := range 700 { // with so many keys MariaDB would use a join by default
		many = append(many, clock.Key{Application: "plan", BusinessID: "unknown" + strings.Repeat("x", i%50)})
	}
	for _, h := range hotStatements(ids, many) {
		t.Run(h.name, func(t *testing.T) { h.check(t, s) })
	}
}

// TestSmallTableIsReadByIndex: a table of a few rows is not read whole either, although that would be the cheapest
// plan. Locking statements would then wait for unrelated rows.
func TestSmallTableIsReadByIndex(t *testing.T) {
	s := migrated(t)
	ops := setsOf("small", 6, t0, nil)
	ids := write(t, s, clock.Create, ops)
	write(t, s, clock.Disarm, cancelsOf(ops[3:]))
	_, err := s.d.db.ExecContext(t.Context(), "ANALYZE TABLE alarm")
	ok(t, err, "analyze")
	keys := []clock.Key{ops[0].Key(), ops[1].Key(), ops[5].Key()}
	for n := 2; n <= 6; n++ {
		for _, h := range hotStatements(ids[:n], keys) {
			if !h.only { // reading an index locks nothing
				t.Run(fmt.Sprint(h.name, " ", n), func(t *testing.T) { h.check(t, s.d) })
			}
		}
	}
}

func (h hotStatement) check(t *testing.T, s *Driver) {
	ctx := t.Context()
	tx, err := s.begin(ctx, s.writes)
	ok(t, err, "begin")
	defer tx.rollback(ctx)
	e := &explainer{DBTX: tx}
	_ = h.run(ctx, s, e)
	ok(t, e.err, "explain")
	if len(e.plan) == 0 {
		t.Error("the plan does not read alarm")
	}
	for _, p := range e.plan {
		if p["key"] != h.index || p["type"] == "index" || p["type"] == "ALL" {
			t.Errorf("alarm is read by key %q, type %q; not a range of %q", p["key"], p["type"], h.index)
		}
		if h.only && !strings.Contains(p["Extra"], "Using index") {
			t.Errorf("%s is not enough: %q", h.index, p["Extra"])
		}
		if strings.Contains(p["Extra"], "filesort") {
			t.Errorf("sorted: %q", p["Extra"])
		}
	}
	before := handlerReads(t, tx)
	ok(t, h.run(ctx, s, tx), "run")
	if reads := handlerReads(t, tx) - before; reads > h.reads+1 { // reading the counters adds one
		t.Errorf("%d entries read, not at most %d", reads, h.reads)
	}
}

// explainer is a DBTX that explains statements instead of running them.
type explainer struct {
	dbsqlc.DBTX
	all  bool                // the plan has rows about other tables too
	plan []map[string]string // rows of the plan about the table alarm, by column
	err  error
}

func (e *explainer) explain(ctx context.Context, query string, args []any) {
	rows, err := e.DBTX.QueryContext(ctx, "EXPLAIN FORMAT=TRADITIONAL "+query, args...)
	if e.err = err; err != nil {
		return
	}
	defer func() { _ = rows.Close() }()
	names, _ := rows.Columns()
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if e.err = rows.Scan(into...); e.err != nil {
			return
		}
		p := make(map[string]string)
		for i, n := range names {
			p[n] = values[i].String
		}
		if e.all || p["table"] == "alarm" || p["table"] == "a" {
			e.plan = append(e.plan, p)
		}
	}
	e.err = rows.Err()
}

// ExecContext explains.
func (e *explainer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	e.explain(ctx, query, args)
	return nil, sql.ErrNoRows
}

// QueryContext explains.
func (e *explainer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	e.explain(ctx, query, args)
	return nil, sql.ErrNoRows
}

// QueryRowContext explains.
func (e *explainer) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	e.explain(ctx, query, args)
	return e.DBTX.QueryRowContext(ctx, "SELECT 1")
}

// handlerReads returns how many entries the session has read by index.
func handlerReads(t *testing.T, db dbsqlc.DBTX) int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(),
		"SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_first')")
	ok(t, err, "show status")
	defer func() { _ = rows.Close() }()
	sum := 0
	for rows.Next() {
		var name string
		var n int
		ok(t, rows.Scan(&name, &n), "scan a counter")
		sum += n
	}
	ok(t, rows.Err(), "show status")
	return sum
}
