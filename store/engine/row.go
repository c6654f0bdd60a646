package engine

import (
	"database/sql"
	"reflect"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Row is a row of the table alarm in the order of its columns. The row types of each engine's generated code convert to
// it. SetAlarm and Alarm are the only list of the columns: readers and writers of all engines use them.
type Row struct {
	ID              int64
	Application     string
	BusinessID      string
	Shard           int64
	State           int64
	Generation      int64
	Payload         []byte
	PayloadKind     int64
	ContentType     string
	TargetRingAt    int64
	LatestRingAt    sql.NullInt64
	NextTryTime     sql.NullInt64
	RingNo          int64
	RetryTimes      int64
	LastError       string
	InDoubt         int64
	RetryPolicy     string
	AckTimeout      int64
	MaxRings        int64
	Priority        int64
	Traceparent     string
	ClaimID         string
	RungAt          sql.NullInt64
	CreateTime      int64
	UpdateTime      int64
	FinishedAt      sql.NullInt64
	Answer          int64
	AnsweredBy      string
	AnsweredAt      sql.NullInt64
	Delivery        int64
	DueRank         int64
	DoubtTarget     int64
	RepeatRule      string
	RepeatState     string
	PastGenerations string
	Destination     string
	Receiver        string
}

// checkedColumns returns the columns that may be unreadable.
func (r *Row) checkedColumns() CheckedColumns {
	return CheckedColumns{
		State: r.State, PayloadKind: r.PayloadKind, Delivery: r.Delivery, Answer: r.Answer, InDoubt: r.InDoubt,
		Generation: r.Generation, RingNo: r.RingNo,
		RetryTimes: r.RetryTimes, MaxRings: r.MaxRings, AckTimeout: r.AckTimeout, RingAt: clock.Instant(r.TargetRingAt),
		LatestRingAt: FromNull(r.LatestRingAt), NextTryTime: FromNull(r.NextTryTime), RungAt: FromNull(r.RungAt),
		UpdateTime: clock.Instant(r.UpdateTime), PayloadLength: len(r.Payload), RetryPolicy: r.RetryPolicy,
		DueRank:    r.DueRank,
		RepeatRule: r.RepeatRule, RepeatState: r.RepeatState,
	}
}

// Fields returns pointers to all fields in order, for the Scan of a row outside the generated code.
func (r *Row) Fields() []any {
	v := reflect.ValueOf(r).Elem()
	fields := make([]any, v.NumField())
	for i := range fields {
		fields[i] = v.Field(i).Addr().Interface()
	}
	return fields
}

// Alarm returns the row as an alarm of the domain. If the row cannot be read, Alarm.Unreadable and LastError say why,
// and unreadable values get readable defaults.
func (r *Row) Alarm() clock.Alarm {
	v := r.checkedColumns()
	decoded, unreadable := v.Decode()
	if unreadable != "" {
		r.replaceUnreadable(unreadable)
	}
	named := store.NamedOfRank(int(r.DueRank))
	a := clock.Alarm{
		ID:         r.ID,
		Key:        clock.Key{Application: r.Application, BusinessID: r.BusinessID},
		Shard:      int(r.Shard),
		Generation: r.Generation,
		Content: clock.Content{
			RingAt:       clock.Instant(r.TargetRingAt),
			LatestRingAt: FromNull(r.LatestRingAt),
			Payload:      r.Payload,
			PayloadKind:  clock.PayloadKind(r.PayloadKind),
			ContentType:  r.ContentType,
			Retry:        decoded.Retry,
			AckTimeout:   time.Duration(r.AckTimeout) * time.Millisecond,
			MaxRings:     int(r.MaxRings),
			Priority:     int(r.Priority),
			Delivery:     clock.DeliveryMode(r.Delivery),
			Target:       named.Target,
			Destination:  clock.Destination{Name: r.Destination, Number: named.Destination},
			Receiver:     r.Receiver,
			Repeat:       decoded.Schedule.Rule,
			Local:        decoded.Schedule.Local,
		},
		Unreadable:  unreadable,
		Traceparent: r.Traceparent,
		RingRow: clock.RingRow{
			State:       clock.State(r.State),
			NextTryTime: FromNull(r.NextTryTime),
			RingNo:      int(r.RingNo),
			RetryTimes:  int(r.RetryTimes),
			LastError:   r.LastError,
			InDoubt:     r.InDoubt != 0,
			ClaimID:     r.ClaimID,
			RungAt:      FromNull(r.RungAt),
			UpdateTime:  clock.Instant(r.UpdateTime),
			FinishedAt:  FromNull(r.FinishedAt),
			Progress:    decoded.Progress,
		},
		Answer:     clock.AnswerKind(r.Answer),
		AnsweredBy: r.AnsweredBy,
		AnsweredAt: FromNull(r.AnsweredAt),
		CreateTime: clock.Instant(r.CreateTime),
		Past:       clock.PastGenerations(r.PastGenerations),
	}
	a.KeepDoubtTarget(clock.TargetKind(r.DoubtTarget))
	return a
}

// SetAlarm sets all columns to the values of an alarm. It is the inverse of Row.Alarm.
func (r *Row) SetAlarm(a *clock.Alarm) {
	r.SetRing(a.ID, a.Generation, &a.RingRow)
	r.Application = a.Application
	r.BusinessID = a.BusinessID
	r.Shard = int64(a.Shard)
	r.Payload = a.Payload
	if r.Payload == nil { // the column is NOT NULL
		r.Payload = []byte{}
	}
	r.PayloadKind = int64(a.PayloadKind)
	r.ContentType = a.ContentType
	r.TargetRingAt = int64(a.RingAt)
	r.LatestRingAt = ToNull(a.LatestRingAt)
	r.RetryPolicy = a.Retry.Encode()
	r.AckTimeout = a.AckTimeout.Milliseconds()
	r.MaxRings = int64(a.MaxRings)
	r.Priority = int64(a.Priority)
	r.DueRank = int64(store.RankOf(&a.Content))
	r.Delivery = int64(a.Delivery)
	r.Traceparent = a.Traceparent
	r.RepeatRule = a.Schedule()
	r.CreateTime = int64(a.CreateTime)
	r.Answer = int64(a.Answer)
	r.AnsweredBy = a.AnsweredBy
	r.AnsweredAt = ToNull(a.AnsweredAt)
	r.PastGenerations = string(a.Past)
	r.Destination, r.Receiver = a.Destination.Name, a.Receiver
}

// SetRing sets id, generation and the columns that a ring changes. The other columns stay.
func (r *Row) SetRing(id, generation int64, ring *clock.RingRow) {
	r.ID = id
	r.Generation = generation
	r.State = int64(ring.State)
	r.NextTryTime = ToNull(ring.NextTryTime)
	r.RingNo = int64(ring.RingNo)
	r.RetryTimes = int64(ring.RetryTimes)
	r.LastError = ring.LastError
	r.InDoubt = Bit(ring.InDoubt)
	r.ClaimID = ring.ClaimID
	r.RungAt = ToNull(ring.RungAt)
	r.UpdateTime = int64(ring.UpdateTime)
	r.FinishedAt = ToNull(ring.FinishedAt)
	r.DoubtTarget = int64(ring.DoubtTarget)
	r.RepeatState = ring.Progress.Encode()
}

// TextBytes returns the length of the payload and all texts in bytes, except retry_policy, claim_id, repeat_rule and
// repeat_state, which are short.
func TextBytes(a *clock.Alarm) int {
	return len(a.Application) + len(a.BusinessID) + len(a.Payload) + len(a.ContentType) + len(a.LastError) +
		len(a.Traceparent) + len(a.AnsweredBy) + len(a.Past) + len(a.Destination.Name) + len(a.Receiver)
}

// replaceUnreadable replaces the values that cannot be read by readable ones, and sets LastError to the reason. It
// changes this copy, not the stored row.
func (r *Row) replaceUnreadable(unreadable string) {
	r.LastError = unreadable
	known := func(value *int64, first, last, instead int64) {
		if *value < first || *value > last {
			*value = instead
		}
	}
	known(&r.State, int64(clock.Scheduled), int64(clock.Paused), 0)
	known(&r.PayloadKind, int64(clock.NoPayload), int64(clock.MessagePayload), int64(clock.Binary))
	known(&r.Delivery, int64(clock.AtLeastOnce), int64(clock.AtMostOnce), int64(clock.AtLeastOnce))
	known(&r.Answer, int64(clock.NoAnswer), int64(clock.Touch), int64(clock.NoAnswer))
	known(&r.InDoubt, 0, 1, 0)
	if !store.ValidRank(int(r.DueRank)) {
		r.DueRank, r.Destination, r.Receiver = int64(store.Rank(store.Named{}, 0)), "", ""
	}
	known(&r.AckTimeout, 0, clock.MaxAckTimeout.Milliseconds(), 0)
	known(&r.TargetRingAt, 0, int64(clock.MaxInstant), 0)
}

// FromNull returns the instant of a nullable column: NoInstant for NULL.
func FromNull(n sql.NullInt64) clock.Instant {
	if !n.Valid {
		return clock.NoInstant
	}
	return clock.Instant(n.Int64)
}

// ToNull returns the value of a nullable column for the instant: NULL for NoInstant.
func ToNull(i clock.Instant) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(i), Valid: i != clock.NoInstant}
}
