package clock

import (
	"fmt"
	"math"

	"github.com/clockd/clockd/clock/repeat"
)

// ChooseOccurrence decides which occurrence of a due row rings at now, and returns the row with that decision.
// Occurrences that the rule counts as missed are counted. If none of the due occurrences rings, rings is false: the row
// to write waits for a later occurrence, or has ended. A row whose current occurrence has begun, or was decided before,
// stays as it is.
func (r Repetition) ChooseOccurrence(row RingRow, now Instant) (chosen RingRow, rings bool) {
	p := &row.Progress
	if p.Backfill.Rings && !row.begun() && r.RingAt(p.Current) <= now {
		p.Backfill.Rings = false // the occurrence came due meanwhile, and comes first
	}
	if p.unplannedAt() != 0 || r.decided(&row) {
		return row, true
	}
	due := r.Rule.Due(r.Alarm, p.Current, int64(now), MissedGrace)
	row.passNumbers(due.Missed + due.Outside)
	p.Missed, p.Outside = p.Missed+due.Missed, p.Outside+due.Outside
	p.RingsBefore, p.DecidedUntil = row.RingNo, int64(now)
	if len(due.Ring) > 0 {
		if p.Current != due.Ring[0] { // otherwise its label, and Next, stay: a node with newer time-zone data may have computed them
			r.begin(p, due.Ring[0])
		}
		return row, true
	}
	if due.More { // of a very long outage: the next claim goes on
		p.DecidedUntil = 0
	}
	r.wait(&row, due.Next, now)
	if due.Last {
		r.begin(p, due.Latest)
		if p.Ended = MissedCount; due.Missed == 0 {
			p.Ended = OutsideCount
		}
		row.finish(Expired, now)
		row.LastError = "the last occurrence was missed"
	}
	return row, false
}

// Occurrences returns the next occurrences of a repeating alarm, at most count: the current one if it rings now or
// waits for a further try, and then those whose rings are later than now. Earlier ones, which Missed or Overlap of the
// rule may still let ring, are not listed. A number is 0 if more than counted occurrences have passed since the current
// one. An alarm that rings once or is over has none.
func (a *Alarm) Occurrences(now Instant, count, counted int) (list []repeat.Occurrence) {
	p := &a.Progress
	if !p.Repeats() || a.State.Over() {
		return nil
	}
	r, next := a.Repetition(), p.Current
	if p.unplannedAt() == 0 && r.decided(&a.RingRow) {
		list, next = append(list, p.Current), p.Next
	}
	if next.Number == 0 {
		return list
	}
	return append(list, a.Repeat.Upcoming(r.Alarm, next, int64(now), count-len(list), counted)...)
}

// decided reports whether the current occurrence rings however late: it has begun, or a claim or a person decided so.
func (r Repetition) decided(row *RingRow) bool {
	p := &row.Progress
	return row.begun() || p.Kicked || p.Queued || int64(r.RingAt(p.Current)) <= p.DecidedUntil
}

// wait lets the row wait for its next occurrence. Number 0: there is none, and the row stays as it is.
func (r Repetition) wait(row *RingRow, next repeat.Occurrence, now Instant) {
	p := &row.Progress
	row.UpdateTime = now
	if next.Number == 0 {
		p.Next = next
		return
	}
	if p.Current != next { // after a triggered ring it is the current one; Next and Label stay, as for a claim
		r.begin(p, next)
	}
	p.RingsBefore, p.Queued, p.Kicked, p.Ended = row.RingNo, false, false, NoCount
	row.State, row.RetryTimes, row.InDoubt, row.FinishedAt, row.DoubtTarget = Scheduled, 0, false, NoInstant, NoTarget
	r.await(row, now)
}

// await sets the due time of a row whose next ring has not begun: its current occurrence's, or its backfill's if it is
// earlier. An occurrence that is due comes first.
func (r Repetition) await(row *RingRow, now Instant) {
	p := &row.Progress
	p.Backfill.Rings = p.Backfill.Left > 0 && r.RingAt(p.Current) > max(Instant(p.Backfill.DueAt), now)
	row.NextTryTime = max(r.DueAt(p), now)
}

