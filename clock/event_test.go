package clock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// text returns the events in short.
func text(events []Event) string {
	var lines []string
	for _, e := range events {
		detail := e.Detail
		if e.RingAt != NoInstant {
			detail = fmt.Sprintf("for %d", e.RingAt)
		}
		lines = append(lines,
			strings.TrimSpace(fmt.Sprintf("%d %s %d.%d %s %s", e.At, e.Kind, e.Generation, e.RingNo, detail, e.By)))
	}
	return strings.Join(lines, "\n")
}

func TestEventsTellTheLifeOfAnAlarm(t *testing.T) {
	attempts := []Attempt{ // newest first
		{Generation: 2, RingNo: 1, Time: 40, Outcome: Released, Error: "no stock", By: "worker"},
		{Generation: 1, RingNo: 1, Time: 20, Outcome: Returned, Error: "no queue"},
		{Generation: 1, RingNo: 1, Time: 15, Outcome: Doubtful},
	}
	row := func(change func(*Alarm)) *Alarm {
		a := &Alarm{Generation: 2, CreateTime: 10, AnsweredAt: NoInstant, Attempts: slices.Clone(attempts)}
		a.RingNo, a.State, a.RungAt, a.UpdateTime, a.FinishedAt = 2, Rung, 50, 60, 60
		change(a)
		return a
	}
	const before = "10 created 1.0\n15 tried 1.1 in_doubt\n20 tried 1.1 returned: no queue\n40 released 2.1 no stock worker\n50 rung 2.2\n"
	for name, c := range map[string]struct {
		change func(*Alarm)
		want   string
	}{
		"acknowledged": {func(a *Alarm) { a.Answer, a.AnsweredAt, a.AnsweredBy = Ack, 60, "ann" },
			before + "60 acknowledged 2.2  ann"},
		"touched": {func(a *Alarm) { a.State, a.Answer, a.AnsweredAt, a.AnsweredBy = Ringing, Touch, 55, "ann" },
			before + "55 touched 2.2  ann"},
		"released":  {func(a *Alarm) { a.Answer, a.AnsweredAt = Release, 40 }, strings.TrimSpace(before)},
		"cancelled": {func(a *Alarm) { a.State = Cancelled }, before + "60 cancelled 2.0"},
		"dead":      {func(a *Alarm) { a.State, a.LastError = Dead, "too often" }, before + "60 dead 2.0 too often"},
		"expired":   {func(a *Alarm) { a.State, a.LastError = Expired, "late" }, before + "60 expired 2.0 late"},
		"paused":    {func(a *Alarm) { a.State, a.FinishedAt = Paused, NoInstant }, before + "60 paused 2.0"},
		"scheduled": {func(a *Alarm) {
			a.State, a.RungAt, a.FinishedAt, a.Attempts = Scheduled, NoInstant, NoInstant, nil
		}, "10 created 1.0"},
		"between occurrences": {func(a *Alarm) {
			a.State, a.FinishedAt = Scheduled, NoInstant
			a.Progress.Current.Number, a.Progress.RingsBefore = 5, 2
		}, strings.TrimSuffix(before, "2.2\n") + "2.0"},
		"dead, and repeating": {func(a *Alarm) {
			a.State, a.LastError = Dead, "no stock"
			a.Progress.Current.Number, a.Progress.RingsBefore = 5, 1
		}, strings.TrimSuffix(before, "2.2\n") + "2.0\n60 dead 2.0 no stock"},
		"buried and unanswered": {func(a *Alarm) {
			a.Attempts = []Attempt{{Generation: 2, RingNo: 2, Time: 60, Outcome: Buried},
				{Generation: 2, RingNo: 1, Time: 30, Outcome: Unacknowledged}}
		}, "10 created 1.0\n30 unanswered 2.1\n50 rung 2.2\n60 buried 2.2"},
	} {
		if got := text(row(c.change).Events(nil, nil, nil)); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestEventsHaveTheActsOfPeople(t *testing.T) {
	act := func(at Instant, action, after string) Act {
		return Act{At: at, Actor: Actor{Name: "ann"}, Action: action, After: after}
	}
	row := func(state State, updated, finished Instant) *Alarm {
		a := &Alarm{Generation: 3, CreateTime: 10, AnsweredAt: NoInstant}
		a.State, a.RungAt, a.UpdateTime, a.FinishedAt = state, NoInstant, updated, finished
		return a
	}
	const first, third = `{"state":"paused","generation":1,"note":"stock"}`, `{"state":"cancelled","generation":3}`
	const created = "10 created 1.0\n"
	for name, c := range map[string]struct {
		alarm *Alarm
		acts  []Act // newest first
		want  string
	}{
		"resumed, and cancelled by the application": {
			row(Cancelled, 40, 40), []Act{act(30, "resume", third), act(20, "pause", first)},
			created + "20 paused 1.0 stock ann\n30 resumed 3.0  ann\n40 cancelled 3.0",
		},
		"cancelled by a person": {
			row(Cancelled, 40, 40), []Act{act(40, "cancel", third)}, created + "40 cancelled 3.0  ann",
		},
		"resumed by a person without a token": {
			row(Scheduled, 40, NoInstant), []Act{{At: 40, Actor: Actor{From: "10.0.0.7"}, Action: "resume", After: third}},
			created + "40 resumed 3.0  10.0.0.7",
		},
		"discarded": {
			row(Cancelled, 40, 40), []Act{act(40, "discard", third)}, created + "40 discarded 3.0  ann",
		},
		"paused by a person": {
			row(Paused, 20, NoInstant), []Act{act(20, "pause", first)}, created + "20 paused 1.0 stock ann",
		},
		"paused, and changed since": {
			row(Paused, 25, NoInstant), []Act{act(20, "pause", first)}, created + "20 paused 1.0 stock ann\n25 paused 3.0",
		},
		"acts before the alarm": {
			row(Scheduled, 10, NoInstant), []Act{act(9, "cancel", third), act(8, "kick", third)}, created,
		},
		"acts that are not on the alarm": {
			row(Scheduled, 10, NoInstant), []Act{act(20, "bulk_start", first), act(20, "kick", "x")}, created,
		},
		"several": {
			row(Scheduled, 10, NoInstant),
			[]Act{
				act(24, "end_backfill", first), act(23, "backfill", first), act(22, "trigger", first), act(21, "kick", first),
			},
			created + "21 kicked 1.0 stock ann\n22 triggered 1.0 stock ann\n23 backfilled 1.0 stock ann\n" +
				"24 backfill_ended 1.0 stock ann",
		},
	} {
		if got := text(c.alarm.Events(c.acts, nil, nil)); got != strings.TrimSpace(c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
	jobs := []BulkAct{
		{Job: "K", At: 40, What: "cancel", By: "bob"}, {Job: "J", At: 15, What: "pause: stock", By: "ann"},
	}
	cancelled := row(Cancelled, 40, 40)
	cancelled.Past = PastGenerations("").with(&Alarm{Generation: 2, RingRow: RingRow{State: Scheduled}}, 30)
	want := "10 created 1.0\n15 bulk 2.0 pause: stock ann\n30 set 3.0 for 0\n40 bulk 3.0 cancel bob\n40 cancelled 3.0"
	if got := text(cancelled.Events(nil, jobs, nil)); got != want {
		t.Errorf("with jobs: got\n%s\nwant\n%s", got, want)
	}
	pauses := []ApplicationPause{
		{At: 5, By: "early", Paused: true}, {At: 20, By: "ann", Paused: true}, {At: 35, By: "bob"},
		{At: 41, By: "late", Paused: true},
	}
	want = "10 created 1.0\n20 application_paused 2.0  ann\n30 set 3.0 for 0\n" +
		"35 application_resumed 3.0  bob\n40 cancelled 3.0"
	if got := text(cancelled.Events(nil, nil, pauses)); got != want {
		t.Errorf("with pauses of the application: got\n%s\nwant\n%s", got, want)
	}
}
