package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

const now clock.Instant = 1_795_000_000_000

// table is a WriteTx over a map, with rows that somebody else holds and what may go wrong.
type table struct {
	rows    map[clock.Key]clock.Alarm
	held    map[clock.Key]bool
	last    int64
	refuses bool                // Insert says ErrKeyExists where a key exists, as MySQL does
	appears map[clock.Key]bool  // keys that another transaction creates after they were read as absent
	leaves  bool                // Cancel leaves all to Lock, as MySQL does
	changes func(c Change) bool // whether the row is still as it was locked; nil: all are
	calls   []string
	locked  []clock.Key
}

func (m *table) Insert(_ context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	m.calls = append(m.calls, fmt.Sprintf("insert %d %v", len(rows), absent))
	exists := func(a *clock.Alarm) bool {
		_, is := m.rows[a.Key]
		return is || absent && m.appears[a.Key]
	}
	if m.refuses && slices.ContainsFunc(rows, exists) {
		return nil, ErrKeyExists
	}
	ids := make([]int64, len(rows))
	for i, a := range rows {
		if exists(a) {
			continue
		}
		m.last++
		ids[i] = m.last
		row := *a
		row.ID = m.last
		m.rows[a.Key] = row
	}
	return ids, nil
}

func (m *table) Cancel(_ context.Context, keys []clock.Key, now clock.Instant, _ bool) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("cancel %d", len(keys)))
	var rows []clock.Alarm
	for _, k := range keys {
		if row, is := m.rows[k]; is && row.State == clock.Scheduled && !row.InDoubt && !m.held[k] && !m.leaves {
			row.State, row.NextTryTime, row.UpdateTime, row.FinishedAt = clock.Cancelled, clock.NoInstant, now, now
			m.rows[k] = row
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (m *table) Lock(_ context.Context, keys []clock.Key, wait time.Duration, briefly bool) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("lock %d %s", len(keys), wait))
	var rows []clock.Alarm
	for _, k := range slices.Backward(keys) { // in any order
		if row, is := m.rows[k]; is && !m.held[k] {
			if briefly {
				row.Content, row.Traceparent = clock.Content{}, ""
			}
			rows = append(rows, row)
			m.locked = append(m.locked, k)
		}
	}
	return rows, nil
}

func (m *table) Read(_ context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("read %d", len(keys)))
	var rows []clock.Alarm
	for _, k := range keys {
		if row, is := m.rows[k]; is {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (m *table) Update(_ context.Context, changes []Change) (int, error) {
	m.calls = append(m.calls, fmt.Sprintf("update %d", len(changes)))
	n := 0
	for _, c := range changes {
		if !slices.Contains(m.locked, c.Old.Key) {
			return 0, fmt.Errorf("%s is rewritten without a lock", c.Old.BusinessID)
		}
		if m.changes == nil || m.changes(c) {
			row := *c.New
			if c.New.Generation == c.Old.Generation {
				row.Content, row.Traceparent = m.rows[c.New.Key].Content, m.rows[c.New.Key].Traceparent
			}
			m.rows[c.New.Key] = row
			n++
		}
	}
	return n, nil
}

func newTable() *table {
	return &table{rows: make(map[clock.Key]clock.Alarm), held: make(map[clock.Key]bool), appears: make(map[clock.Key]bool)}
}

func k(id string) clock.Key { return clock.Key{Application: "shop", BusinessID: id} }

func set(id string, at clock.Instant) clock.Op {
	return clock.Op{Set: &clock.Set{Key: k(id), Content: clock.Content{
		RingAt: at, LatestRingAt: clock.NoInstant, ContentType: "text/plain", Retry: clock.DefaultRetryPolicy(), MaxRings: 1,
	}}}
}

func cancel(id string) clock.Op { return clock.Op{Cancel: &clock.Cancel{Key: k(id)}} }

func briefCancel(id string) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: k(id), Brief: true}}
}

func cancelAt(id string, generation int64) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: k(id), If: clock.Condition{Kind: clock.AtGeneration, Generation: generation}}}
}

func (m *table) write(t interface{ Fatalf(string, ...any) }, ops ...clock.Op) []clock.Decision {
	m.calls, m.locked = nil, nil
	d, err := Write(context.Background(), m, clock.WriteRequest{Now: now, Ops: ops}, 64)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return d
}

// TestWriteStatements counts the statements of the usual groups.
func TestWriteStatements(t *testing.T) {
	m := newTable()
	for _, c := range []struct {
		name string
		ops  []clock.Op
		want []string
	}{
		{"all new", []clock.Op{set("a", 1), set("b", 1)}, []string{"insert 2 false"}},
		{"all the same", []clock.Op{set("a", 1), set("b", 1)}, []string{"insert 2 false", "lock 2 0s"}},
		{"new, moved, cancelled", []clock.Op{set("c", 1), set("a", 2), cancel("b")}, []string{"insert 2 false", "cancel 1", "lock 1 0s", "update 1"}},
		{"cancels only", []clock.Op{cancel("a"), cancel("c")}, []string{"cancel 2"}},
		{"cancels of nothing", []clock.Op{cancel("a"), cancel("nobody")}, []string{"cancel 2", "lock 2 0s", "read 1"}},
		{"a conditional cancel", []clock.Op{cancelAt("b", 1)}, []string{"lock 1 0s"}},
	} {
		m.write(t, c.ops...)
		if !slices.Equal(m.calls, c.want) {
			t.Errorf("%s: %q, want %q", c.name, m.calls, c.want)
		}
	}
	if row := m.rows[k("a")]; row.Shard != k("a").Shard(64) || row.State != clock.Cancelled {
		t.Errorf("row %+v", row)
	}
}

