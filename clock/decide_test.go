package clock

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	tableGeneration = 3
	tableNow        = Instant(1_000_000)
)

// tableRow returns the row with this name in the tables, nil for "none".
func tableRow(name string) *Alarm {
	kind, inDoubt := strings.CutSuffix(name, " in doubt")
	a := &Alarm{
		ID: 7, Key: Key{"shop", "4711"}, Shard: 5, Generation: tableGeneration, Content: testContent(),
		Traceparent: "old",
		AnsweredAt:  NoInstant, CreateTime: 100, RingRow: RingRow{
			NextTryTime: 2_000_500, RingNo: 1, RetryTimes: 4, LastError: "no queue", InDoubt: inDoubt, ClaimID: "c",
			RungAt:     900,
			UpdateTime: 200, FinishedAt: NoInstant,
		},
	}
	switch kind {
	case "none":
		return nil
	case "claimed":
		a.State, a.RungAt = Ringing, NoInstant
	default:
		s, err := ParseState(kind)
		if err != nil {
			panic(err)
		}
		a.State = s
		if s.Over() || s == Paused {
			a.NextTryTime = NoInstant
		}
		if s.Over() {
			a.FinishedAt = 950
		}
	}
	return a
}

func tableSet(content string) *Set {
	s := testSet("4711")
	s.Traceparent = "new"
	switch content {
	case "earlier":
		s.RingAt--
	case "later":
		s.RingAt++
	case "payload":
		s.Payload = []byte(`{"a":2}`)
	}
	return s
}

// tableConditions are the columns of setTable.
var tableConditions = []Condition{
	{Kind: AnyRow}, {Kind: Absent}, {Kind: Earlier}, {Kind: Later},
	{Kind: AtGeneration, Generation: tableGeneration},
	{Kind: AtGeneration, Generation: tableGeneration - 1}, // the generation before the caller's own set
	{Kind: AtGeneration, Generation: tableGeneration + 6},
}

// setTable has the verdict on a set by row, content and condition. C create, K keep, R replace, A re-arm, W wait,
// X 412 condition_failed, D 409 ring_in_doubt.
var setTable = []struct{ row, content, want string }{
	//                                 any absent earlier later =gen gen-1 other
	{"none", "same" /*             */, "C  C      C       C     X    X     X"},
	{"scheduled", "same" /*        */, "K  X      K       K     K    K     X"},
	{"scheduled", "earlier" /*     */, "R  X      R       X     R    X     X"},
	{"scheduled", "later" /*       */, "R  X      X       R     R    X     X"},
	{"scheduled", "payload" /*     */, "R  X      K       K     R    X     X"},
	{"paused", "same" /*           */, "K  X      K       K     K    K     X"},
	{"paused", "earlier" /*        */, "R  X      R       X     R    X     X"},
	{"paused", "later" /*          */, "R  X      X       R     R    X     X"},
	{"paused", "payload" /*        */, "R  X      K       K     R    X     X"},
	{"ringing", "same" /*          */, "K  X      K       K     K    K     X"},
	{"ringing", "earlier" /*       */, "R  X      R       R     R    X     X"},
	{"ringing", "later" /*         */, "R  X      R       R     R    X     X"},
	{"ringing", "payload" /*       */, "R  X      R       R     R    X     X"},
	{"claimed", "same" /*          */, "K  X      K       K     K    K     X"},
	{"claimed", "earlier" /*       */, "W  X      W       W     W    X     X"},
	{"claimed", "later" /*         */, "W  X      W       W     W    X     X"},
	{"claimed", "payload" /*       */, "W  X      W       W     W    X     X"},
	{"rung", "same" /*             */, "K  X      K       K     K    K     X"},
	{"rung", "earlier" /*          */, "A  X      A       A     A    X     X"},
	{"rung", "later" /*            */, "A  X      A       A     A    X     X"},
	{"rung", "payload" /*          */, "A  X      A       A     A    X     X"},
	{"expired", "same" /*          */, "K  X      K       K     K    K     X"},
	{"expired", "earlier" /*       */, "A  X      A       A     A    X     X"},
	{"expired", "later" /*         */, "A  X      A       A     A    X     X"},
	{"expired", "payload" /*       */, "A  X      A       A     A    X     X"},
	{"dead", "same" /*             */, "K  X      K       K     K    K     X"},
	{"dead", "earlier" /*          */, "A  X      A       A     A    X     X"},
	{"dead", "later" /*            */, "A  X      A       A     A    X     X"},
	{"dead", "payload" /*          */, "A  X      A       A     A    X     X"},
	{"cancelled", "same" /*        */, "A  X      A       A     A    K     X"},
	{"cancelled", "earlier" /*     */, "A  X      A       A     A    X     X"},
	{"cancelled", "later" /*       */, "A  X      A       A     A    X     X"},
	{"cancelled", "payload" /*     */, "A  X      A       A     A    X     X"},
	{"scheduled in doubt", "same" /*   */, "K  X      K       K     K    K     X"},
	{"scheduled in doubt", "earlier" /**/, "D  X      D       X     D    X     X"},
	{"scheduled in doubt", "later" /*  */, "D  X      X       D     D    X     X"},
	{"scheduled in doubt", "payload" /**/, "D  X      K       K     D    X     X"},
	{"paused in doubt", "same" /*      */, "K  X      K       K     K    K     X"},
	{"paused in doubt", "payload" /*   */, "D  X      K       K     D    X     X"},
	{"claimed in doubt", "same" /*     */, "K  X      K       K     K    K     X"},
	{"claimed in doubt", "payload" /*  */, "W  X      W       W     W    X     X"},
	{"dead in doubt", "same" /*        */, "K  X      K       K     K    K     X"},
	{"dead in doubt", "payload" /*     */, "A  X      A       A     A    X     X"},
	{"expired in doubt", "payload" /*  */, "A  X      A       A     A    X     X"},
}

