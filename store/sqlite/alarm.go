package sqlite

import (
	"strconv"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

func insertParams(a *clock.Alarm) dbsqlc.InsertAlarmsParams {
	return dbsqlc.InsertAlarmsParams{
		Application: a.Application, BusinessID: a.BusinessID, Shard: int64(a.Shard), State: int64(a.State), Generation: a.Generation,
		Payload: engine.PayloadColumn(a.Payload), PayloadKind: int64(a.PayloadKind), ContentType: a.ContentType, TargetRingAt: int64(a.RingAt),
		LatestRingAt: engine.ToNull(a.LatestRingAt), NextTryTime: engine.ToNull(a.NextTryTime), RetryPolicy: a.Retry.Encode(),
		AckTimeout: a.AckTimeout.Milliseconds(), MaxRings: int64(a.MaxRings), Priority: int64(a.Priority), Traceparent: a.Traceparent,
		CreateTime: int64(a.CreateTime), UpdateTime: int64(a.UpdateTime), Delivery: int64(a.Delivery), DueRank: int64(store.Rank(a.Priority)),
	}
}

func rewriteParams(old, a *clock.Alarm) dbsqlc.RewriteAlarmsParams {
	return dbsqlc.RewriteAlarmsParams{
		State: int64(a.State), Generation: a.Generation, Payload: engine.PayloadColumn(a.Payload), PayloadKind: int64(a.PayloadKind),
		ContentType: a.ContentType, TargetRingAt: int64(a.RingAt), LatestRingAt: engine.ToNull(a.LatestRingAt),
		NextTryTime: engine.ToNull(a.NextTryTime), RingNo: int64(a.RingNo), RetryTimes: int64(a.RetryTimes), LastError: a.LastError,
		InDoubt: engine.Bit(a.InDoubt), RetryPolicy: a.Retry.Encode(), AckTimeout: a.AckTimeout.Milliseconds(), MaxRings: int64(a.MaxRings),
		Priority: int64(a.Priority), DueRank: int64(store.Rank(a.Priority)), Delivery: int64(a.Delivery), Traceparent: a.Traceparent,
		ClaimID: a.ClaimID, RungAt: engine.ToNull(a.RungAt), UpdateTime: int64(a.UpdateTime), FinishedAt: engine.ToNull(a.FinishedAt),
		ID: old.ID, OldGeneration: old.Generation, OldState: int64(old.State),
	}
}

func amendParams(old, a *clock.Alarm) dbsqlc.AmendAlarmsParams {
	return dbsqlc.AmendAlarmsParams{
		State: int64(a.State), LatestRingAt: engine.ToNull(a.LatestRingAt), NextTryTime: engine.ToNull(a.NextTryTime), RingNo: int64(a.RingNo),
		RetryTimes: int64(a.RetryTimes), LastError: a.LastError, InDoubt: engine.Bit(a.InDoubt), RungAt: engine.ToNull(a.RungAt),
		Answer: int64(a.Answer), AnsweredBy: a.AnsweredBy, AnsweredAt: engine.ToNull(a.AnsweredAt), UpdateTime: int64(a.UpdateTime),
		FinishedAt: engine.ToNull(a.FinishedAt),
		ID:         old.ID, OldGeneration: old.Generation, OldState: int64(old.State), OldRingNo: int64(old.RingNo),
	}
}

// jsonNumbers returns a JSON array of numbers for json_each. It does not use package json, because T may marshal as a name.
func jsonNumbers[T ~int | ~int8 | ~int64](numbers []T) string {
	b := make([]byte, 0, 2+8*len(numbers))
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return "[" + string(b) + "]"
}
