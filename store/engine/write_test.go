package engine

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

// fakeTx is a WriteTx over a map. Its fields say which rows are locked elsewhere and which calls find the rows changed.
type fakeTx struct {
	WriteTx       // nil: the plan calls no other method
	rows          map[clock.Key]clock.Alarm
	held          map[clock.Key]bool
	lastID        int64
	refusesInsert bool                // Insert returns ErrKeyExists when a key exists, as on MySQL
	appears       map[clock.Key]bool  // keys that another transaction creates after they were read as absent
	leavesCancels bool                // Cancel leaves all rows to Lock, as on MySQL
	rowUnchanged  func(c Change) bool // reports whether the row is still as Lock returned it; nil: all rows are
	calls         []string
	locked        []clock.Key
	loaded        int // bytes of payloads returned so far
}

func (m *fakeTx) Insert(_ context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	m.calls = append(m.calls, fmt.Sprintf("insert %d %v", len(rows), absent))
	exists := func(a *clock.Alarm) bool {
		_, found := m.rows[a.Key]
		return found || absent && m.appears[a.Key]
	}
	if m.refusesInsert && slices.ContainsFunc(rows, exists) {
		return nil, ErrKeyExists
	}
	ids := make([]int64, len(rows))
	for i, a := range rows {
		if exists(a) {
			continue
		}
		m.lastID++
		ids[i] = m.lastID
		row := *a
		row.ID = m.lastID
		m.rows[a.Key] = row
	}
	return ids, nil
}

func (m *fakeTx) Cancel(_ context.Context, keys []clock.Key, now clock.Instant, _ bool) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("cancel %d", len(keys)))
	var rows []clock.Alarm
	for _, k := range keys {
		if row, found := m.rows[k]; found && row.State == clock.Scheduled && !row.InDoubt && !m.held[k] &&
			!m.leavesCancels {
			row.State, row.NextTryTime, row.UpdateTime, row.FinishedAt = clock.Cancelled, clock.NoInstant, now, now
			m.rows[k] = row
			rows = append(rows, row)
			m.loaded += len(row.Payload)
		}
	}
	return rows, nil
}

func (m *fakeTx) Lock(_ context.Context, keys []clock.Key, wait time.Duration, brief bool) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("lock %d %s", len(keys), wait))
	var rows []clock.Alarm
	for _, k := range slices.Backward(keys) { // Lock may return rows in any order
		if row, found := m.rows[k]; found && !m.held[k] {
			if brief {
				row.Content, row.Traceparent = clock.Content{}, ""
			}
			rows = append(rows, row)
			m.loaded += len(row.Payload)
			m.locked = append(m.locked, k)
		}
	}
	return rows, nil
}

func (m *fakeTx) Read(_ context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	m.calls = append(m.calls, fmt.Sprintf("read %d", len(keys)))
	var rows []clock.Alarm
	for _, k := range keys {
		if row, found := m.rows[k]; found {
			rows = append(rows, row)
			m.loaded += len(row.Payload)
		}
	}
	return rows, nil
}

func (m *fakeTx) Update(_ context.Context, changes []Change) (int, error) {
	m.calls = append(m.calls, fmt.Sprintf("update %d", len(changes)))
	n := 0
	for _, c := range changes {
		if !slices.Contains(m.locked, c.Old.Key) {
			return 0, fmt.Errorf("%s is rewritten without a lock", c.Old.BusinessID)
		}
		if m.rowUnchanged == nil || m.rowUnchanged(c) {
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

func newFakeTx() *fakeTx {
	return &fakeTx{rows: make(map[clock.Key]clock.Alarm), held: make(map[clock.Key]bool),
		appears: make(map[clock.Key]bool)}
}

func keyOf(id string) clock.Key { return clock.Key{Application: "shop", BusinessID: id} }

func set(id string, at clock.Instant) clock.Op {
	return clock.Op{Set: &clock.Set{Key: keyOf(id), Content: clock.Content{
		RingAt: at, LatestRingAt: clock.NoInstant, ContentType: "text/plain", Retry: clock.DefaultRetryPolicy(),
		MaxRings: 1,
	}}}
}

func cancel(id string) clock.Op { return clock.Op{Cancel: &clock.Cancel{Key: keyOf(id)}} }

func briefCancel(id string) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: keyOf(id), Brief: true}}
}

