package bulk

import (
	"context"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// actFilter is what the act of a start says: the filter.
type actFilter struct {
	Action    Action   `json:"action"`
	States    []string `json:"states"`
	Prefix    string   `json:"prefix,omitempty"`
	DueAfter  string   `json:"due_after,omitempty"`
	DueBefore string   `json:"due_before,omitempty"`
	Shift     string   `json:"shift,omitempty"`
	FrozenAt  string   `json:"frozen_at"`
	Note      string   `json:"note,omitempty"`
	By        string   `json:"by,omitempty"` // of a sender without a token
}

// startAct returns the act of the job's start.
func (j *Job) startAct(by clock.Actor) clock.Act {
	f := actFilter{Action: j.Action, Prefix: j.Prefix, FrozenAt: j.FrozenAt.String(), Note: j.Note}
	if by.Name == "" {
		f.By = j.By
	}
	for _, state := range j.States {
		f.States = append(f.States, state.String())
	}
	if j.DueAfter != clock.NoInstant {
		f.DueAfter = j.DueAfter.String()
	}
	if j.DueBefore != clock.NoInstant {
		f.DueBefore = j.DueBefore.String()
	}
	if j.ShiftMillis != 0 {
		f.Shift = (time.Duration(j.ShiftMillis) * time.Millisecond).String()
	}
	return clock.Act{
		At: j.CreatedAt, Actor: by, Action: "bulk_start", Application: j.Application, Subject: j.ID,
		After: clock.ActJSON(f),
	}
}

// stopAct returns the act of a person who stops the job.
func (j *Job) stopAct(now clock.Instant, by clock.Actor) clock.Act {
	type state struct {
		Changed int `json:"changed"` // up to the last page that was written
	}
	return clock.Act{
		At: now, Actor: by, Action: "bulk_stop", Application: j.Application, Subject: j.ID,
		After: clock.ActJSON(state{j.Changed}),
	}
}

// kinds has the event of each action in the life of an alarm.
var kinds = map[Action]clock.EventKind{
	Cancel: clock.EventCancelled, Kick: clock.EventKicked, Discard: clock.EventDiscarded, Pause: clock.EventPaused,
	Resume: clock.EventResumed, Shift: clock.EventSet,
}

// On returns the newest jobs whose filters may have selected the alarm.
func (r *Runner) On(ctx context.Context, a *clock.Alarm) ([]clock.BulkAct, error) {
	records, err := r.store.Jobs(ctx, readJobs)
	if err != nil {
		return nil, err
	}
	var acts []clock.BulkAct
	for _, record := range records {
		if record.EndedAt != clock.NoInstant && record.EndedAt < a.CreateTime {
			continue
		}
		if j, err := jobOf(record); err == nil && j.reached(a) {
			acts = append(acts, clock.BulkAct{
				Job: j.ID, Begun: j.CreatedAt, Ended: j.EndedAt, Kind: kinds[j.Action],
				Shift: time.Duration(j.ShiftMillis) * time.Millisecond, DueAfter: j.DueAfter, DueBefore: j.DueBefore,
				By: j.By, Note: j.Note,
			})
		}
	}
	return acts, nil
}

// reached reports whether the filter selects the name and the age of an alarm, and the job has come as far.
func (j *Job) reached(a *clock.Alarm) bool {
	if j.Application != a.Application || !strings.HasPrefix(a.BusinessID, j.Prefix) || a.CreateTime > j.FrozenAt {
		return false
	}
	if j.EndedAt != clock.NoInstant && !j.Left {
		return true
	}
	position, err := clock.DecodeCursor(j.Application, j.Cursor)
	return err == nil && (position.BusinessID == "" || a.BusinessID <= position.BusinessID)
}
