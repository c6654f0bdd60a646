package postgresql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// column returns one value of each row, for a statement that takes arrays.
func column[R, V any](rows []R, value func(*R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// insertParams turns rows into columns.
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
	}
}

// rewriteParams turns changes into columns.
func rewriteParams(changes []store.Change) dbsqlc.RewriteAlarmsParams {
	type row = store.Change
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
	}
}

// advanceParams turns changes into columns.
func advanceParams(changes []store.Change) dbsqlc.AdvanceAlarmsParams {
	type row = store.Change
	return dbsqlc.AdvanceAlarmsParams{
		Ids:            column(changes, func(c *row) int64 { return c.Old.ID }),
		OldGenerations: column(changes, func(c *row) int64 { return c.Old.Generation }),
		OldStates:      column(changes, func(c *row) int64 { return int64(c.Old.State) }),
		States:         column(changes, func(c *row) int64 { return int64(c.New.State) }),
		NextTryTimes:   column(changes, func(c *row) int64 { return int64(c.New.NextTryTime) }),
		RingNos:        column(changes, func(c *row) int64 { return int64(c.New.RingNo) }),
		RetryTimes:     column(changes, func(c *row) int64 { return int64(c.New.RetryTimes) }),
		LastErrors:     column(changes, func(c *row) string { return textOf(c.New.LastError) }),
		InDoubts:       column(changes, func(c *row) int64 { return bit(c.New.InDoubt) }),
		ClaimIds:       column(changes, func(c *row) string { return c.New.ClaimID }),
		RungAts:        column(changes, func(c *row) int64 { return int64(c.New.RungAt) }),
		UpdateTimes:    column(changes, func(c *row) int64 { return int64(c.New.UpdateTime) }),
		FinishedAts:    column(changes, func(c *row) int64 { return int64(c.New.FinishedAt) }),
	}
}

// settleParams turns corrections into columns, for the claim of that id.
func settleParams(corrections []correction, claimID string, now clock.Instant) dbsqlc.SettleAlarmsParams {
	type row = correction
	return dbsqlc.SettleAlarmsParams{
		ClaimID:          claimID,
		Now:              int64(now),
		Ids:              column(corrections, func(c *row) int64 { return c.ID }),
		Generations:      column(corrections, func(c *row) int64 { return c.Generation }),
		HeldStates:       column(corrections, func(c *row) int64 { return int64(c.held.state) }),
		HeldNextTryTimes: column(corrections, func(c *row) int64 { return int64(c.held.nextTryTime) }),
		HeldRungAts:      column(corrections, func(c *row) int64 { return int64(c.held.rungAt) }),
		States:           column(corrections, func(c *row) int64 { return int64(c.State) }),
		NextTryTimes:     column(corrections, func(c *row) int64 { return int64(c.NextTryTime) }),
		RingNos:          column(corrections, func(c *row) int64 { return int64(c.RingNo) }),
		RetryTimes:       column(corrections, func(c *row) int64 { return int64(c.RetryTimes) }),
		LastErrors:       column(corrections, func(c *row) string { return textOf(c.LastError) }),
		InDoubts:         column(corrections, func(c *row) int64 { return bit(c.InDoubt) }),
		ClaimIds:         column(corrections, func(c *row) string { return c.ClaimID }),
		RungAts:          column(corrections, func(c *row) int64 { return int64(c.RungAt) }),
		UpdateTimes:      column(corrections, func(c *row) int64 { return int64(c.updateTime) }),
		FinishedAts:      column(corrections, func(c *row) int64 { return int64(c.FinishedAt) }),
		Outcomes:         column(corrections, func(c *row) int64 { return int64(c.attempt) }),
	}
}