func cancelAt(id string, generation int64) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: keyOf(id),
		If: clock.Condition{Kind: clock.AtGeneration, Generation: generation}}}
}

func (m *fakeTx) write(t interface{ Fatalf(string, ...any) }, ops ...clock.Op) []clock.Decision {
	m.calls, m.locked = nil, nil
	d, err := applyGroup(context.Background(), m, clock.WriteRequest{Now: now, Ops: ops}, 64, nil)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return d
}

// The test counts the statements of the usual groups.
func TestWriteNeedsFewStatementsForUsualGroups(t *testing.T) {
	m := newFakeTx()
	for _, c := range []struct {
		name string
		ops  []clock.Op
		want []string
	}{
		{"all new", []clock.Op{set("a", 1), set("b", 1)}, []string{"insert 2 false"}},
		{"all the same", []clock.Op{set("a", 1), set("b", 1)}, []string{"insert 2 false", "lock 2 0s"}},
		{"new, moved, cancelled", []clock.Op{set("c", 1), set("a", 2), cancel("b")},
			[]string{"insert 2 false", "cancel 1", "lock 1 0s", "update 1"}},
		{"cancels only", []clock.Op{cancel("a"), cancel("c")}, []string{"cancel 2"}},
		{"cancels without an alarm", []clock.Op{cancel("a"), cancel("absent")},
			[]string{"cancel 2", "lock 2 0s", "read 1"}},
		{"a conditional cancel", []clock.Op{cancelAt("b", 1)}, []string{"lock 1 0s"}},
	} {
		m.write(t, c.ops...)
		if !slices.Equal(m.calls, c.want) {
			t.Errorf("%s: %q, want %q", c.name, m.calls, c.want)
		}
	}
	if row := m.rows[keyOf("a")]; row.Shard != keyOf("a").Shard(64) || row.State != clock.Cancelled {
		t.Errorf("row %+v", row)
	}
}

// On such an engine Insert cannot tell which keys exist. Write then inserts only the absent keys.
func TestWriteLocksRowsAfterARefusedInsert(t *testing.T) {
	m := newFakeTx()
	m.refusesInsert = true
	m.write(t, set("a", 1))
	d := m.write(t, set("a", 2), set("b", 1))
	if want := []string{"insert 2 false", "lock 2 0s", "read 1", "insert 1 true", "update 1"}; !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
	if d[0].Verdict != clock.Replace || d[1].Verdict != clock.Create || d[1].Alarm.ID == 0 {
		t.Errorf("%v %v", d[0].Verdict, d[1].Verdict)
	}
}

// The other ops of the group are applied.
func TestWriteGivesTheVerdictWaitToLockedRows(t *testing.T) {
	m := newFakeTx()
	m.write(t, set("held", 1), set("free", 1))
	m.held[keyOf("held")] = true
	before := m.rows[keyOf("held")]
	d := m.write(t, set("held", 2), set("free", 2), set("new", 1))
	if d[0].Verdict != clock.Locked || d[0].Alarm.ID != before.ID || d[1].Verdict != clock.Replace ||
		d[2].Verdict != clock.Create {
		t.Errorf("%v %v %v", d[0].Verdict, d[1].Verdict, d[2].Verdict)
	}
	if m.rows[keyOf("held")].Generation != 1 {
		t.Error("the locked row was changed")
	}
}

// An insert before the locks could lock rows out of order while the write waits.
func TestWaitingWriteLocksBeforeItInserts(t *testing.T) {
	m := newFakeTx()
	d, err := applyGroup(t.Context(), m,
		clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 1)}, LockWait: time.Second}, 64, nil)
	if err != nil || d[0].Verdict != clock.Create {
		t.Fatal(d, err)
	}
	if want := []string{"lock 1 1s", "read 1", "insert 1 true"}; !slices.Equal(m.calls, want) {
		t.Errorf("%q, want %q", m.calls, want)
	}
}

