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
		lines = append(lines,
			strings.TrimSpace(fmt.Sprintf("%d %s %d.%d %s %s", e.At, e.Kind, e.Generation, e.RingNo, e.Detail, e.By)))
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
		"buried and unanswered": {func(a *Alarm) {
			a.Attempts = []Attempt{{Generation: 2, RingNo: 2, Time: 60, Outcome: Buried},
				{Generation: 2, RingNo: 1, Time: 30, Outcome: Unacknowledged}}
		}, "10 created 1.0\n30 unanswered 2.1\n50 rung 2.2\n60 buried 2.2"},
	} {
		if got := text(row(c.change).Events()); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
