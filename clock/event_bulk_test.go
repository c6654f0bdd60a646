package clock

import (
	"strings"
	"testing"
	"time"
)

// named returns the events that a job is named in, in short.
func named(events []Event) string {
	var of []Event
	for _, e := range events {
		if e.Job != "" {
			of = append(of, e)
		}
	}
	return strings.ReplaceAll(text(of), "\n", "; ")
}

func TestEventsTellWhatBulkJobsDid(t *testing.T) {
	job := func(kind EventKind, begun, ended Instant) BulkAct {
		return BulkAct{Job: "J", Begun: begun, Ended: ended, Kind: kind, DueAfter: NoInstant, DueBefore: NoInstant,
			By: "ann", Note: "stock"}
	}
	due := func(j BulkAct, after, before Instant) BulkAct {
		j.DueAfter, j.DueBefore = after, before
		return j
	}
	shift := func(by time.Duration, begun Instant) BulkAct {
		j := job(EventSet, begun, begun+5)
		j.Shift = by
		return j
	}
	failed := []Attempt{
		{Generation: 1, RingNo: 1, Time: 20, Outcome: Returned}, {Generation: 1, RingNo: 1, Time: 15, Outcome: Nacked},
	}
	row := func(state State, updated, finished Instant, change ...func(*Alarm)) *Alarm {
		a := &Alarm{Generation: 1, CreateTime: 10, AnsweredAt: NoInstant}
		a.RingAt, a.Retry = 100, RetryPolicy{Limit: 1}
		a.State, a.RungAt, a.UpdateTime, a.FinishedAt = state, NoInstant, updated, finished
		for _, c := range change {
			c(a)
		}
		return a
	}
	reset := func(at Instant, was State) func(*Alarm) {
		return func(a *Alarm) {
			earlier := *row(was, 30, NoInstant)
			if was == Cancelled {
				earlier.FinishedAt = 30
			}
			a.Past, a.Generation, a.RingAt = PastGenerations("").with(&earlier, at), 2, 150
		}
	}
	tried := func(a *Alarm) { a.Attempts = failed }
	acknowledged := func(outcome OutcomeKind) func(*Alarm) {
		return func(a *Alarm) {
			a.AckTimeout, a.MaxRings = time.Second, 1
			a.Attempts = []Attempt{{Generation: 1, RingNo: 1, Time: 20, Outcome: outcome}}
		}
	}
	for name, c := range map[string]struct {
		alarm *Alarm
		jobs  []BulkAct // newest first
		want  string
	}{
		"cancelled": {
			row(Cancelled, 40, 40), []BulkAct{job(EventCancelled, 35, 50)}, "40 cancelled 1.0 stock ann",
		},
		"cancelled, job runs": {
			row(Cancelled, 40, 40), []BulkAct{job(EventCancelled, 35, NoInstant)}, "40 cancelled 1.0 stock ann",
		},
		"cancelled before": {row(Cancelled, 30, 30), []BulkAct{job(EventCancelled, 35, 50)}, ""},
		"cancelled after":  {row(Cancelled, 60, 60), []BulkAct{job(EventCancelled, 35, 50)}, ""},
		"cancelled, set again": {
			row(Scheduled, 45, NoInstant, reset(45, Cancelled)),
			[]BulkAct{job(EventCancelled, 28, 50)}, "30 cancelled 1.0 stock ann",
		},
		"discarded": {row(Cancelled, 40, 40), []BulkAct{job(EventDiscarded, 35, 50)}, "40 discarded 1.0 stock ann"},

		"shifted": {
			row(Scheduled, 45, NoInstant, reset(45, Scheduled)), []BulkAct{shift(50*time.Millisecond, 44)},
			"45 set 2.0 for 150 ann",
		},
		"set by the application meanwhile": {
			row(Scheduled, 45, NoInstant, reset(45, Scheduled)), []BulkAct{shift(30*time.Millisecond, 44)}, "",
		},

		"paused": {row(Paused, 40, NoInstant), []BulkAct{job(EventPaused, 35, 50)}, "40 paused 1.0 stock ann"},
		"paused and resumed": {
			row(Scheduled, 60, NoInstant), []BulkAct{job(EventResumed, 55, 61), job(EventPaused, 35, 50)},
			"35 paused 1.0 stock ann; 55 resumed 1.0 stock ann",
		},
		"paused, resumed and set again": {
			row(Scheduled, 90, NoInstant, reset(80, Scheduled)),
			[]BulkAct{job(EventResumed, 55, 61), job(EventPaused, 35, 50)},
			"35 paused 1.0 stock ann; 55 resumed 1.0 stock ann",
		},
		"resumed, but it was not paused": {row(Scheduled, 60, NoInstant), []BulkAct{job(EventResumed, 55, 61)}, ""},
		"paused, but it has not changed": {row(Scheduled, 30, NoInstant), []BulkAct{job(EventPaused, 35, 50)}, ""},
		"paused, but it was over":        {row(Rung, 30, 30), []BulkAct{job(EventPaused, 35, 50)}, ""},
		"paused, but it is due later": {
			row(Scheduled, 60, NoInstant), []BulkAct{due(job(EventPaused, 35, 50), NoInstant, 100)}, "",
		},
		"paused, but it is due earlier": {
			row(Scheduled, 60, NoInstant), []BulkAct{due(job(EventPaused, 35, 50), 101, NoInstant)}, "",
		},
		"paused in the range of its due time": {
			row(Scheduled, 60, NoInstant),
			[]BulkAct{due(job(EventPaused, 35, 50), 100, 101)}, "35 paused 1.0 stock ann",
		},

		"paused, but its ring waited": {
			row(Rung, 60, 60, func(a *Alarm) { a.RungAt, a.RingNo = 30, 1 }), []BulkAct{job(EventPaused, 35, 50)}, "",
		},
		"paused, but its ring was in doubt": {
			row(Scheduled, 60, NoInstant, func(a *Alarm) {
				a.Attempts = []Attempt{{Generation: 1, RingNo: 1, Time: 20, Outcome: Doubtful}}
			}), []BulkAct{job(EventPaused, 35, 50)}, "",
		},
		"paused after a release": {
			row(Rung, 60, 60, func(a *Alarm) {
				a.Attempts = []Attempt{{Generation: 1, RingNo: 1, Time: 20, Outcome: Released}}
			}), []BulkAct{job(EventPaused, 35, 50)}, "35 paused 1.0 stock ann",
		},

		"kicked": {
			row(Scheduled, 60, NoInstant, tried), []BulkAct{job(EventKicked, 35, 50)}, "35 kicked 1.0 stock ann",
		},
		"kicked, but not again": {
			row(Scheduled, 60, NoInstant, tried),
			[]BulkAct{job(EventKicked, 55, 56), job(EventKicked, 35, 50)}, "35 kicked 1.0 stock ann",
		},
		"kicked, but it retried": {
			row(Scheduled, 60, NoInstant, tried, func(a *Alarm) { a.Retry.Limit = 2 }),
			[]BulkAct{job(EventKicked, 35, 50)}, "",
		},
		"kicked after a bury": {
			row(Scheduled, 60, NoInstant, acknowledged(Buried)),
			[]BulkAct{job(EventKicked, 35, 50)}, "35 kicked 1.0 stock ann",
		},
		"kicked after its rings": {
			row(Scheduled, 60, NoInstant, acknowledged(Unacknowledged)),
			[]BulkAct{job(EventKicked, 35, 50)}, "35 kicked 1.0 stock ann",
		},
		"kicked, and it is dead": {row(Dead, 30, 30, tried), []BulkAct{job(EventKicked, 35, 50)}, ""},
	} {
		if got := named(c.alarm.Events(nil, c.jobs)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	act := Act{At: 40, Actor: Actor{Name: "bob"}, Action: "cancel", After: `{"state":"cancelled","generation":1}`}
	if got := named(row(Cancelled, 40, 40).Events([]Act{act}, []BulkAct{job(EventCancelled, 35, 50)})); got != "" {
		t.Errorf("the cancel of a person is told as that of a job: %q", got)
	}
}