// TestWriteRefusedInsert locks first where the engine cannot tell which keys exist, then inserts what is absent.
func TestWriteRefusedInsert(t *testing.T) {
	m := newTable()
	m.refuses = true
	m.write(t, set("a", 1))
	d := m.write(t, set("a", 2), set("b", 1))
	if want := []string{"insert 2 false", "lock 2 0s", "read 1", "insert 1 true", "update 1"}; !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
	if d[0].Verdict != clock.Replace || d[1].Verdict != clock.Create || d[1].Alarm.ID == 0 {
		t.Errorf("%v %v", d[0].Verdict, d[1].Verdict)
	}
}

// TestWriteHeld answers Wait for what is held, and does the rest.
func TestWriteHeld(t *testing.T) {
	m := newTable()
	m.write(t, set("held", 1), set("free", 1))
	m.held[k("held")] = true
	before := m.rows[k("held")]
	d := m.write(t, set("held", 2), set("free", 2), set("new", 1))
	if d[0].Verdict != clock.Wait || d[0].Alarm.ID != before.ID || d[1].Verdict != clock.Replace || d[2].Verdict != clock.Create {
		t.Errorf("%v %v %v", d[0].Verdict, d[1].Verdict, d[2].Verdict)
	}
	if m.rows[k("held")].Generation != 1 {
		t.Error("the held row was changed")
	}
}

// TestWriteWaits does not insert first where it may wait, so that no row is locked out of order.
func TestWriteWaits(t *testing.T) {
	m := newTable()
	d, err := Write(t.Context(), m, clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 1)}, Wait: time.Second}, 64)
	if err != nil || d[0].Verdict != clock.Create {
		t.Fatal(d, err)
	}
	if want := []string{"lock 1 1s", "read 1", "insert 1 true"}; !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
}

// TestWriteReplays ends in ErrReplay where a row changed after it was read.
func TestWriteReplays(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		m := newTable()
		m.refuses = refuses
		m.appears[k("a")] = true
		r := clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 1)}, Wait: time.Second}
		if _, err := Write(t.Context(), m, r, 64); !errors.Is(err, ErrReplay) {
			t.Errorf("a key that appeared: %v", err)
		}
	}
	m := newTable()
	m.write(t, set("a", 1), set("b", 1))
	m.changes = func(c Change) bool { return c.Old.BusinessID != "b" }
	if _, err := Write(t.Context(), m, clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 2), set("b", 2)}}, 64); !errors.Is(err, ErrReplay) {
		t.Errorf("a row that changed: %v", err)
	}
}

// TestWriteDoesWhatDecideSays compares random groups with deciding one by one.
func TestWriteDoesWhatDecideSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newTable()
		m.refuses = rapid.Bool().Draw(rt, "refuses")
		m.leaves = rapid.Bool().Draw(rt, "leaves")
		ids := []string{"a", "b", "c", "d", "e"}
		for range rapid.IntRange(1, 8).Draw(rt, "groups") {
			before := make(map[clock.Key]clock.Alarm)
			for key, row := range m.rows {
				before[key] = row
			}
			var ops []clock.Op
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, len(ids), rapid.ID).Draw(rt, "keys") {
				m.held[k(id)] = rapid.IntRange(0, 4).Draw(rt, "held") == 0
				switch rapid.IntRange(0, 4).Draw(rt, "cancel") {
				case 0:
					ops = append(ops, cancel(id))
					continue
				case 1:
					ops = append(ops, cancelAt(id, 1))
					continue
				case 2:
					ops = append(ops, briefCancel(id))
					continue
				}
				op := set(id, clock.Instant(rapid.IntRange(1, 3).Draw(rt, "at")))
				op.Set.If.Kind = rapid.SampledFrom([]clock.ConditionKind{
					clock.AnyRow, clock.Absent, clock.Earlier, clock.Later, clock.AtGeneration,
				}).Draw(rt, "if")
				op.Set.If.Generation = 1
				ops = append(ops, op)
			}
			for i, d := range m.write(rt, ops...) {
				checkDecision(rt, m, ops[i], before, d)
			}
		}
	})
}

func checkDecision(rt *rapid.T, m *table, op clock.Op, before map[clock.Key]clock.Alarm, got clock.Decision) {
	key := op.Key()
	row, exists := before[key]
	want := clock.Decision{Verdict: clock.Wait, Alarm: row}
	switch {
	case !exists:
		want = op.Decide(nil, now)
	case !m.held[key]:
		want = op.Decide(&row, now)
	}
	if got.Verdict != want.Verdict || got.Alarm.Generation != want.Alarm.Generation || got.Alarm.State != want.Alarm.State {
		rt.Fatalf("%s: %s %v, want %s", key.BusinessID, got.Verdict, got.Alarm, want.Verdict)
	}
	if stored, is := m.rows[key]; got.Verdict != clock.Refuse && (!is || stored.Generation != got.Alarm.Generation || stored.State != got.Alarm.State) {
		rt.Fatalf("%s: stored %v, answered %v", key.BusinessID, stored, got.Alarm)
	}
}
