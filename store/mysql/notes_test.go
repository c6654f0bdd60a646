package mysql

import (
	"context"
	"slices"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// TestNotedAlarmsAreReadByIndex demands that lists of repeating alarms, and of alarms that wait for a person, begin at
// the notes, and read as many rows as they return.
func TestNotedAlarmsAreReadByIndex(t *testing.T) {
	t.Parallel()
	s := migrated(t)
	rule, err := repeat.Parse(repeat.Spec{Cron: "0 8 * * *"})
	ok(t, err, "parse a rule")
	for _, application := range []string{"bank", "shop", "till"} {
		ops := setsOf("a", 200, t0, nil)
		for i := range ops {
			ops[i].Set.Application = application
			if i%2 == 0 {
				ops[i].Set.Repeat = &rule
			}
		}
		write(t, s, clock.Create, ops)
		pauses := make([]clock.Op, 0, len(ops)/2)
		for i := 0; i < len(ops); i += 2 {
			pauses = append(pauses, clock.Op{Pause: &clock.Pause{Key: ops[i].Key()}})
		}
		write(t, s, clock.Amend, pauses)
	}
	for _, table := range []string{"alarm", "repeating_alarm", "attention_alarm"} {
		_, err := s.d.db.ExecContext(t.Context(), "ANALYZE TABLE "+table)
		ok(t, err, "analyze")
	}
	list := engine.ListQuery{Application: "shop", After: "a-00050", Prefix: "a-00", End: "a-01", Limit: 10, Repeating: true}
	for name, h := range map[string]struct {
		run   func(ctx context.Context, db dbsqlc.DBTX) error
		keys  []string // of the tables in the order of the plan
		reads int
	}{
		"list": {func(ctx context.Context, db dbsqlc.DBTX) error {
			query, args := listStatement(&list)
			rows, err := db.QueryContext(ctx, query, args...) //nolint:rowserrcheck // EachRow returns it
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			return engine.EachRow(ctx, rows, func(*engine.Row) bool { return true })
		}, []string{"repeating_alarm_key", "PRIMARY"}, 20},
		"list of paused alarms": {func(ctx context.Context, db dbsqlc.DBTX) error {
			_, err := s.d.q.ListAttention(ctx, db, dbsqlc.ListAttentionParams{
				Application: "shop", State: int64(clock.Paused), After: "a-00050", Prefix: "a-00", RangeEnd: "a-01", Limit: 10,
			})
			return err
		}, []string{"attention_alarm_key"}, 10},
		"next application with paused alarms": {func(ctx context.Context, db dbsqlc.DBTX) error {
			_, err := s.d.q.NextAttentionApplication(ctx, db, "bank")
			return err
		}, []string{"attention_alarm_key"}, 1},
		"next application": {func(ctx context.Context, db dbsqlc.DBTX) error {
			_, err := s.d.q.NextRepeatingApplication(ctx, db, "bank")
			return err
		}, []string{"repeating_alarm_key"}, 1},
		"rules": {func(ctx context.Context, db dbsqlc.DBTX) error {
			_, err := s.d.q.ListRules(ctx, db, dbsqlc.ListRulesParams{Application: "shop", Limit: 20})
			return err
		}, []string{"repeating_alarm_key", "PRIMARY"}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := s.d.begin(t.Context(), s.d.writes)
			ok(t, err, "begin")
			defer tx.rollback(t.Context())
			e := &explainer{DBTX: tx, all: true}
			_ = h.run(t.Context(), e)
			ok(t, e.err, "explain")
			var keys []string
			for _, p := range e.plan {
				keys = append(keys, p["key"])
				if p["type"] == "index" || p["type"] == "ALL" {
					t.Errorf("%s is read whole: %v", p["table"], p)
				}
			}
			if !slices.Equal(keys, h.keys) {
				t.Errorf("keys %q, want %q", keys, h.keys)
			}
			before := handlerReads(t, tx)
			ok(t, h.run(t.Context(), tx), "run")
			if reads := handlerReads(t, tx) - before; reads > h.reads+1 { // reading the counters adds one
				t.Errorf("%d entries read, not at most %d", reads, h.reads)
			}
		})
	}
}
