package postgresql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// The parameters of the statements that write whole columns of rows.
var (
	insertArrays  = engine.NewArrays[engine.Row, dbsqlc.InsertAlarmsParams]()
	restoreArrays = engine.NewArrays[engine.Row, dbsqlc.RestoreAlarmsParams]()
	rewriteArrays = engine.NewArrays[engine.Row, dbsqlc.RewriteAlarmsParams]()
	amendArrays   = engine.NewArrays[engine.Row, dbsqlc.AmendAlarmsParams]()
	actArrays     = engine.NewArrays[engine.NewActRow, dbsqlc.AddActsParams]()

	distributedInsertArrays  = engine.NewArrays[engine.Row, citussqlc.InsertAlarmsParams]()
	distributedRestoreArrays = engine.NewArrays[engine.Row, citussqlc.RestoreAlarmsParams]()
)

// insertParams turns rows into arrays of columns. Columns that few alarms need are empty if no row has a value.
func insertParams(rows []*clock.Alarm) dbsqlc.InsertAlarmsParams {
	p := insertArrays.Of(len(rows), func(i int, row, _ *engine.Row) { row.SetAlarm(rows[i]) })
	p.RetryPolicy, p.Traceparent = emptyIfAll(p.RetryPolicy, ""), emptyIfAll(p.Traceparent, "")
	p.RepeatRule, p.RepeatState = emptyIfAll(p.RepeatRule, ""), emptyIfAll(p.RepeatState, "")
	p.Destination, p.Receiver = emptyIfAll(p.Destination, ""), emptyIfAll(p.Receiver, "")
	p.AckTimeout, p.Delivery = emptyIfAll(p.AckTimeout, 0), emptyIfAll(p.Delivery, 0)
	p.LatestRingAt = emptyIfAll(p.LatestRingAt, -1)
	return p
}

// emptyIfAll returns no values if all of them are equal to this one.
func emptyIfAll[T comparable](values []T, value T) []T {
	for _, v := range values {
		if v != value {
			return values
		}
	}
	return []T{}
}

// distributedInsertParams is insertParams with the ids that clockd has given.
func distributedInsertParams(rows []*clock.Alarm) citussqlc.InsertAlarmsParams {
	return distributedInsertArrays.Of(len(rows), func(i int, row, _ *engine.Row) { row.SetAlarm(rows[i]) })
}

// rewriteParams turns changes into arrays of columns.
func rewriteParams(changes []engine.Change) dbsqlc.RewriteAlarmsParams {
	p := rewriteArrays.Of(len(changes), func(i int, row, old *engine.Row) { changes[i].SetRows(row, old) })
	cleanTexts(p.LastError)
	return p
}

// amendParams turns changes into arrays of columns.
func amendParams(changes []engine.Change) dbsqlc.AmendAlarmsParams {
	p := amendArrays.Of(len(changes), func(i int, row, old *engine.Row) { changes[i].SetRows(row, old) })
	cleanTexts(p.LastError)
	cleanTexts(p.AnsweredBy)
	return p
}

// cleanTexts removes NUL from the texts (textOf).
func cleanTexts(texts []string) {
	for i := range texts {
		texts[i] = textOf(texts[i])
	}
}

// attemptParams turns attempts into arrays of columns.
func attemptParams(attempts []store.AlarmAttempt) dbsqlc.InsertAttemptsParams {
	type row = store.AlarmAttempt
	return dbsqlc.InsertAttemptsParams{
		AlarmIds:           engine.Column(attempts, idOfAttempted),
		AttemptGenerations: engine.Column(attempts, func(a *row) int64 { return a.Generation }),
		AttemptRingNos:     engine.Column(attempts, func(a *row) int64 { return int64(a.RingNo) }),
		AttemptClaimIds:    engine.Column(attempts, func(a *row) string { return a.ClaimID }),
		AttemptTimes:       engine.Column(attempts, func(a *row) int64 { return int64(a.Time) }),
		Outcomes:           engine.Column(attempts, func(a *row) int64 { return int64(a.Outcome) }),
		Errors:             engine.Column(attempts, func(a *row) string { return textOf(a.Error) }),
		AnsweredBys:        engine.Column(attempts, func(a *row) string { return textOf(a.By) }),
	}
}

func idOfAttempted(a *store.AlarmAttempt) int64 { return a.AlarmID }

