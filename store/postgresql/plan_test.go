package postgresql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
	"github.com/clockd/clockd/store/storetest"
)

// hotStatement is a statement with its required plan. The table has a million finished rows and a thousand due rows.
type hotStatement struct {
	name  string
	sql   string
	args  []any
	index []string // indexes that scans may use
	only  bool     // the statement reads the index alone, and fetches no row from the table
	rows  float64  // upper bound of the rows that scans read
}

// hotStatements returns the hot statements. due is an SQL array of the ids to claim.
func hotStatements(due string) []hotStatement {
	shards := "'{" + strings.Trim(strings.Repeat("1,2,3,4,", 4), ",") + "}'"
	n := func(value string) string { return "array_fill(" + value + ", ARRAY[300])" }
	insert := []any{"'{plan,plan}'", "'{s1-7,new}'", "'{1,2}'", "'{1,1}'", "'{1,1}'", "'{a,b}'", "'{0,0}'", "'{t,t}'",
		"'{1,1}'", "'{-1,-1}'",
		"'{1,1}'", "'{a,b}'", "'{0,0}'", "'{1,1}'", "'{0,0}'", "'{a,b}'", "'{1,1}'", "'{0,1}'", "'{9,9}'",
		"'{\"\",\"\"}'", "'{\"\",\"\"}'", "'{\"\",a}'", "'{\"\",a}'"}
	amend := []any{due, n("1::bigint"), n("1"), n("0"), n("6"), n("5::bigint"), n("-1::bigint"), n("-1::bigint"),
		n("0"), n("0"), n("'r'::varchar"), n("0"),
		n("-1::bigint"), n("1"), n("'by'::varchar"), n("1::bigint"), n("1::bigint"), n("1::bigint"), n("''::varchar"),
		n("0"), n("''::varchar")}
	attempts := []any{due, n("1::bigint"), n("1"), n("'c'::varchar"), n("1::bigint"), n("2"), n("'r'::varchar"),
		n("''::varchar")}
	settle := slices.Concat(attempts,
		[]any{due, n("1::bigint"), n("1"), n("1::bigint"), n("-1::bigint"), n("''::varchar"), n("1"), n("2::bigint"),
			n("0"),
			n("1"), n("'r'::varchar"), n("0"), n("''::varchar"), n("-1::bigint"), n("1::bigint"), n("-1::bigint"), n("0"),
			n("''::varchar"), int64(1)})
	rewrite := []any{due, n("1::bigint"), n("1"), n("1"), n("2::bigint"), n("'x'::bytea"), n("1"), n("'t'::varchar"),
		n("1::bigint"), n("-1::bigint"),
		n("1::bigint"), n("0"), n("0"), n("''::varchar"), n("0"), n("''::varchar"), n("0::bigint"), n("1"), n("0"),
		n("''::varchar"), n("''::varchar"),
		n("-1::bigint"), n("1::bigint"), n("-1::bigint"), n("0"), n("9"), n("''::varchar"), n("''::varchar"),
		n("''::varchar"), n("''::varchar"), n("''::varchar")}
	version := []any{due, n("1::bigint"), n("1"), n("0"), n("0"), n("0"), n("1::bigint"), n("1::bigint")}
	end := slices.Concat(attempts,
		[]any{due, n("1::bigint"), n("1::bigint"), n("1::bigint"), n("4"), n("'r'::varchar"), n("0"),
			int64(clock.MaxInstant)})
	keys := []any{"'{plan,plan,plan}'", "'{s1-7,s1-8,s6-9}'"}
	return []hotStatement{
		{"due", dbsqlc.ListDue, []any{shards, 0, 1, 0, int64(clock.MaxInstant), 0, 0, 10}, []string{"alarm_due"}, true,
			16 * 10},
		{"due: except", dbsqlc.ListDueExcept,
			[]any{shards, 0, 1, 0, int64(clock.MaxInstant), 0, 0, "'{nobody/0,no-one/0}'", 10}, []string{"alarm_due"},
			true, 16 * 10},
		{"due: only", dbsqlc.ListDueOnly,
			[]any{shards, 0, 1, 0, int64(clock.MaxInstant), 0, 0, "'{plan/0,no-one/0}'", 10}, []string{"alarm_due"},
			true, 16 * 10},
		{"due: of an application", dbsqlc.ListDueOfApplication,
			[]any{shards, 0, 1, 0, int64(clock.MaxInstant), 0, 0, "'plan'", 10}, []string{"alarm_due"},
			true, 16 * 10},
		{"due: end", dbsqlc.ListDueEnd, []any{shards, 0, 1, 0, int64(clock.MaxInstant), 0, 0, 9}, []string{"alarm_due"},
			true, 16 * 10},
		{"overdue", dbsqlc.CountDue, []any{shards, int64(clock.MaxInstant), 100}, []string{"alarm_due"}, true,
			100 + 2*16},
		{"due by time", dbsqlc.CountDueByTime, []any{0, 1000, "true", "'plan'", 3, int64(clock.MaxInstant), 10},
			[]string{"alarm_due"}, false, 10},
		{"pending", dbsqlc.CountPending, []any{3}, []string{"alarm_due"}, true, 100},
		{"claim: lock", dbsqlc.LockDue, []any{due, int64(clock.MaxInstant)}, []string{"alarm_pkey"}, false, 301},
		{"claim: take", dbsqlc.TakeHeld, slices.Concat([]any{int64(clock.MaxInstant), "'c'"}, version),
			[]string{"alarm_pkey"}, false, 301},
		{"claim: lease", dbsqlc.TakeTwoPhase, slices.Concat([]any{0, 1, int64(clock.MaxInstant)}, version),
			[]string{"alarm_pkey"}, false, 301},
		{"lock", dbsqlc.LockAlarms, keys, []string{"alarm_key"}, false, 3},
		{"insert", dbsqlc.InsertAlarms, insert, []string{"alarm_key"}, false, 1},
		{"cancel", dbsqlc.CancelScheduled, slices.Concat([]any{1}, keys), []string{"alarm_key"}, false, 3},
		{"cancel briefly", dbsqlc.CancelScheduledBriefly, slices.Concat([]any{1}, keys), []string{"alarm_key"}, false,
			3},
		{"claim: take once", dbsqlc.TakeOnce, slices.Concat([]any{"'c'", int64(clock.MaxInstant)}, version),
			[]string{"alarm_pkey"}, false, 301},
		{"keys", dbsqlc.ListKeys, []any{due}, []string{"alarm_pkey"}, false, 301},
		{"amend", dbsqlc.AmendAlarms, amend, []string{"alarm_pkey"}, false, 300},
		{"end", dbsqlc.EndAlarms, end, []string{"alarm_pkey"}, false, 300},
		{"rewrite", dbsqlc.RewriteAlarms, rewrite, []string{"alarm_pkey"}, false, 300},
		{"settle", dbsqlc.SettleAlarms, settle, []string{"alarm_pkey"}, false, 300},
		{"prune", dbsqlc.PruneAttempts, []any{due, 20}, []string{"ring_attempt_alarm", "ring_attempt_pkey"}, false,
			300*21 + 2*300},
		{"read", dbsqlc.ReadAlarms, keys, []string{"alarm_key"}, false, 3},
		{"get", dbsqlc.GetAlarm, []any{"'plan'", "'s6-5'"}, []string{"alarm_key"}, false, 1},
		{"list", dbsqlc.ListAlarms, []any{"'plan'", "'s6-5'", "'s6-5'", "'s6-6'", "'{}'", 50}, []string{"alarm_key"},
			false, 50},
		{"list: attention", dbsqlc.ListAttention, []any{"'plan'", 5, "'s6-5'", "'s6-5'", "'s6-6'", 50},
			[]string{"alarm_attention"}, false, 50},
		{"list: repeating", dbsqlc.ListRepeating, []any{"'plan'", "'s6-5'", "'s6-5'", "'s6-6'", 50},
			[]string{"alarm_repeating"}, false, 50},
		{"next repeating application", dbsqlc.NextRepeatingApplication, []any{"'p'"}, []string{"alarm_repeating"}, false, 1},
		{"rules", dbsqlc.ListRules, []any{"'plan'", 50}, []string{"alarm_repeating"}, false, 50},
		{"count repeating", dbsqlc.CountRepeating, []any{"'plan'", 50}, []string{"alarm_repeating"}, false, 50},
		{"list: bound", dbsqlc.ListBound, []any{"'plan'", "'s6-5'", "'s6-5'", "'s6-6'", 499}, []string{"alarm_key"},
			false, 501},
		{"next application with attention", dbsqlc.NextAttentionApplication, []any{"'p'"}, []string{"alarm_attention"},
			false, 1},
		{"count attention", dbsqlc.CountAttention, []any{"'plan'", 5, 50}, []string{"alarm_attention"}, false, 50},
		{"next applications", dbsqlc.NextApplications, []any{"'{p,q}'::varchar[]"}, []string{"alarm_key"}, false, 4},
		{"next application", dbsqlc.NextApplication, []any{"'p'"}, []string{"alarm_key"}, false, 1},
		{"count states", dbsqlc.CountStates, []any{"'plan'", 50}, []string{"alarm_key"}, false, 50},
		{"list ids", dbsqlc.ListIDs, []any{1, 50}, []string{"alarm_pkey"}, false, 50},
		{"mark due alarms", dbsqlc.DoubtDue, []any{"'r'", int64(clock.MaxInstant), due}, []string{"alarm_pkey"}, false,
			300},
		{"raise generations", dbsqlc.RaiseGenerations, []any{1, due, int64(clock.MaxInstant)},
			[]string{"alarm_pkey", "ring_attempt_alarm"}, false, 300},
		{"expire", dbsqlc.ListEnding, []any{due, int64(clock.MaxInstant)}, []string{"alarm_pkey"}, false, 300},
		{"purge", dbsqlc.PurgeAlarms, []any{int64(clock.MaxInstant), int64(clock.MaxInstant), 1, 100},
			[]string{"alarm_finished", "alarm_pkey", "ring_attempt_alarm"}, false, 200},
	}
}

