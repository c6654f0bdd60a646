package postgresql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// column returns one value of each row. The statements take arrays of such values.
func column[R, V any](rows []R, value func(*R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// insertParams turns rows into arrays of columns.
func insertParams(rows []*clock.Alarm) dbsqlc.InsertAlarmsParams {
	type row = *clock.Alarm
	return dbsqlc.InsertAlarmsParams{
		Applications:  column(rows, func(a *row) string { return (*a).Application }),
		BusinessIds:   column(rows, func(a *row) string { return (*a).BusinessID }),
		Shards:        column(rows, func(a *row) int64 { return int64((*a).Shard) }),
		States:        column(rows, func(a *row) int64 { return int64((*a).State) }),
		Generations:   column(rows, func(a *row) int64 { return (*a).Generation }),
		Payloads:      column(rows, func(a *row) []byte { return bytesOf((*a).Payload) }),
		PayloadKinds:  column(rows, func(a *row) int64 { return int64((*a).PayloadKind) }),
		ContentTypes:  column(rows, func(a *row) string { return (*a).ContentType }),
		TargetRingAts: column(rows, func(a *row) int64 { return int64((*a).RingAt) }),
		LatestRingAts: column(rows, func(a *row) int64 { return int64((*a).LatestRingAt) }),
		NextTryTimes:  column(rows, func(a *row) int64 { return int64((*a).NextTryTime) }),
		RetryPolicies: column(rows, func(a *row) string { return (*a).Retry.Encode() }),
		AckTimeouts:   column(rows, func(a *row) int64 { return (*a).AckTimeout.Milliseconds() }),
		MaxRings:      column(rows, func(a *row) int64 { return int64((*a).MaxRings) }),
		Priorities:    column(rows, func(a *row) int64 { return int64((*a).Priority) }),
		Traceparents:  column(rows, func(a *row) string { return (*a).Traceparent }),
		CreateTimes:   column(rows, func(a *row) int64 { return int64((*a).CreateTime) }),
		Deliveries:    column(rows, func(a *row) int64 { return int64((*a).Delivery) }),
	}
}

// rewriteParams turns changes into arrays of columns.
func rewriteParams(changes []engine.Change) dbsqlc.RewriteAlarmsParams {
	type row = engine.Change
	return dbsqlc.RewriteAlarmsParams{
		Ids:            column(changes, func(c *row) int64 { return c.Old.ID }),
		OldGenerations: column(changes, func(c *row) int64 { return c.Old.Generation }),
		OldStates:      column(changes, func(c *row) int64 { return int64(c.Old.State) }),
		States:         column(changes, func(c *row) int64 { return int64(c.New.State) }),
		Generations:    column(changes, func(c *row) int64 { return c.New.Generation }),
		Payloads:       column(changes, func(c *row) []byte { return bytesOf(c.New.Payload) }),
		PayloadKinds:   column(changes, func(c *row) int64 { return int64(c.New.PayloadKind) }),
		ContentTypes:   column(changes, func(c *row) string { return c.New.ContentType }),
		TargetRingAts:  column(changes, func(c *row) int64 { return int64(c.New.RingAt) }),
		LatestRingAts:  column(changes, func(c *row) int64 { return int64(c.New.LatestRingAt) }),
		NextTryTimes:   column(changes, func(c *row) int64 { return int64(c.New.NextTryTime) }),
		RingNos:        column(changes, func(c *row) int64 { return int64(c.New.RingNo) }),
		RetryTimes:     column(changes, func(c *row) int64 { return int64(c.New.RetryTimes) }),
		LastErrors:     column(changes, func(c *row) string { return textOf(c.New.LastError) }),
		InDoubts:       column(changes, func(c *row) int64 { return bit(c.New.InDoubt) }),
		RetryPolicies:  column(changes, func(c *row) string { return c.New.Retry.Encode() }),
		AckTimeouts:    column(changes, func(c *row) int64 { return c.New.AckTimeout.Milliseconds() }),
		MaxRings:       column(changes, func(c *row) int64 { return int64(c.New.MaxRings) }),
		Priorities:     column(changes, func(c *row) int64 { return int64(c.New.Priority) }),
		Traceparents:   column(changes, func(c *row) string { return c.New.Traceparent }),
		ClaimIds:       column(changes, func(c *row) string { return c.New.ClaimID }),
		RungAts:        column(changes, func(c *row) int64 { return int64(c.New.RungAt) }),
		UpdateTimes:    column(changes, func(c *row) int64 { return int64(c.New.UpdateTime) }),
		FinishedAts:    column(changes, func(c *row) int64 { return int64(c.New.FinishedAt) }),
		Deliveries:     column(changes, func(c *row) int64 { return int64(c.New.Delivery) }),
	}
}

// amendParams turns changes into arrays of columns.
func amendParams(changes []engine.Change) dbsqlc.AmendAlarmsParams {
	type row = engine.Change
	return dbsqlc.AmendAlarmsParams{
		Ids:            column(changes, func(c *row) int64 { return c.Old.ID }),
		OldGenerations: column(changes, func(c *row) int64 { return c.Old.Generation }),
		OldStates:      column(changes, func(c *row) int64 { return int64(c.Old.State) }),
		OldRingNos:     column(changes, func(c *row) int64 { return int64(c.Old.RingNo) }),
		States:         column(changes, func(c *row) int64 { return int64(c.New.State) }),
		LatestRingAts:  column(changes, func(c *row) int64 { return int64(c.New.LatestRingAt) }),
		NextTryTimes:   column(changes, func(c *row) int64 { return int64(c.New.NextTryTime) }),
		RingNos:        column(changes, func(c *row) int64 { return int64(c.New.RingNo) }),
		RetryTimes:     column(changes, func(c *row) int64 { return int64(c.New.RetryTimes) }),
		LastErrors:     column(changes, func(c *row) string { return textOf(c.New.LastError) }),
		InDoubts:       column(changes, func(c *row) int64 { return bit(c.New.InDoubt) }),
		RungAts:        column(changes, func(c *row) int64 { return int64(c.New.RungAt) }),
		Answers:        column(changes, func(c *row) int64 { return int64(c.New.Answer) }),
		AnsweredBys:    column(changes, func(c *row) string { return textOf(c.New.AnsweredBy) }),
		AnsweredAts:    column(changes, func(c *row) int64 { return int64(c.New.AnsweredAt) }),
		UpdateTimes:    column(changes, func(c *row) int64 { return int64(c.New.UpdateTime) }),
		FinishedAts:    column(changes, func(c *row) int64 { return int64(c.New.FinishedAt) }),
	}
}

// attemptParams turns attempts into arrays of columns.
func attemptParams(attempts []store.AlarmAttempt) dbsqlc.InsertAttemptsParams {
	type row = store.AlarmAttempt
	return dbsqlc.InsertAttemptsParams{
		AlarmIds:           column(attempts, idOfAttempted),
		AttemptGenerations: column(attempts, func(a *row) int64 { return a.Generation }),
		AttemptRingNos:     column(attempts, func(a *row) int64 { return int64(a.RingNo) }),
		AttemptClaimIds:    column(attempts, func(a *row) string { return a.ClaimID }),
		AttemptTimes:       column(attempts, func(a *row) int64 { return int64(a.Time) }),
		Outcomes:           column(attempts, func(a *row) int64 { return int64(a.Outcome) }),
		Errors:             column(attempts, func(a *row) string { return textOf(a.Error) }),
		AnsweredBys:        column(attempts, func(a *row) string { return textOf(a.By) }),
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

		Ids:              column(settled, func(s *row) int64 { return s.ID }),
		Generations:      column(settled, func(s *row) int64 { return s.Generation }),
		HeldStates:       column(settled, func(s *row) int64 { return int64(s.Claimed.State) }),
		HeldNextTryTimes: column(settled, func(s *row) int64 { return int64(s.Claimed.NextTryTime) }),
		HeldRungAts:      column(settled, func(s *row) int64 { return int64(s.Claimed.RungAt) }),
		HeldClaimIds:     column(settled, func(s *row) string { return s.Claimed.ClaimID }),
		States:           column(settled, func(s *row) int64 { return int64(s.State) }),
		NextTryTimes:     column(settled, func(s *row) int64 { return int64(s.NextTryTime) }),
		RingNos:          column(settled, func(s *row) int64 { return int64(s.RingNo) }),
		RetryTimes:       column(settled, func(s *row) int64 { return int64(s.RetryTimes) }),
		LastErrors:       column(settled, func(s *row) string { return textOf(s.LastError) }),
		InDoubts:         column(settled, func(s *row) int64 { return bit(s.InDoubt) }),
		ClaimIds:         column(settled, func(s *row) string { return s.ClaimID }),
		RungAts:          column(settled, func(s *row) int64 { return int64(s.RungAt) }),
		UpdateTimes:      column(settled, func(s *row) int64 { return int64(s.UpdateTime) }),
		FinishedAts:      column(settled, func(s *row) int64 { return int64(s.FinishedAt) }),
	}
}

// takeParams turns candidates into arrays of columns.
func takeParams(taken []store.Candidate) dbsqlc.TakeAlarmsParams {
	type row = store.Candidate
	return dbsqlc.TakeAlarmsParams{
		Ids:          column(taken, func(c *row) int64 { return c.ID }),
		Generations:  column(taken, func(c *row) int64 { return c.Generation }),
		States:       column(taken, func(c *row) int64 { return int64(c.State) }),
		RingNos:      column(taken, func(c *row) int64 { return int64(c.RingNo) }),
		RetryTimes:   column(taken, func(c *row) int64 { return int64(c.RetryTimes) }),
		InDoubts:     column(taken, func(c *row) int64 { return bit(c.InDoubt) }),
		NextTryTimes: column(taken, func(c *row) int64 { return int64(c.NextTryTime) }),
		UpdateTimes:  column(taken, func(c *row) int64 { return int64(c.UpdateTime) }),
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

		Ids:          column(judged.Ended, func(e *row) int64 { return e.ID }),
		Generations:  column(judged.Ended, func(e *row) int64 { return e.Generation }),
		NextTryTimes: column(judged.Ended, func(e *row) int64 { return int64(e.NextTryTime) }),
		UpdateTimes:  column(judged.Ended, func(e *row) int64 { return int64(e.UpdateTime) }),
		States:       column(judged.Ended, func(e *row) int64 { return int64(e.Fate.State) }),
		LastErrors:   column(judged.Ended, func(e *row) string { return textOf(e.Fate.LastError) }),
		InDoubts:     column(judged.Ended, func(e *row) int64 { return bit(e.Fate.InDoubt) }),
	}
}