// settleParams turns settlements and attempts into arrays of columns.
func settleParams(settled []store.Settlement, attempts []store.AlarmAttempt) dbsqlc.SettleAlarmsParams {
	type row = store.Settlement
	a := attemptParams(attempts)
	return dbsqlc.SettleAlarmsParams{
		AlarmIds:           a.AlarmIds,
		AttemptGenerations: a.AttemptGenerations,
		AttemptRingNos:     a.AttemptRingNos,
		AttemptClaimIds:    a.AttemptClaimIds,
		AttemptTimes:       a.AttemptTimes,
		Outcomes:           a.Outcomes,
		Errors:             a.Errors,
		AnsweredBys:        a.AnsweredBys,

		Ids:                 engine.Column(settled, func(s *row) int64 { return s.ID }),
		Generations:         engine.Column(settled, func(s *row) int64 { return s.Generation }),
		ClaimedStates:       engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.State) }),
		ClaimedNextTryTimes: engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.NextTryTime) }),
		ClaimedRungAts:      engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.RungAt) }),
		ClaimedClaimIds:     engine.Column(settled, func(s *row) string { return s.Claimed.ClaimID }),
		States:              engine.Column(settled, func(s *row) int64 { return int64(s.State) }),
		NextTryTimes:        engine.Column(settled, func(s *row) int64 { return int64(s.NextTryTime) }),
		RingNos:             engine.Column(settled, func(s *row) int64 { return int64(s.RingNo) }),
		RetryTimes:          engine.Column(settled, func(s *row) int64 { return int64(s.RetryTimes) }),
		LastErrors:          engine.Column(settled, func(s *row) string { return textOf(s.LastError) }),
		InDoubts:            engine.Column(settled, func(s *row) int64 { return engine.Bit(s.InDoubt) }),
		ClaimIds:            engine.Column(settled, func(s *row) string { return s.ClaimID }),
		RungAts:             engine.Column(settled, func(s *row) int64 { return int64(s.RungAt) }),
		UpdateTimes:         engine.Column(settled, func(s *row) int64 { return int64(s.UpdateTime) }),
		FinishedAts:         engine.Column(settled, func(s *row) int64 { return int64(s.FinishedAt) }),
		DoubtTargets:        engine.Column(settled, func(s *row) int64 { return int64(s.DoubtTarget) }),
		RepeatStates:        engine.Column(settled, func(s *row) string { return s.Progress.Encode() }),
	}
}

// takeParams turns due rows into arrays of the columns of their version.
func takeParams(rows []*engine.DueRow) dbsqlc.TakeHeldParams {
	type row = *engine.DueRow
	return dbsqlc.TakeHeldParams{
		Ids:          engine.Column(rows, func(r *row) int64 { return (*r).ID }),
		Generations:  engine.Column(rows, func(r *row) int64 { return (*r).Generation }),
		States:       engine.Column(rows, func(r *row) int64 { return (*r).State }),
		RingNos:      engine.Column(rows, func(r *row) int64 { return (*r).RingNo }),
		RetryTimes:   engine.Column(rows, func(r *row) int64 { return (*r).RetryTimes }),
		InDoubts:     engine.Column(rows, func(r *row) int64 { return (*r).InDoubt }),
		NextTryTimes: engine.Column(rows, func(r *row) int64 { return (*r).NextTryTime.Int64 }),
		UpdateTimes:  engine.Column(rows, func(r *row) int64 { return (*r).UpdateTime }),
	}
}

// endParams turns ended alarms and their attempts into arrays of columns.
func endParams(judged *store.Judgment) dbsqlc.EndAlarmsParams {
	type row = store.Ending
	a := attemptParams(judged.Attempts)
	return dbsqlc.EndAlarmsParams{
		AlarmIds:           a.AlarmIds,
		AttemptGenerations: a.AttemptGenerations,
		AttemptRingNos:     a.AttemptRingNos,
		AttemptClaimIds:    a.AttemptClaimIds,
		AttemptTimes:       a.AttemptTimes,
		Outcomes:           a.Outcomes,
		Errors:             a.Errors,
		AnsweredBys:        a.AnsweredBys,

		Ids:          engine.Column(judged.Ended, func(e *row) int64 { return e.ID }),
		Generations:  engine.Column(judged.Ended, func(e *row) int64 { return e.Generation }),
		NextTryTimes: engine.Column(judged.Ended, func(e *row) int64 { return int64(e.NextTryTime) }),
		UpdateTimes:  engine.Column(judged.Ended, func(e *row) int64 { return int64(e.UpdateTime) }),
		States:       engine.Column(judged.Ended, func(e *row) int64 { return int64(e.Fate.State) }),
		LastErrors:   engine.Column(judged.Ended, func(e *row) string { return textOf(e.Fate.LastError) }),
		InDoubts:     engine.Column(judged.Ended, func(e *row) int64 { return engine.Bit(e.Fate.InDoubt) }),
	}
}
