package postgresql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// insertParams turns rows into arrays of columns.
func insertParams(rows []*clock.Alarm) dbsqlc.InsertAlarmsParams {
	type row = *clock.Alarm
	return dbsqlc.InsertAlarmsParams{
		Applications:  engine.Column(rows, func(a *row) string { return (*a).Application }),
		BusinessIds:   engine.Column(rows, func(a *row) string { return (*a).BusinessID }),
		Shards:        engine.Column(rows, func(a *row) int64 { return int64((*a).Shard) }),
		States:        engine.Column(rows, func(a *row) int64 { return int64((*a).State) }),
		Generations:   engine.Column(rows, func(a *row) int64 { return (*a).Generation }),
		Payloads:      engine.Column(rows, func(a *row) []byte { return engine.PayloadColumn((*a).Payload) }),
		PayloadKinds:  engine.Column(rows, func(a *row) int64 { return int64((*a).PayloadKind) }),
		ContentTypes:  engine.Column(rows, func(a *row) string { return (*a).ContentType }),
		TargetRingAts: engine.Column(rows, func(a *row) int64 { return int64((*a).RingAt) }),
		LatestRingAts: engine.Column(rows, func(a *row) int64 { return int64((*a).LatestRingAt) }),
		NextTryTimes:  engine.Column(rows, func(a *row) int64 { return int64((*a).NextTryTime) }),
		RetryPolicies: engine.Column(rows, func(a *row) string { return (*a).Retry.Encode() }),
		AckTimeouts:   engine.Column(rows, func(a *row) int64 { return (*a).AckTimeout.Milliseconds() }),
		MaxRings:      engine.Column(rows, func(a *row) int64 { return int64((*a).MaxRings) }),
		Priorities:    engine.Column(rows, func(a *row) int64 { return int64((*a).Priority) }),
		Traceparents:  engine.Column(rows, func(a *row) string { return (*a).Traceparent }),
		CreateTimes:   engine.Column(rows, func(a *row) int64 { return int64((*a).CreateTime) }),
		Deliveries:    engine.Column(rows, func(a *row) int64 { return int64((*a).Delivery) }),
	}
}

// rewriteParams turns changes into arrays of columns.
func rewriteParams(changes []engine.Change) dbsqlc.RewriteAlarmsParams {
	type row = engine.Change
	return dbsqlc.RewriteAlarmsParams{
		Ids:            engine.Column(changes, func(c *row) int64 { return c.Old.ID }),
		OldGenerations: engine.Column(changes, func(c *row) int64 { return c.Old.Generation }),
		OldStates:      engine.Column(changes, func(c *row) int64 { return int64(c.Old.State) }),
		States:         engine.Column(changes, func(c *row) int64 { return int64(c.New.State) }),
		Generations:    engine.Column(changes, func(c *row) int64 { return c.New.Generation }),
		Payloads:       engine.Column(changes, func(c *row) []byte { return engine.PayloadColumn(c.New.Payload) }),
		PayloadKinds:   engine.Column(changes, func(c *row) int64 { return int64(c.New.PayloadKind) }),
		ContentTypes:   engine.Column(changes, func(c *row) string { return c.New.ContentType }),
		TargetRingAts:  engine.Column(changes, func(c *row) int64 { return int64(c.New.RingAt) }),
		LatestRingAts:  engine.Column(changes, func(c *row) int64 { return int64(c.New.LatestRingAt) }),
		NextTryTimes:   engine.Column(changes, func(c *row) int64 { return int64(c.New.NextTryTime) }),
		RingNos:        engine.Column(changes, func(c *row) int64 { return int64(c.New.RingNo) }),
		RetryTimes:     engine.Column(changes, func(c *row) int64 { return int64(c.New.RetryTimes) }),
		LastErrors:     engine.Column(changes, func(c *row) string { return textOf(c.New.LastError) }),
		InDoubts:       engine.Column(changes, func(c *row) int64 { return engine.Bit(c.New.InDoubt) }),
		RetryPolicies:  engine.Column(changes, func(c *row) string { return c.New.Retry.Encode() }),
		AckTimeouts:    engine.Column(changes, func(c *row) int64 { return c.New.AckTimeout.Milliseconds() }),
		MaxRings:       engine.Column(changes, func(c *row) int64 { return int64(c.New.MaxRings) }),
		Priorities:     engine.Column(changes, func(c *row) int64 { return int64(c.New.Priority) }),
		Traceparents:   engine.Column(changes, func(c *row) string { return c.New.Traceparent }),
		ClaimIds:       engine.Column(changes, func(c *row) string { return c.New.ClaimID }),
		RungAts:        engine.Column(changes, func(c *row) int64 { return int64(c.New.RungAt) }),
		UpdateTimes:    engine.Column(changes, func(c *row) int64 { return int64(c.New.UpdateTime) }),
		FinishedAts:    engine.Column(changes, func(c *row) int64 { return int64(c.New.FinishedAt) }),
		Deliveries:     engine.Column(changes, func(c *row) int64 { return int64(c.New.Delivery) }),
	}
}