// endOccurrence moves the row, whose current occurrence has just ended the alarm, to the next occurrence. The alarm
// stays over if there is none. begun says that the occurrence was tried before the ring that ended it, or waited for an
// acknowledgement: then occurrences that came due meanwhile overlap with it. The alarm pauses if the rule wants that
// after the failed occurrences in a row.
//
// A triggered ring has no occurrence, so it counts nowhere, and a backfill has its own counts. After such a ring the row
// waits for the current occurrence.
func (r Repetition) endOccurrence(row *RingRow, begun bool, now Instant) {
	p := &row.Progress
	if p.unplannedAt() != 0 {
		if p.Backfill.Rings {
			r.endBackfilled(&p.Backfill, row.State == Rung, now)
		}
		p.TriggeredAt, p.Backfill.Rings = 0, false
		if row.State != Rung {
			row.passNumbers(1)
		}
		if queued, kicked := p.Queued, p.Kicked; queued || kicked { // it was decided that the current one rings
			r.wait(row, p.Current, now)
			p.Queued, p.Kicked = queued, kicked
			return
		}
		r.goOn(row, p.Current, begun, now)
		return
	}
	switch {
	case row.State == Rung:
		p.Rung++
		p.FailedInRow, p.Ended = 0, NoCount
	case row.State == Expired && !begun:
		p.Missed++
		p.Ended = MissedCount
		row.passNumbers(1)
	default:
		p.Failed++
		p.FailedInRow++
		p.Ended = FailedCount
		row.passNumbers(1)
	}
	r.goOn(row, p.Next, begun, now)
	if r.Rule.PausesAfter(p.FailedInRow) && !row.State.Over() {
		row.pause(now)
		row.LastError = bounded(fmt.Sprintf(pausedPrefix+", because %d occurrences in a row failed; the last one: %s",
			p.FailedInRow, row.LastError))
	}
}

// endBackfilled moves a backfill, whose ring is over, to its next occurrence.
func (r Repetition) endBackfilled(b *BackfillProgress, rung bool, now Instant) {
	if rung {
		b.Rung++
	} else {
		b.Failed++
	}
	next, ok := r.afterBackfilled(b)
	if b.Left--; b.Left == 0 || !ok {
		*b = b.ended()
		return
	}
	b.At, b.Label, b.DueAt = next.At, r.Rule.Label(next.At), int64(now)+b.Pace
}

// goOn moves the row, whose ring is over, to the occurrence that rings next, or to a later one if the ring overlaps with
// it. Number 0: there is none.
func (r Repetition) goOn(row *RingRow, next repeat.Occurrence, begun bool, now Instant) {
	p := &row.Progress
	if next.Number != 0 && begun && int64(r.RingAt(next)) > p.DecidedUntil {
		over := r.Rule.Overlapped(r.Alarm, next, int64(now))
		p.Skipped += over.Skipped
		row.passNumbers(over.Skipped)
		if over.Last && over.Ring.Number == 0 && next == p.Current { // a ring besides the occurrences has ended the alarm
			r.begin(p, over.Latest)
			p.Ended = SkippedCount
		}
		next = over.Next
		if over.Ring.Number != 0 {
			r.wait(row, over.Ring, now)
			p.Queued, p.Next = true, next // the zero Occurrence if no occurrence is left
			return
		}
	}
	r.wait(row, next, now)
}

// pause lets the alarm wait for a resume. Which of its due occurrences ring is decided after it. A ring that waits for
// its acknowledgement can be answered meanwhile. A triggered ring is given up otherwise, and the ring of a backfill
// begins again after the resume.
func (r *RingRow) pause(now Instant) {
	r.Progress.UnansweredUntil = 0
	if r.Unacknowledged() {
		r.Progress.UnansweredUntil = int64(r.NextTryTime)
	} else {
		r.giveUpUnplanned()
	}
	r.State, r.NextTryTime, r.UpdateTime = Paused, NoInstant, now
	r.undecide()
}

// giveUpUnplanned gives up the ring besides the occurrences, so that the row waits for the current occurrence. That ring
// is neither in flight nor in doubt.
func (r *RingRow) giveUpUnplanned() {
	p := &r.Progress
	if p.unplannedAt() == 0 {
		return
	}
	if r.begun() {
		r.passNumbers(1)
	}
	p.TriggeredAt, p.Backfill.Rings, p.RingsBefore, r.RetryTimes = 0, false, r.RingNo, 0
}

// passNumbers gives the numbers of the next n rings to occurrences that do not ring, so that no later occurrence rings
// under the message id of an earlier one whose ring may have arrived.
func (r *RingRow) passNumbers(n int64) {
	r.RingNo = int(min(int64(r.RingNo)+n, math.MaxInt32-2))
}

// noteRing notes the lateness of the current occurrence when its first ring is confirmed.
func (r Repetition) noteRing(row *RingRow) {
	p := &row.Progress
	if row.RingNo != p.RingsBefore+1 || p.unplannedAt() != 0 {
		return
	}
	p.Lateness = max(int64(row.RungAt-r.RingAt(p.Current)), 0)
	p.LatenessMax = max(p.LatenessMax, p.Lateness)
	p.LatenessSum += p.Lateness
}

// kick lets the current occurrence of an alarm that is over ring again. Its count is taken back.
func (p *Progress) kick() {
	switch p.Ended {
	case FailedCount:
		p.Failed--
		p.FailedInRow = max(p.FailedInRow-1, 0)
	case MissedCount:
		p.Missed--
	case OutsideCount:
		p.Outside--
	case SkippedCount:
		p.Skipped--
	case NoCount: // its row was unreadable, or the occurrence rang and a triggered ring has failed after it
	}
	p.Kicked, p.Ended = true, NoCount
}
