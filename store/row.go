package store

import (
	"database/sql"
	"time"

	"github.com/clockd/clockd/clock"
)

// Row is a row of the table alarm as the generated code of every engine reads it, in the order of the columns: the
// engines' row types convert to it.
type Row struct {
	ID           int64
	Application  string
	BusinessID   string
	Shard        int64
	State        int64
	Generation   int64
	Payload      []byte
	PayloadKind  int64
	ContentType  string
	TargetRingAt int64
	LatestRingAt sql.NullInt64
	NextTryTime  sql.NullInt64
	RingNo       int64
	RetryTimes   int64
	LastError    string
	InDoubt      int64
	RetryPolicy  string
	AckTimeout   int64
	MaxRings     int64
	Priority     int64
	Traceparent  string
	ClaimID      string
	RungAt       sql.NullInt64
	CreateTime   int64
	UpdateTime   int64
	FinishedAt   sql.NullInt64
	Answer       int64
	AnsweredBy   string
	AnsweredAt   sql.NullInt64
	Delivery     int64
	DueRank      int64
}

// Alarm returns the row in the words of the domain. The error is a retry policy that cannot be read.
func (r *Row) Alarm() (clock.Alarm, error) {
	retry, err := clock.DecodeRetryPolicy(r.RetryPolicy)
	return clock.Alarm{
		ID:         r.ID,
		Key:        clock.Key{Application: r.Application, BusinessID: r.BusinessID},
		Shard:      int(r.Shard),
		State:      clock.State(r.State),
		Generation: r.Generation,
		Content: clock.Content{
			RingAt:       clock.Instant(r.TargetRingAt),
			LatestRingAt: FromNull(r.LatestRingAt),
			Payload:      r.Payload,
			PayloadKind:  clock.PayloadKind(r.PayloadKind),
			ContentType:  r.ContentType,
			Retry:        retry,
			AckTimeout:   time.Duration(r.AckTimeout) * time.Millisecond,
			MaxRings:     int(r.MaxRings),
			Priority:     int(r.Priority),
			Delivery:     clock.DeliveryMode(r.Delivery),
		},
		Traceparent: r.Traceparent,
		NextTryTime: FromNull(r.NextTryTime),
		RingNo:      int(r.RingNo),
		RetryTimes:  int(r.RetryTimes),
		LastError:   r.LastError,
		InDoubt:     r.InDoubt != 0,
		ClaimID:     r.ClaimID,
		Answer:      clock.AnswerKind(r.Answer),
		AnsweredBy:  r.AnsweredBy,
		AnsweredAt:  FromNull(r.AnsweredAt),
		RungAt:      FromNull(r.RungAt),
		CreateTime:  clock.Instant(r.CreateTime),
		UpdateTime:  clock.Instant(r.UpdateTime),
		FinishedAt:  FromNull(r.FinishedAt),
	}, err
}

// FromNull returns the instant of a nullable column.
func FromNull(n sql.NullInt64) clock.Instant {
	if !n.Valid {
		return clock.NoInstant
	}
	return clock.Instant(n.Int64)
}

// ToNull returns the instant as a nullable column takes it.
func ToNull(i clock.Instant) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(i), Valid: i != clock.NoInstant}
}
