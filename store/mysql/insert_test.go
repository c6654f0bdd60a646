package mysql

import (
	"database/sql"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

func TestInsertLeavesOutWhatAllRowsShare(t *testing.T) {
	plain := engine.Row{
		Application: "shop", BusinessID: "a", State: 1, Generation: 1, Payload: []byte("x"), PayloadKind: 2,
		ContentType: "text/plain", TargetRingAt: 60, NextTryTime: sql.NullInt64{Int64: 60, Valid: true}, DueRank: 9,
		MaxRings: 10, CreateTime: 7, UpdateTime: 7,
	}
	with := func(change func(r *engine.Row)) *engine.Row {
		r := plain
		change(&r)
		return &r
	}
	const always = "application, business_id, shard, state, generation, payload, payload_kind, content_type, " +
		"target_ring_at, "
	const guard = "(SELECT IF(b.oldest <= ?, %s, NULL) FROM build_level b WHERE b.only_row = 1)"
	for _, c := range []struct {
		what                       string
		rows                       []*engine.Row
		columns, own, values, next string
		args                       []any
	}{
		{"one row", []*engine.Row{&plain}, always + "next_try_time, max_rings, priority, create_time, update_time",
			"'shop'", ", 'a', 0, 1, 1, ?, 2, 'text/plain', 60, 60, 10, 0, 7, 7)", "",
			[]any{[]byte("x")}},
		{"rows that differ in columns without a default", []*engine.Row{&plain, with(func(r *engine.Row) {
			r.BusinessID, r.Shard, r.TargetRingAt, r.NextTryTime.Int64 = "b", 5, 90, 91
		})}, always + "next_try_time, max_rings, priority, create_time, update_time",
			"'shop'", ", ?, ?, 1, 1, ?, 2, 'text/plain', ?, ?, 10, 0, 7, 7)",
			", ('shop', ?, ?, 1, 1, ?, 2, 'text/plain', ?, ?, 10, 0, 7, 7)",
			[]any{"a", int64(0), []byte("x"), int64(60), int64(60), "b", int64(5), []byte("x"), int64(90), int64(91)}},
		{"a last row with other values than the defaults", []*engine.Row{&plain, with(func(r *engine.Row) {
			r.LatestRingAt, r.NextTryTime = r.NextTryTime, r.LatestRingAt
			r.Application, r.AckTimeout, r.Traceparent, r.Destination, r.DueRank = "post", 5000, "00-1", "mail", 3
		})}, always + "latest_ring_at, next_try_time, ack_timeout, max_rings, priority, traceparent, create_time, " +
			"update_time, due_rank, destination",
			"?", ", 'a', 0, 1, 1, ?, 2, 'text/plain', 60, ?, ?, ?, 10, 0, ?, 7, 7, ?, ?)",
			", (?, 'a', 0, 1, 1, ?, 2, 'text/plain', 60, ?, ?, ?, 10, 0, ?, 7, 7, ?, ?)",
			[]any{"shop", []byte("x"), nil, int64(60), int64(0), "", int64(9), "",
				"post", []byte("x"), int64(60), nil, int64(5000), "00-1", int64(3), "mail"}},
		{"texts that need quoting", []*engine.Row{with(func(r *engine.Row) {
			r.BusinessID, r.ContentType, r.RetryPolicy, r.RepeatRule = `a\`, "x'", `{"limit":1}`, "a\x00?"
		})}, always + "next_try_time, retry_policy, max_rings, priority, create_time, update_time, repeat_rule",
			"'shop'", ", ?, 0, 1, 1, ?, 2, ?, 60, 60, ?, 10, 0, 7, 7, ?)", "",
			[]any{`a\`, []byte("x"), "x'", `{"limit":1}`, "a\x00?"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			args := insertArgs.Of(len(c.rows), func(i int, row *engine.Row) { *row = *c.rows[i] })
			r := &recorder{}
			b := bulk{DBTX: r, rows: len(c.rows), args: args, insert: true}
			_, _ = dbsqlc.New().InsertAlarms(t.Context(), b, dbsqlc.InsertAlarmsParams{Build: store.BuildLevel()})
			want := "alarm (" + c.columns + ")\nVALUES (" + fmt.Sprintf(guard, c.own) + c.values + c.next
			if _, got, _ := strings.Cut(r.query, "INSERT INTO "); strings.TrimSpace(got) != want {
				t.Errorf("statement\n%s\nwant\n%s", got, want)
			}
			wantArgs := append([]any{store.BuildLevel()}, c.args...)
			if !reflect.DeepEqual(r.args, wantArgs) {
				t.Errorf("arguments %v, want %v", r.args, wantArgs)
			}
		})
	}
}

func TestAlarmDefaultsAreThoseOfTheSchema(t *testing.T) {
	s := migrated(t)
	rows, err := s.d.db.QueryContext(t.Context(), `SELECT column_name, data_type, COALESCE(column_default, 'NULL')
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'alarm'
AND (column_default IS NOT NULL OR is_nullable = 'YES')`)
	ok(t, err, "read the columns")
	defer func() { _ = rows.Close() }()
	got := map[string]any{}
	for rows.Next() {
		var column, kind, text string
		ok(t, rows.Scan(&column, &kind, &text), "scan")
		number, err := strconv.ParseInt(text, 10, 64)
		switch {
		case text == "NULL":
			got[column] = nil
		case strings.HasSuffix(kind, "int"):
			ok(t, err, "the default of "+column)
			got[column] = number
		default: // MariaDB writes quotes around text, MySQL does not
			got[column] = strings.Trim(text, "'")
		}
	}
	ok(t, rows.Err(), "read the columns")
	for column, value := range got {
		if listed, has := alarmDefaults[column]; !has || listed != value {
			t.Errorf("alarmDefaults has %v (%t) for %s, the schema %#v", listed, has, column, value)
		}
	}
	if len(got) != len(alarmDefaults) {
		t.Errorf("%d columns of the schema have a default, alarmDefaults has %d", len(got), len(alarmDefaults))
	}
}