// checkPlans asserts the plans that a store's sessions get: custom plans, made for the arguments, and generic plans.
func checkPlans(t *testing.T, db *storetest.Database) {
	ctx := t.Context()
	s := db.Open(t).(*opened)
	vacuum(t, db.SQL)
	for _, h := range hotStatements(dueIDs(t, s)) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(h.name+"/"+mode, func(t *testing.T) {
				conn := connect(t, s)
				for _, statement := range []string{"SET plan_cache_mode = " + mode, "PREPARE hot AS " + h.sql} {
					_, err := conn.Exec(ctx, statement)
					ok(t, err, statement)
				}
				h.check(t, explain(t, conn, "hot", h.args))
			})
		}
	}
}

// vacuum vacuums and analyzes the table alarm until all its pages are all-visible. From any other page, an index-only
// scan fetches rows. VACUUM leaves out pages with rows newer than an open snapshot of this database. Autovacuum opens
// such snapshots too. A new snapshot is as old as the oldest running transaction of the server, so a page may stay out
// long after its last write.
func vacuum(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx := t.Context()
	hangs := time.After(time.Minute)
	// Without FREEZE, VACUUM may skip busy pages. Without INDEX_CLEANUP, it may leave a few dead rows and their index
	// entries for later.
	const statement = "VACUUM (FREEZE, ANALYZE, INDEX_CLEANUP ON) alarm"
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		_, err := db.ExecContext(ctx, statement)
		ok(t, err, "vacuum")
		var pages, marked int
		err = db.QueryRowContext(ctx,
			"SELECT relpages, relallvisible FROM pg_class WHERE oid = 'alarm'::regclass").Scan(&pages, &marked)
		ok(t, err, "read the number of pages")
		if marked == pages {
			return
		}
		select {
		case <-pause.C:
		case <-hangs:
			t.Fatalf("%d of %d pages are all-visible; open snapshots: %s", marked, pages, openSnapshots(t, db))
		}
	}
}