func TestSetsAreJudgedAsInTheTable(t *testing.T) {
	for _, c := range setTable {
		wants := strings.Fields(c.want)
		if len(wants) != len(tableConditions) {
			t.Fatalf("%s, %s has %d columns", c.row, c.content, len(wants))
		}
		for i, want := range wants {
			s := tableSet(c.content)
			s.If = tableConditions[i]
			t.Run(fmt.Sprintf("%s/%s/%s%d", c.row, c.content, s.If.Kind, s.If.Generation), func(t *testing.T) {
				row := tableRow(c.row)
				d := Op{Set: s}.Decide(row, tableNow)
				if got := verdictLetter(t, d); got != want {
					t.Fatalf("%s (%v), want %s", got, d.Err, want)
				}
				checkUnharmed(t, row, tableRow(c.row))
				checkSetDecision(t, d, row, s)
			})
		}
	}
}

func verdictLetter(t *testing.T, d Decision) string {
	t.Helper()
	if d.Verdict != Refuse {
		if d.Err != nil {
			t.Errorf("%s with an error: %v", d.Verdict, d.Err)
		}
		return map[Verdict]string{Create: "C", Keep: "K", Replace: "R", Rearm: "A", Locked: "W", Disarm: "S",
			Amend: "M"}[d.Verdict]
	}
	var e *Error
	if !errors.As(d.Err, &e) {
		t.Fatalf("refused with %v, which is no *Error", d.Err)
	}
	for letter, want := range map[string]struct {
		kind error
		code string
	}{
		"X": {ErrPrecondition, CodeConditionFailed}, "D": {ErrConflict, CodeRingInDoubt},
		"N": {ErrNotFound, CodeUnknownAlarm},
		"r": {ErrConflict, CodeAlreadyRung}, "e": {ErrConflict, CodeAlreadyExpired},
		"d": {ErrConflict, CodeAlreadyDead},
		"u": {ErrNotFound, CodeUnknownRing}, "s": {ErrConflict, CodeStaleRing}, "n": {ErrConflict, CodeNotDead},
		"c": {ErrConflict, CodeAlreadyCancelled},
	} {
		if e.Code == want.code {
			if !errors.Is(e, want.kind) || e.Detail == "" {
				t.Errorf("%s comes as %v, %q", e.Code, e.Kind, e.Detail)
			}
			return letter
		}
	}
	return e.Code
}

// checkUnharmed checks that Decide did not change the row in place.
func checkUnharmed(t *testing.T, row, before *Alarm) {
	t.Helper()
	if !reflect.DeepEqual(row, before) {
		t.Errorf("the row was changed in place: %+v", row)
	}
}