func TestWriteReturnsErrReplayWhenARowChanged(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		m := newFakeTx()
		m.refusesInsert = refuses
		m.appears[keyOf("a")] = true
		r := clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 1)}, LockWait: time.Second}
		if _, err := applyGroup(t.Context(), m, r, 64, nil); !errors.Is(err, ErrReplay) {
			t.Errorf("a key that appeared: %v", err)
		}
	}
	m := newFakeTx()
	m.write(t, set("a", 1), set("b", 1))
	m.rowUnchanged = func(c Change) bool { return c.Old.BusinessID != "b" }
	if _, err := applyGroup(t.Context(), m, clock.WriteRequest{Now: now, Ops: []clock.Op{set("a", 2), set("b", 2)}}, 64, nil); !errors.Is(err, ErrReplay) {
		t.Errorf("a row that changed: %v", err)
	}
}

// The test compares random groups with single calls of Decide.
func TestWriteDecidesAsDecideDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newFakeTx()
		m.refusesInsert = rapid.Bool().Draw(rt, "refuses")
		m.leavesCancels = rapid.Bool().Draw(rt, "leaves")
		ids := []string{"a", "b", "c", "d", "e"}
		for range rapid.IntRange(1, 8).Draw(rt, "groups") {
			before := make(map[clock.Key]clock.Alarm)
			for key, row := range m.rows {
				before[key] = row
			}
			var ops []clock.Op
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, len(ids), rapid.ID).Draw(rt, "keys") {
				m.held[keyOf(id)] = rapid.IntRange(0, 4).Draw(rt, "held") == 0
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

func checkDecision(rt *rapid.T, m *fakeTx, op clock.Op, before map[clock.Key]clock.Alarm, got clock.Decision) {
	key := op.Key()
	row, exists := before[key]
	want := clock.Decision{Verdict: clock.Locked, Alarm: row}
	switch {
	case !exists:
		want = op.Decide(nil, now)
	case !m.held[key]:
		want = op.Decide(&row, now)
	}
	if got.Verdict != want.Verdict || got.Alarm.Generation != want.Alarm.Generation ||
		got.Alarm.State != want.Alarm.State {
		rt.Fatalf("%s: %s %v, want %s", key.BusinessID, got.Verdict, got.Alarm, want.Verdict)
	}
	if stored, found := m.rows[key]; got.Verdict != clock.Refuse &&
		(!found || stored.Generation != got.Alarm.Generation || stored.State != got.Alarm.State) {
		rt.Fatalf("%s: stored %v, answered %v", key.BusinessID, stored, got.Alarm)
	}
}

// The ops beyond the limit get the verdict Postpone, whatever rows they find.
func TestWriteLoadsAtMostLoadBytes(t *testing.T) {
	const rows, size, maxLoad = 300, 1 << 10, 64 << 10
	for name, op := range map[string]func(id string) clock.Op{
		"cancels": cancel, "moved": func(id string) clock.Op { return set(id, 2) },
		"conditional cancels": func(id string) clock.Op { return cancelAt(id, 1) },
		"held":                func(id string) clock.Op { return set(id, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeTx()
			ops := make([]clock.Op, rows)
			for i := range ops {
				id := fmt.Sprint(i)
				m.rows[keyOf(id)] = clock.Alarm{
					ID: int64(i + 1), Key: keyOf(id), Generation: 1,
					Content: clock.Content{RingAt: 1, Payload: make([]byte, size)},
					RingRow: clock.RingRow{State: clock.Scheduled, NextTryTime: 1},
				}
				m.held[keyOf(id)] = name == "held"
				ops[i] = op(id)
			}
			groups := 0
			for ; len(ops) > 0; groups++ {
				m.loaded, m.locked = 0, nil
				ds, err := applyGroup(t.Context(), m,
					clock.WriteRequest{Now: now, Ops: ops, LoadBytes: maxLoad, LargestPayload: 4 * size}, 64, nil)
				if err != nil {
					t.Fatal(err)
				}
				if m.loaded > maxLoad {
					t.Errorf("a group of %d ops loaded %d bytes, %d at most", len(ops), m.loaded, maxLoad)
				}
				var later []clock.Op
				for i, d := range ds {
					if d.Verdict == clock.Postpone {
						later = append(later, ops[i])
					}
				}
				if len(later) == len(ops) {
					t.Fatal("a group decided nothing")
				}
				ops = later
			}
			if minGroups := rows * size / maxLoad; groups < minGroups || groups > 3*minGroups {
				t.Errorf("%d groups for %d bytes of rows", groups, rows*size)
			}
		})
	}
}