// amendParams turns changes into arrays of columns.
func amendParams(changes []engine.Change) dbsqlc.AmendAlarmsParams {
	type row = engine.Change
	return dbsqlc.AmendAlarmsParams{
		Ids:            engine.Column(changes, func(c *row) int64 { return c.Old.ID }),
		OldGenerations: engine.Column(changes, func(c *row) int64 { return c.Old.Generation }),
		OldStates:      engine.Column(changes, func(c *row) int64 { return int64(c.Old.State) }),
		OldRingNos:     engine.Column(changes, func(c *row) int64 { return int64(c.Old.RingNo) }),
		States:         engine.Column(changes, func(c *row) int64 { return int64(c.New.State) }),
		LatestRingAts:  engine.Column(changes, func(c *row) int64 { return int64(c.New.LatestRingAt) }),
		NextTryTimes:   engine.Column(changes, func(c *row) int64 { return int64(c.New.NextTryTime) }),
		RingNos:        engine.Column(changes, func(c *row) int64 { return int64(c.New.RingNo) }),
		RetryTimes:     engine.Column(changes, func(c *row) int64 { return int64(c.New.RetryTimes) }),
		LastErrors:     engine.Column(changes, func(c *row) string { return textOf(c.New.LastError) }),
		InDoubts:       engine.Column(changes, func(c *row) int64 { return engine.Bit(c.New.InDoubt) }),
		RungAts:        engine.Column(changes, func(c *row) int64 { return int64(c.New.RungAt) }),
		Answers:        engine.Column(changes, func(c *row) int64 { return int64(c.New.Answer) }),
		AnsweredBys:    engine.Column(changes, func(c *row) string { return textOf(c.New.AnsweredBy) }),
		AnsweredAts:    engine.Column(changes, func(c *row) int64 { return int64(c.New.AnsweredAt) }),
		UpdateTimes:    engine.Column(changes, func(c *row) int64 { return int64(c.New.UpdateTime) }),
		FinishedAts:    engine.Column(changes, func(c *row) int64 { return int64(c.New.FinishedAt) }),
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

		Ids:              engine.Column(settled, func(s *row) int64 { return s.ID }),
		Generations:      engine.Column(settled, func(s *row) int64 { return s.Generation }),
		HeldStates:       engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.State) }),
		HeldNextTryTimes: engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.NextTryTime) }),
		HeldRungAts:      engine.Column(settled, func(s *row) int64 { return int64(s.Claimed.RungAt) }),
		HeldClaimIds:     engine.Column(settled, func(s *row) string { return s.Claimed.ClaimID }),
		States:           engine.Column(settled, func(s *row) int64 { return int64(s.State) }),
		NextTryTimes:     engine.Column(settled, func(s *row) int64 { return int64(s.NextTryTime) }),
		RingNos:          engine.Column(settled, func(s *row) int64 { return int64(s.RingNo) }),
		RetryTimes:       engine.Column(settled, func(s *row) int64 { return int64(s.RetryTimes) }),
		LastErrors:       engine.Column(settled, func(s *row) string { return textOf(s.LastError) }),
		InDoubts:         engine.Column(settled, func(s *row) int64 { return engine.Bit(s.InDoubt) }),
		ClaimIds:         engine.Column(settled, func(s *row) string { return s.ClaimID }),
		RungAts:          engine.Column(settled, func(s *row) int64 { return int64(s.RungAt) }),
		UpdateTimes:      engine.Column(settled, func(s *row) int64 { return int64(s.UpdateTime) }),
		FinishedAts:      engine.Column(settled, func(s *row) int64 { return int64(s.FinishedAt) }),
	}
}

// takeParams turns candidates into arrays of columns.
func takeParams(taken []store.Candidate) dbsqlc.TakeAlarmsParams {
	type row = store.Candidate
	return dbsqlc.TakeAlarmsParams{
		Ids:          engine.Column(taken, func(c *row) int64 { return c.ID }),
		Generations:  engine.Column(taken, func(c *row) int64 { return c.Generation }),
		States:       engine.Column(taken, func(c *row) int64 { return int64(c.State) }),
		RingNos:      engine.Column(taken, func(c *row) int64 { return int64(c.RingNo) }),
		RetryTimes:   engine.Column(taken, func(c *row) int64 { return int64(c.RetryTimes) }),
		InDoubts:     engine.Column(taken, func(c *row) int64 { return engine.Bit(c.InDoubt) }),
		NextTryTimes: engine.Column(taken, func(c *row) int64 { return int64(c.NextTryTime) }),
		UpdateTimes:  engine.Column(taken, func(c *row) int64 { return int64(c.UpdateTime) }),
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
