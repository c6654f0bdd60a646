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

// On returns the starts of the newest jobs that may have changed the alarm.
func (r *Runner) On(ctx context.Context, a *clock.Alarm) ([]clock.BulkAct, error) {
	records, err := r.store.Jobs(ctx, readJobs)
	if err != nil {
		return nil, err
	}
	var acts []clock.BulkAct
	for _, record := range records {
		if a.UpdateTime < record.CreatedAt { // it has not changed since
			continue
		}
		if j, err := jobOf(record); err == nil && j.mayHaveChanged(a) {
			acts = append(acts, clock.BulkAct{Job: j.ID, At: j.CreatedAt, What: j.what(), By: j.By})
		}
	}
	return acts, nil
}

// mayHaveChanged reports whether the job's application, prefix and time are such that it may have changed an alarm.
func (j *Job) mayHaveChanged(a *clock.Alarm) bool {
	nothing := j.EndedAt != clock.NoInstant && !j.Left && j.Changed == 0
	return !nothing && j.Application == a.Application && strings.HasPrefix(a.BusinessID, j.Prefix) &&
		a.CreateTime <= j.FrozenAt
}

// what returns the action, with the note.
func (j *Job) what() string {
	if j.Note == "" {
		return string(j.Action)
	}
	return string(j.Action) + ": " + j.Note
}