func checkSetDecision(t *testing.T, d Decision, row *Alarm, s *Set) {
	t.Helper()
	switch {
	case !d.Writes():
		checkStands(t, d, row)
	case row == nil:
		want := Alarm{
			Key: s.Key, Generation: 1, Content: s.Content, Traceparent: "new", AnsweredAt: NoInstant,
			CreateTime: tableNow,
			RingRow: RingRow{State: Scheduled, NextTryTime: max(s.RingAt, tableNow), RungAt: NoInstant,
				UpdateTime: tableNow, FinishedAt: NoInstant},
		}
		if !reflect.DeepEqual(d.Alarm, want) {
			t.Errorf("created\n%+v, want\n%+v", d.Alarm, want)
		}
	default:
		want := Alarm{
			ID: row.ID, Shard: row.Shard, Key: s.Key, Generation: tableGeneration + 1, Content: s.Content,
			Traceparent: "new",
			AnsweredAt:  NoInstant, CreateTime: row.CreateTime, Past: row.Past.with(row, tableNow),
			RingRow: RingRow{State: Scheduled, NextTryTime: max(s.RingAt, tableNow), RungAt: NoInstant,
				UpdateTime: tableNow, FinishedAt: NoInstant},
		}
		if row.State == Paused {
			want.State, want.NextTryTime = Paused, NoInstant
		}
		if !reflect.DeepEqual(d.Alarm, want) {
			t.Errorf("changed to\n%+v, want\n%+v", d.Alarm, want)
		}
	}
}

// checkStands checks that a decision which writes nothing carries the unchanged row, and that its error does too.
func checkStands(t *testing.T, d Decision, row *Alarm) {
	t.Helper()
	var e *Error
	if row == nil {
		if !reflect.DeepEqual(d.Alarm, Alarm{}) || errors.As(d.Err, &e) && e.Alarm != nil {
			t.Errorf("a decision without a row carries %+v", d.Alarm)
		}
		return
	}
	if !reflect.DeepEqual(d.Alarm, *row) {
		t.Errorf("%s carries\n%+v, want\n%+v", d.Verdict, d.Alarm, *row)
	}
	if errors.As(d.Err, &e) && (e.Alarm == nil || e.Alarm == row || !reflect.DeepEqual(e.Alarm, row)) {
		t.Errorf("the refusal carries %+v", e.Alarm)
	}
}

func TestCancelsAreJudgedAsInTheTable(t *testing.T) {
	conditions := []Condition{
		{Kind: AnyRow}, {Kind: AtGeneration, Generation: tableGeneration},
		{Kind: AtGeneration, Generation: tableGeneration - 1},
	}
	for _, c := range []struct{ row, want string }{ // S cancelled; r e d already rung, expired, dead; N not found
		//                             any =gen gen-1
		{"none" /*                 */, "N  N    N"},
		{"scheduled" /*            */, "S  S    X"},
		{"scheduled in doubt" /*   */, "D  D    X"},
		{"paused" /*               */, "S  S    X"},
		{"paused in doubt" /*      */, "D  D    X"},
		{"ringing" /*              */, "r  r    X"},
		{"claimed" /*              */, "W  W    X"},
		{"claimed in doubt" /*     */, "W  W    X"},
		{"rung" /*                 */, "r  r    X"},
		{"expired" /*              */, "e  e    X"},
		{"expired in doubt" /*     */, "e  e    X"},
		{"dead" /*                 */, "d  d    X"},
		{"dead in doubt" /*        */, "d  d    X"},
		{"cancelled" /*            */, "K  K    X"},
	} {
		for i, want := range strings.Fields(c.want) {
			t.Run(fmt.Sprintf("%s/%s%d", c.row, conditions[i].Kind, conditions[i].Generation), func(t *testing.T) {
				row := tableRow(c.row)
				d := Op{Cancel: &Cancel{Key: Key{"shop", "4711"}, If: conditions[i]}}.Decide(row, tableNow)
				if got := verdictLetter(t, d); got != want {
					t.Fatalf("%s (%v), want %s", got, d.Err, want)
				}
				checkUnharmed(t, row, tableRow(c.row))
				checkCancelDecision(t, d, row)
			})
		}
	}
}

func checkCancelDecision(t *testing.T, d Decision, row *Alarm) {
	t.Helper()
	if !d.Writes() {
		checkStands(t, d, row)
		return
	}
	want := *row
	want.State, want.NextTryTime, want.UpdateTime, want.FinishedAt = Cancelled, NoInstant, tableNow, tableNow
	if !reflect.DeepEqual(d.Alarm, want) {
		t.Errorf("cancelled to\n%+v, want\n%+v", d.Alarm, want)
	}
}

func TestLockTimeoutIsUnavailableOrInDoubt(t *testing.T) {
	cancel, answer := Op{Cancel: &Cancel{}}, Op{Answer: &Answer{}}
	for _, c := range []struct {
		op   Op
		row  *Alarm
		kind error
		code string
	}{
		{cancel, nil, ErrUnavailable, CodeUnavailable},
		{cancel, &Alarm{}, ErrUnavailable, CodeUnavailable},
		{cancel, tableRow("scheduled"), ErrUnavailable, CodeUnavailable},
		{cancel, tableRow("claimed"), ErrConflict, CodeRingInDoubt},
		{answer, tableRow("scheduled"), ErrUnavailable, CodeUnavailable},
		{answer, tableRow("claimed"), ErrUnavailable, CodeUnavailable},
	} {
		err := c.op.LockTimeoutError(c.row)
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("LockTimeoutError(%+v) = %v", c.row, err)
		} else if c.kind == ErrUnavailable && e.RetryAfter <= 0 {
			t.Error("503 without RetryAfter")
		}
	}
}

func TestVerdictsHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for v := Create; v <= Locked; v++ {
		if name := v.String(); name == "" || seen[name] {
			t.Errorf("verdict %d is named %q", v, name)
		}
		seen[v.String()] = true
	}
}

// TestNextTryIsNeverBeforeTheWrite: no write stores a next_try_time before its own time, so a read of the last seconds
// of the due index finds every recent write. ring_at stays as it was given.
func TestNextTryIsNeverBeforeTheWrite(t *testing.T) {
	past := Content{RingAt: tableNow - 3_600_000, LatestRingAt: tableNow - 1_800_000, MaxRings: 1}
	key := Key{"shop", "4711"}
	set := Op{Set: &Set{Key: key, Content: past}}
	over := Alarm{ID: 7, Key: key, Generation: 1, RingRow: RingRow{State: Rung, NextTryTime: NoInstant, FinishedAt: 5}}
	scheduled := over
	scheduled.State, scheduled.NextTryTime, scheduled.FinishedAt = Scheduled, tableNow+5, NoInstant
	dead := over
	dead.State = Dead
	paused := scheduled
	paused.Content, paused.State, paused.NextTryTime = past, Paused, NoInstant
	for name, d := range map[string]Decision{
		"create": set.Decide(nil, tableNow), "replace": set.Decide(&scheduled, tableNow),
		"re-arm": set.Decide(&over, tableNow),
		"kick":   Op{Kick: &Kick{Key: key}}.Decide(&dead, tableNow),
		"resume": Op{Resume: &Resume{Key: key}}.Decide(&paused, tableNow),
	} {
		if d.Err != nil || d.Alarm.NextTryTime != tableNow || d.Alarm.State != Scheduled {
			t.Errorf("%s: %v, next try at %s, written at %s", name, d.Err, d.Alarm.NextTryTime, tableNow)
		}
		if d.Verdict != Amend && d.Alarm.RingAt != past.RingAt {
			t.Errorf("%s: ring_at is %s", name, d.Alarm.RingAt)
		}
	}
}

// TestUnreadableRowIsReplacedOrEnded demands that no other op changes a row that cannot be read: it would write what it
// has read of it, and nothing of the rest.
func TestUnreadableRowIsReplacedOrEnded(t *testing.T) {
	key := Key{"shop", "4711"}
	for _, c := range []struct {
		state string
		op    Op
		want  Verdict
	}{
		{"scheduled", Op{Set: tableSet("same")}, Replace},
		{"scheduled", Op{Cancel: &Cancel{Key: key}}, Disarm},
		{"dead", Op{Discard: &Discard{Key: key}}, Amend},
		{"dead", Op{Kick: &Kick{Key: key}}, Refuse},
		{"scheduled", Op{Pause: &Pause{Key: key}}, Refuse},
		{"paused", Op{Resume: &Resume{Key: key}}, Refuse},
		{"scheduled", Op{Trigger: &Trigger{Key: key}}, Refuse},
		{"scheduled", Op{Backfill: &Backfill{Key: key, Until: NoInstant}}, Refuse},
		{"scheduled", Op{EndBackfill: &EndBackfill{Key: key}}, Refuse},
		{"scheduled", Op{Shift: &Shift{Key: key, By: 1, UnchangedSince: tableNow}}, Refuse},
		{"ringing", Op{Answer: &Answer{Key: key, Kind: Ack, Ring: RingID{7, tableGeneration, 1}}}, Refuse},
		{"rung", Op{Resend: &Resend{Key: key, Ring: RingID{7, tableGeneration, 1}, ClaimID: "c"}}, Refuse},
		{"scheduled", Op{Recompute: &Recompute{Key: key}}, Keep},
	} {
		row := tableRow(c.state)
		row.AckTimeout, row.Unreadable = time.Minute, "column repeat_rule cannot be read"
		d := c.op.Decide(row, tableNow)
		if d.Verdict != c.want {
			t.Errorf("%s: %s, %v", c.op.Name(), d.Verdict, d.Err)
		}
		if refused, ok := errors.AsType[*Error](d.Err); d.Verdict == Refuse && (!ok || refused.Code != CodeUnreadable) {
			t.Errorf("%s: %v", c.op.Name(), d.Err)
		}
	}
}
