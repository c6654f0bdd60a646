package engine

import (
	"cmp"
	"database/sql"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// DueColumns are the columns of LockDue. The row type of PostgreSQL's generated code converts to it, so the order of
// the columns counts. MySQL and SQLite unpack their rows into it (packed.go).
type DueColumns struct {
	ID            int64
	Application   string
	BusinessID    string
	Shard         int64
	State         int64
	Generation    int64
	PayloadKind   int64
	ContentType   string
	TargetRingAt  int64
	LatestRingAt  sql.NullInt64
	NextTryTime   sql.NullInt64
	RingNo        int64
	RetryTimes    int64
	LastError     string
	InDoubt       int64
	RetryPolicy   string
	AckTimeout    int64
	MaxRings      int64
	Priority      int64
	Traceparent   string
	ClaimID       string
	RungAt        sql.NullInt64
	UpdateTime    int64
	Delivery      int64
	DueRank       int64
	DoubtTarget   int64
	RepeatRule    string
	RepeatState   string
	Destination   string
	Receiver      string
	PayloadLength int64
}

// DueRow is a due row of a claim, as ClaimTx.LockDue or HoldingTx.TakeFresh read it.
type DueRow struct {
	DueColumns
	Payload    []byte // nil: ClaimTx.Take sets it
	Unreadable string // why the driver could not read all columns; then only ID and Generation have values
}

// DueRows returns the rows of LockDue without payloads.
func DueRows[R any](rows []R, convert func(R) DueColumns) []DueRow {
	due := make([]DueRow, len(rows))
	for i := range rows {
		due[i].DueColumns = convert(rows[i])
	}
	return due
}

// candidate returns what store.ClaimRequest.Judge needs of the row.
func (r *DueRow) candidate() store.Candidate {
	c := store.Candidate{
		ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, Generation: r.Generation,
		RingRow: clock.RingRow{
			State: clock.State(r.State), NextTryTime: FromNull(r.NextTryTime), RingNo: int(r.RingNo),
			RetryTimes: int(r.RetryTimes),
			LastError:  r.LastError, InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: FromNull(r.RungAt),
			UpdateTime: clock.Instant(r.UpdateTime),
		},
		MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond,
		Delivery:     clock.DeliveryMode(r.Delivery),
		LatestRingAt: FromNull(r.LatestRingAt), Rank: int(r.DueRank), PayloadLength: int(r.PayloadLength),
		Unreadable: r.Unreadable,
	}
	c.KeepDoubtTarget(clock.TargetKind(r.DoubtTarget))
	if r.Unreadable != "" {
		return c
	}
	v := CheckedColumns{
		State: r.State, PayloadKind: r.PayloadKind, Delivery: r.Delivery, InDoubt: r.InDoubt, Generation: r.Generation,
		RingNo:     r.RingNo,
		RetryTimes: r.RetryTimes, MaxRings: r.MaxRings, AckTimeout: r.AckTimeout, RingAt: clock.Instant(r.TargetRingAt),
		LatestRingAt: c.LatestRingAt, NextTryTime: c.NextTryTime, RungAt: c.RungAt, UpdateTime: c.UpdateTime,
		PayloadLength: c.PayloadLength,
		RetryPolicy:   r.RetryPolicy, DueRank: r.DueRank, RepeatRule: r.RepeatRule, RepeatState: r.RepeatState,
	}
	d, unreadable := v.Decode()
	c.Retry, c.Progress, c.Unreadable = d.Retry, d.Progress, unreadable
	c.Repetition = clock.RepetitionOf(d.Schedule.Rule, c.Key, c.Generation)
	return c
}

// addTo adds the fields of the ring that a candidate lacks.
func (r *DueRow) addTo(ring *clock.Ring) {
	ring.Shard, ring.RingAt, ring.Priority, ring.Traceparent = int(r.Shard), clock.Instant(r.TargetRingAt), int(r.Priority), r.Traceparent
	ring.ContentType = r.ContentType
	if r.Receiver != "" {
		ring.Own = clock.OwnReceiver{Fields: r.Receiver, Destination: r.Destination}
	}
	if ring.Before.Progress.Repeats() {
		ring.RingAt = ring.Repetition.DueAt(&ring.Before.Progress)
	}
	_ = ring.SetPayload(clock.PayloadKind(r.PayloadKind), r.Payload) // a message that cannot be unpacked keeps its kind, and RabbitMQ's target refuses it
}

// PayloadRow is the row of a statement that returns payloads by id. The row types of each engine's generated code
// convert to it.
type PayloadRow struct {
	ID      int64
	Payload []byte
}

// SetPayloads sets the payload of each due row that a statement has returned. It returns how many rows these are.
func SetPayloads[R any](due []*DueRow, returned []R, convert func(R) PayloadRow) int {
	payloads := make(map[int64][]byte, len(returned))
	for i := range returned {
		r := convert(returned[i])
		payloads[r.ID] = r.Payload
	}
	found := 0
	for _, row := range due {
		if payload, returned := payloads[row.ID]; returned {
			row.Payload = payload
			found++
		}
	}
	return found
}

// dueAlarm is a row of a claim together with its candidate.
type dueAlarm struct {
	row       *DueRow
	candidate *store.Candidate
}

// dueAlarmsOf returns each candidate with its row, in the order of the candidates. rows must be in the order of their
// ids.
func dueAlarmsOf(candidates []store.Candidate, rows []DueRow) []dueAlarm {
	alarms := make([]dueAlarm, len(candidates))
	for i := range candidates {
		at, _ := slices.BinarySearchFunc(rows, candidates[i].ID,
			func(row DueRow, id int64) int { return cmp.Compare(row.ID, id) })
		alarms[i] = dueAlarm{&rows[at], &candidates[i]}
	}
	return alarms
}
