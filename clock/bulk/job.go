package bulk

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
)

// Status is the state of a job.
type Status string

// The states of a job.
const (
	Waiting Status = "waiting" // no node works on it
	Running Status = "running"
	Done    Status = "done"
	Stopped Status = "stopped" // a person has stopped it
	Failed  Status = "failed"  // its document cannot be read
)

// Job is a change of many alarms.
type Job struct {
	ID        string
	CreatedAt clock.Instant
	EndedAt   clock.Instant // NoInstant: it has not ended
	Owner     string        // incarnation of the node that works on it; empty: none
	Status    Status        // when it was read
	Document

	record clock.JobRecord // as it was read
}

// Document is the part of a job that a store does not look into.
type Document struct {
	Filter
	By      string         // who started the job
	Cursor  string         // position up to which it is done
	Changed int            // alarms that it has changed
	Refused map[string]int // alarms that it could not change, by code
	Stop    bool           // a person wants the job to end
	Left    bool           // the job ended before all alarms were looked at
}

// storedDocument is a document as JSON. Instants are milliseconds, -1 for NoInstant; states are numbers.
type storedDocument struct {
	Application string         `json:"application"`
	Action      Action         `json:"action"`
	States      []int8         `json:"states"`
	Prefix      string         `json:"prefix,omitempty"`
	DueAfter    int64          `json:"due_after"`
	DueBefore   int64          `json:"due_before"`
	ShiftMillis int64          `json:"shift_millis,omitempty"`
	FrozenAt    int64          `json:"frozen_at"`
	By          string         `json:"by"`
	Note        string         `json:"note,omitempty"`
	Cursor      string         `json:"cursor,omitempty"`
	Changed     int            `json:"changed"`
	Refused     map[string]int `json:"refused,omitempty"`
	Stop        bool           `json:"stop,omitempty"`
	Left        bool           `json:"left,omitempty"`
}

func (d *Document) stored() *storedDocument {
	s := &storedDocument{
		Application: d.Application, Action: d.Action, Prefix: d.Prefix, DueAfter: int64(d.DueAfter),
		DueBefore:   int64(d.DueBefore),
		ShiftMillis: d.ShiftMillis, FrozenAt: int64(d.FrozenAt), By: d.By, Note: d.Note, Cursor: d.Cursor,
		Changed: d.Changed, Refused: d.Refused, Stop: d.Stop, Left: d.Left,
	}
	for _, state := range d.States {
		s.States = append(s.States, int8(state))
	}
	return s
}

func (s *storedDocument) document() Document {
	d := Document{
		Filter: Filter{
			Application: s.Application, Action: s.Action, Prefix: s.Prefix, DueAfter: clock.Instant(s.DueAfter),
			DueBefore:   clock.Instant(s.DueBefore),
			ShiftMillis: s.ShiftMillis, FrozenAt: clock.Instant(s.FrozenAt), Note: s.Note,
		},
		By: s.By, Cursor: s.Cursor, Changed: s.Changed, Refused: s.Refused, Stop: s.Stop, Left: s.Left,
	}
	for _, state := range s.States {
		d.States = append(d.States, clock.State(state))
	}
	return d
}

// jobOf reads a record. The filter must be one that a person may give.
func jobOf(r clock.JobRecord) (*Job, error) {
	j := &Job{ID: r.ID, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt, Owner: r.Owner, record: r}
	j.DueAfter, j.DueBefore, j.FrozenAt = clock.NoInstant, clock.NoInstant, r.CreatedAt
	var stored storedDocument
	if err := json.Unmarshal([]byte(r.Document), &stored); err != nil {
		return j, fmt.Errorf("read the document of job %s: %w", r.ID, err)
	}
	document := stored.document()
	if err := document.Validate(); err != nil {
		return j, fmt.Errorf("read the filter of job %s: %w", r.ID, err)
	}
	j.Document = document
	return j, nil
}

// next returns the record to write: the job with its changes, under the revision that was read. An unreadable document
// stays: another build may read it.
func (j *Job) next() (clock.JobRecord, error) {
	r := j.record
	r.EndedAt, r.Owner = j.EndedAt, j.Owner
	if j.Action == "" {
		return r, nil
	}
	document, err := json.Marshal(j.stored())
	if err != nil {
		return clock.JobRecord{}, fmt.Errorf("write the document of job %s: %w", j.ID, err)
	}
	r.Document = string(document)
	return r, nil
}

// statusAt returns the state of the job at an instant.
func (j *Job) statusAt(now clock.Instant) Status {
	switch {
	case j.EndedAt != clock.NoInstant && j.Action == "":
		return Failed
	case j.EndedAt != clock.NoInstant && j.Left:
		return Stopped
	case j.EndedAt != clock.NoInstant:
		return Done
	case j.Owner == "" || j.record.LeaseUntil <= now:
		return Waiting
	}
	return Running
}

// RefusedTotal returns the number of alarms that the job could not change.
func (j *Job) RefusedTotal() (total int) {
	for _, n := range j.Refused {
		total += n
	}
	return total
}

// op returns the op that changes an alarm. With a due range it does not change an alarm that was set anew since it was
// read, because it may be due at another time.
func (d *Document) op(a selected) clock.Op {
	k, condition := a.Key, clock.Condition{}
	if d.byDue() {
		condition = clock.Condition{Kind: clock.AtGeneration, Generation: a.generation}
	}
	switch d.Action {
	case Kick:
		return clock.Op{Kick: &clock.Kick{Key: k, If: condition}, WithoutPayload: true}
	case Discard:
		return clock.Op{Discard: &clock.Discard{Key: k, If: condition}, WithoutPayload: true}
	case Pause:
		return clock.Op{Pause: &clock.Pause{Key: k, If: condition, By: d.By}, Note: d.Note, WithoutPayload: true}
	case Resume:
		return clock.Op{Resume: &clock.Resume{Key: k, If: condition}, WithoutPayload: true}
	case Shift:
		by := time.Duration(d.ShiftMillis) * time.Millisecond
		return clock.Op{Shift: &clock.Shift{Key: k, By: by, UnchangedSince: d.FrozenAt}, WithoutPayload: true}
	default:
		return clock.Op{Cancel: &clock.Cancel{Key: k, If: condition, Brief: true}, WithoutPayload: true}
	}
}