// openSnapshots names the sessions of the database that hold back VACUUM.
func openSnapshots(t *testing.T, db *sql.DB) string {
	t.Helper()
	var sessions string
	err := db.QueryRowContext(t.Context(), `SELECT coalesce(string_agg(concat_ws(' ', pid, backend_type, application_name, state, xact_start, query), E'\n'), 'none')
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xmin, backend_xid) IS NOT NULL`).Scan(&sessions)
	ok(t, err, "list the open snapshots")
	return sessions
}

// TestStatementsPreparedOnAnEmptyTableUseIndexes prepares the statements on an empty table, as the first node to start
// does. It then runs them on many rows that the planner does not know about.
func TestStatementsPreparedOnAnEmptyTableUseIndexes(t *testing.T) {
	ctx := t.Context()
	s := migrated(t)
	_, err := s.d.pool.Exec(ctx, "ALTER TABLE alarm SET (autovacuum_enabled = off)")
	ok(t, err, "keep the planner ignorant")
	conn := connect(t, s)
	_, err = conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan")
	ok(t, err, "set the plan cache's mode")
	empty := hotStatements("'{1,2,3}'")
	for i, h := range empty {
		_, err := conn.Exec(ctx, fmt.Sprintf("PREPARE hot%d AS %s", i, h.sql))
		ok(t, err, "prepare")
		explain(t, conn, fmt.Sprintf("hot%d", i), h.args)
	}
	const fill = `INSERT INTO alarm (application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at,
		next_try_time, finished_at, max_rings, priority, create_time, update_time)
		SELECT 'plan', 's' || $1::smallint || '-' || n, n % 64, $1, 1, '', 0, '', 1, $2::bigint, $3::bigint, 10, 0, 1, 1 FROM generate_series(1, $4::integer) n`
	_, err = s.d.pool.Exec(ctx, fill, 1, 1, nil, 1000)
	ok(t, err, "fill")
	_, err = s.d.pool.Exec(ctx, fill, 6, nil, 1, 30_000)
	ok(t, err, "fill")
	_, err = s.d.pool.Exec(ctx, `INSERT INTO ring_attempt (alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error)
		SELECT a.id, 1, 1, '', 1, 2, '' FROM alarm a CROSS JOIN generate_series(1, 21) WHERE a.state = 1`)
	ok(t, err, "fill")
	for i, h := range hotStatements(dueIDs(t, s)) {
		h.only = false // without a vacuum an index-only scan must look into the table
		t.Run(h.name, func(t *testing.T) { h.check(t, explain(t, conn, fmt.Sprintf("hot%d", i), h.args)) })
	}
}

