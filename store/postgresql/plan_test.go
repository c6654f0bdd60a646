package postgresql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
	"github.com/clockd/clockd/store/storetest"
)

// A hot statement and what its plan must be, with a million finished rows beside a thousand due ones.
type hotStatement struct {
	name  string
	sql   string
	args  []any
	index []string // that scans of the table alarm may use
	only  bool     // the index alone: no row is fetched from the table
	rows  float64  // that scans may read, at most
}

// hotStatements returns them for claims of the ids of due, which is an array in SQL.
func hotStatements(due string) []hotStatement {
	shards := "'{" + strings.Trim(strings.Repeat("1,2,3,4,", 4), ",") + "}'"
	states, reasons := "array_fill(4, ARRAY[300])", "array_fill('r'::varchar, ARRAY[300])"
	insert := []any{"'{plan,plan}'", "'{s1-7,new}'", "'{1,2}'", "'{1,1}'", "'{1,1}'", "'{a,b}'", "'{0,0}'", "'{t,t}'", "'{1,1}'", "'{-1,-1}'",
		"'{1,1}'", "'{a,b}'", "'{0,0}'", "'{1,1}'", "'{0,0}'", "'{a,b}'", "'{1,1}'"}
	advance := []any{due, "'{1,1}'", "'{1,1}'", "'{6,6}'", "'{-1,-1}'", "'{0,0}'", "'{0,0}'", "'{a,b}'", "'{0,0}'", "'{a,b}'", "'{-1,-1}'",
		"'{1,1}'", "'{1,1}'"}
	keys := []any{"'{plan,plan,plan}'", "'{s1-7,s1-8,s6-9}'"}
	return []hotStatement{
		{"due", dbsqlc.ListDue, []any{shards, 0, 0, int64(clock.MaxInstant), 0, 10}, []string{"alarm_due"}, true, 16 * 10},
		{"overdue", dbsqlc.CountDue, []any{shards, int64(clock.MaxInstant), 100}, []string{"alarm_due"}, true, 100 + 2*16},
		{"claim: lock", dbsqlc.LockDue, []any{due, int64(clock.MaxInstant)}, []string{"alarm_pkey"}, false, 301},
		{"claim: take", dbsqlc.TakeAlarms, []any{int64(clock.MaxInstant), "'c'", due}, []string{"alarm_pkey"}, false, 301},
		{"claim: lease", dbsqlc.LeaseAlarms, []any{1, int64(clock.MaxInstant), due}, []string{"alarm_pkey"}, false, 301},
		{"lock", dbsqlc.LockAlarms, keys, []string{"alarm_key"}, false, 3},
		{"insert", dbsqlc.InsertAlarms, insert, []string{"alarm_key"}, false, 1},
		{"advance", dbsqlc.AdvanceAlarms, advance, []string{"alarm_pkey"}, false, 300},
		{"end", dbsqlc.EndAlarms, []any{int64(clock.MaxInstant), due, states, reasons}, []string{"alarm_pkey"}, false, 300},
		{"read", dbsqlc.ReadAlarms, keys, []string{"alarm_key"}, false, 3},
		{"get", dbsqlc.GetAlarm, []any{"'plan'", "'s6-5'"}, []string{"alarm_key"}, false, 1},
		{"list", dbsqlc.ListAlarms, []any{"'plan'", "'s6-5'", "'s6-5'", "'s6-6'", "'{}'", -1, -1, 50}, []string{"alarm_key"}, false, 50},
		{"expire", dbsqlc.ExpireAlarms, []any{int64(clock.MaxInstant), "'r'", due}, []string{"alarm_pkey"}, false, 301},
		{"purge", dbsqlc.PurgeAlarms, []any{int64(clock.MaxInstant), 100}, []string{"alarm_finished", "alarm_pkey"}, false, 200},
	}
}

// checkPlans asserts the plans that a store's sessions get, both those made for the arguments and those made for any.
func checkPlans(t *testing.T, db *storetest.Database) {
	ctx := t.Context()
	s := db.Open(t).(*Store)
	// FREEZE waits for pages that are being written, and where few pages hold dead rows VACUUM would leave them and their
	// index entries for later: no heap fetch is left to chance
	_, err := db.SQL.ExecContext(ctx, "VACUUM (FREEZE, ANALYZE, INDEX_CLEANUP ON) alarm")
	ok(t, err, "vacuum")
	var due string
	const ids = "SELECT quote_literal(array_agg(id)::text) FROM (SELECT id FROM alarm WHERE state = 1 ORDER BY id LIMIT 300) d"
	ok(t, db.SQL.QueryRowContext(ctx, ids).Scan(&due), "read ids")
	for _, h := range hotStatements(due) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(h.name+"/"+mode, func(t *testing.T) { h.check(t, s, mode) })
		}
	}
}

// TestPlansOfEmptyTable asserts that a statement planned before there is a row, and without statistics, is planned as it must
// be for millions.
func TestPlansOfEmptyTable(t *testing.T) {
	s := migrated(t)
	for _, h := range hotStatements("'{1,2,3}'") {
		t.Run(h.name, func(t *testing.T) { h.check(t, s, "force_generic_plan") })
	}
}

func (h hotStatement) check(t *testing.T, s *Store, mode string) {
	root := explain(t, s, mode, h.sql, h.args)
	read := 0.0
	scans := 0
	root.walk(func(n *plan) {
		if n.Relation != "alarm" || n.Type == "ModifyTable" {
			return
		}
		scans++
		read += n.Loops * (n.Rows + n.Filtered + n.Rechecked)
		if !slices.Contains(h.index, n.Index) {
			t.Errorf("%s of alarm by %q, not by one of %q", n.Type, n.Index, h.index)
		}
		if h.only && (n.Type != "Index Only Scan" || n.HeapFetches > 0) {
			t.Errorf("%s with %.0f heap fetches, not of the index alone", n.Type, n.HeapFetches)
		}
	})
	if scans == 0 {
		t.Error("the plan does not read alarm")
	}
	if read > h.rows {
		t.Errorf("%.0f rows read, not at most %.0f", read, h.rows)
	}
}

// plan is a node of EXPLAIN's answer.
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

// explain runs a statement in a transaction that is rolled back, with arguments as SQL.
func explain(t *testing.T, s *Store, mode, query string, args []any) *plan {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	ok(t, err, "connect")
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	ok(t, err, "begin")
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, statement := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE hot AS " + query} {
		_, err = tx.Exec(ctx, statement)
		ok(t, err, statement)
	}
	var answer []byte
	list := strings.TrimSuffix(strings.Repeat("%v, ", len(args)), ", ")
	err = tx.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot("+fmt.Sprintf(list, args...)+")").Scan(&answer)
	ok(t, err, "explain")
	var plans []struct{ Plan plan }
	ok(t, json.Unmarshal(answer, &plans), "read the plan")
	return &plans[0].Plan
}
