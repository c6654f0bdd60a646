package engine

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// AttemptRow is a row of the table ring_attempt in the order of its columns. The row types of each engine's generated
// code convert to it.
type AttemptRow struct {
	ID          int64
	AlarmID     int64
	Generation  int64
	RingNo      int64
	ClaimID     string
	AttemptTime int64
	Outcome     int64
	Error       string
	AnsweredBy  string
}

func (r *AttemptRow) attempt() clock.Attempt {
	return clock.Attempt{
		Generation: r.Generation, RingNo: int(r.RingNo), ClaimID: r.ClaimID, Time: clock.Instant(r.AttemptTime),
		Outcome: clock.OutcomeKind(r.Outcome), Error: r.Error, By: r.AnsweredBy,
	}
}

// SetAttempt sets all columns except the id, which the database chooses.
func (r *AttemptRow) SetAttempt(a *store.AlarmAttempt) {
	r.AlarmID = a.AlarmID
	r.Generation = a.Generation
	r.RingNo = int64(a.RingNo)
	r.ClaimID = a.ClaimID
	r.AttemptTime = int64(a.Time)
	r.Outcome = int64(a.Outcome)
	r.Error = a.Error
	r.AnsweredBy = a.By
}

// KeyRow is the row of a statement that reads keys by id. The row types of each engine's generated code convert to it.
type KeyRow struct {
	ID          int64
	Application string
	BusinessID  string
}

// KeysByID returns the keys of the rows.
func KeysByID[R any](rows []R, convert func(R) KeyRow) map[int64]clock.Key {
	keys := make(map[int64]clock.Key, len(rows))
	for i := range rows {
		r := convert(rows[i])
		keys[r.ID] = clock.Key{Application: r.Application, BusinessID: r.BusinessID}
	}
	return keys
}

// AlarmsOfRows returns the rows as alarms of the domain.
func AlarmsOfRows[R any](rows []R, convert func(R) Row) []clock.Alarm {
	alarms := make([]clock.Alarm, len(rows))
	for i := range rows {
		row := convert(rows[i])
		alarms[i] = row.Alarm()
	}
	return alarms
}

// Column returns one value of each row.
func Column[R, V any](rows []R, value func(*R) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = value(&rows[i])
	}
	return values
}

// Bit returns a flag as its column stores it: 0 or 1.
func Bit(flag bool) int64 {
	if flag {
		return 1
	}
	return 0
}

// Rows are open rows of the table alarm, with its columns in order.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

// EachRow passes the rows to take until take returns false or ctx ends. The caller closes rows.
func EachRow(ctx context.Context, rows Rows, take func(*Row) bool) error {
	for rows.Next() {
		var row Row
		if err := rows.Scan(row.Fields()...); err != nil {
			return err
		}
		if !take(&row) {
			return nil
		}
		if ctx.Err() != nil { // more rows may already be in the client's buffer
			return ctx.Err()
		}
	}
	return rows.Err()
}