// dueIDs returns the ids of 300 due rows as an SQL array.
func dueIDs(t *testing.T, s *opened) string {
	t.Helper()
	var due string
	const ids = "SELECT quote_literal(array_agg(id)::text) FROM (SELECT id FROM alarm WHERE state = 1 ORDER BY id LIMIT 300) d"
	ok(t, s.d.pool.QueryRow(t.Context(), ids).Scan(&due), "read ids")
	return due
}

// connect returns a connection with the settings of the store's sessions.
func connect(t *testing.T, s *opened) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), s.d.pool.Config().ConnConfig)
	ok(t, err, "connect")
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func (h hotStatement) check(t *testing.T, root *plan) {
	read := 0.0
	scans := 0
	root.walk(func(n *plan) {
		if n.Relation != "alarm" && n.Relation != "ring_attempt" || n.Type == "ModifyTable" {
			return
		}
		scans++
		read += n.Loops * (n.Rows + n.Filtered + n.Rechecked)
		if !slices.Contains(h.index, n.Index) {
			t.Errorf("%s of %s by %q, not by one of %q", n.Type, n.Relation, n.Index, h.index)
		}
		if h.only && (n.Type != "Index Only Scan" || n.HeapFetches > 0) {
			t.Errorf("%s with %.0f heap fetches, not of the index alone", n.Type, n.HeapFetches)
		}
	})
	if scans == 0 {
		t.Error("the plan reads neither alarm nor ring_attempt")
	}
	if read > h.rows {
		t.Errorf("%.0f rows read, not at most %.0f", read, h.rows)
	}
}

// plan is a node of EXPLAIN's output.
type plan struct {
	Type        string  `json:"Node Type"`
	Relation    string  `json:"Relation Name"`
	Index       string  `json:"Index Name"`
	Loops       float64 `json:"Actual Loops"`
	Rows        float64 `json:"Actual Rows"`
	Filtered    float64 `json:"Rows Removed by Filter"`
	Rechecked   float64 `json:"Rows Removed by Index Recheck"`
	HeapFetches float64 `json:"Heap Fetches"`
	Plans       []plan  `json:"Plans"`
}

func (p *plan) walk(visit func(*plan)) {
	visit(p)
	for i := range p.Plans {
		p.Plans[i].walk(visit)
	}
}

// explain runs a prepared statement with EXPLAIN ANALYZE, and rolls back. args are SQL expressions.
func explain(t *testing.T, conn *pgx.Conn, name string, args []any) *plan {
	t.Helper()
	ctx := t.Context()
	tx, err := conn.Begin(ctx)
	ok(t, err, "begin")
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var answer []byte
	list := strings.TrimSuffix(strings.Repeat("%v, ", len(args)), ", ")
	err = tx.QueryRow(ctx,
		"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE "+name+"("+fmt.Sprintf(list, args...)+")").Scan(&answer)
	ok(t, err, "explain")
	var plans []struct {
		Plan  plan    `json:"Plan"`
		Taken float64 `json:"Execution Time"`
	}
	ok(t, json.Unmarshal(answer, &plans), "read the plan")
	t.Logf("%s: %.1f ms", name, plans[0].Taken)
	return &plans[0].Plan
}
