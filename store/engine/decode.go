package engine

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/store"
)

// CheckedColumns holds the columns of an alarm that can contain unreadable values. Programs other than clockd may have
// written them.
type CheckedColumns struct {
	State, PayloadKind, Delivery, Answer, InDoubt         int64
	Generation, RingNo, RetryTimes, MaxRings, AckTimeout  int64
	DueRank                                               int64
	RingAt, LatestRingAt, NextTryTime, RungAt, UpdateTime clock.Instant // NoInstant for NULL
	PayloadLength                                         int
	RetryPolicy, RepeatRule, RepeatState                  string
}

// DecodedColumns holds the values of the columns that are encoded texts.
type DecodedColumns struct {
	Retry    clock.RetryPolicy
	Schedule repeat.Schedule // column repeat_rule
	Progress clock.Progress
}

// Decode returns the values of the encoded texts. unreadable names the first column that cannot be read and says why;
// it is empty for a readable row.
func (v *CheckedColumns) Decode() (d DecodedColumns, unreadable string) {
	if !store.ValidRank(int(v.DueRank)) {
		return DecodedColumns{}, fmt.Sprintf("column due_rank cannot be read: %d names no known target", v.DueRank)
	}
	if c, bad := v.outOfRange(); bad {
		return DecodedColumns{}, fmt.Sprintf("column %s cannot be read: %d is not from %d to %d", c.name, c.value,
			c.min, c.max)
	}
	var err error
	if d.Retry, err = clock.DecodeRetryPolicy(v.RetryPolicy); err != nil {
		return DecodedColumns{}, unreadableText("retry_policy", err)
	}
	if d.Schedule, err = repeat.Decode(v.RepeatRule); err != nil {
		return DecodedColumns{}, unreadableText("repeat_rule", err)
	}
	if d.Progress, err = clock.DecodeProgress(v.RepeatState); err != nil {
		return DecodedColumns{}, unreadableText("repeat_state", err)
	}
	switch {
	case d.Progress.Repeats() && d.Schedule.Rule == nil:
		return DecodedColumns{}, "column repeat_rule cannot be read: it has no rule, and repeat_state is not empty"
	case !d.Progress.Repeats() && d.Schedule.Rule != nil:
		return DecodedColumns{}, "column repeat_rule cannot be read: it has a rule, and repeat_state is empty"
	}
	return d, ""
}

func unreadableText(column string, err error) string {
	reason := strings.ToValidUTF8("column "+column+" cannot be read: "+err.Error(), "")
	return fmt.Sprintf("%.*s", clock.MaxReason, strings.ReplaceAll(reason, "\x00", ""))
}

// column is a column's value and the range of its readable values.
type column struct {
	name            string
	value, min, max int64
}

// outOfRange returns the first column whose value cannot be read. It allocates nothing, because claims call it for
// every row.
func (v *CheckedColumns) outOfRange() (bad column, found bool) {
	const last = int64(clock.MaxInstant)
	columns := [...]column{
		{"state", v.State, int64(clock.Scheduled), int64(clock.Paused)},
		{"payload_kind", v.PayloadKind, int64(clock.NoPayload), int64(clock.MessagePayload)},
		{"delivery", v.Delivery, int64(clock.AtLeastOnce), int64(clock.AtMostOnce)},
		{"answer", v.Answer, int64(clock.NoAnswer), int64(clock.Touch)},
		{"in_doubt", v.InDoubt, 0, 1},
		{"generation", v.Generation, 1, math.MaxInt64},
		{"ring_no", v.RingNo, 0, math.MaxInt32 - 1},
		{"retry_times", v.RetryTimes, 0, math.MaxInt32 - 1},
		{"max_rings", v.MaxRings, 0, math.MaxInt32},
		{"ack_timeout", v.AckTimeout, 0, int64(clock.MaxAckTimeout / time.Millisecond)},
		{"target_ring_at", int64(v.RingAt), 0, last},
		{"latest_ring_at", int64(v.LatestRingAt), int64(clock.NoInstant), last},
		{"next_try_time", int64(v.NextTryTime), int64(clock.NoInstant), math.MaxInt64},
		{"rung_at", int64(v.RungAt), int64(clock.NoInstant), last},
		{"update_time", int64(v.UpdateTime), 0, last},
		{"payload", int64(v.PayloadLength), 0, clock.MaxStoredPayload}, // its length
	}
	for i := range columns {
		if columns[i].value < columns[i].min || columns[i].value > columns[i].max {
			return columns[i], true
		}
	}
	return column{}, false
}
