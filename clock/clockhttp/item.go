package clockhttp

import (
	"context"
	"strconv"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// item is one op of a batch or a stream. It is submitted, or it was refused before that.
type item struct {
	businessID string         // id for the result; empty if unknown or too long
	pending    *clock.Pending // submitted op; nil for a refused item
	err        error          // reason of the refusal; nil for a submitted item
}

// refusedItem returns an item that err refuses. Its result does not repeat a business id that is too long.
func refusedItem(businessID string, err error) item {
	if len(businessID) > clock.MaxBusinessID {
		businessID = ""
	}
	return item{businessID: businessID, err: err}
}

// ready reports whether decision would return at once.
func (it *item) ready() bool {
	if it.pending == nil {
		return true
	}
	select {
	case <-it.pending.Done():
		return true
	default:
		return false
	}
}

func (it *item) decision() (*clock.Decision, error) {
	if it.pending == nil {
		return nil, it.err
	}
	return it.pending.Await(context.Background())
}

// decided returns the decision if it is known. Otherwise the error is ErrUnconfirmed.
func (it *item) decided() (*clock.Decision, error) {
	if it.pending == nil {
		return nil, it.err
	}
	return it.pending.Known()
}

// result is the result of one item.
type result struct {
	businessID string
	alarm      *clock.Alarm // the alarm after the op; nil if unknown
	status     int
	ended      bool           // Decision.RepeatEnded
	problem    *front.Problem // reason of the failure; nil on success
}

func resultOf(it *item, d *clock.Decision, err error) result {
	if err != nil {
		p := front.ProblemOf(err)
		return result{businessID: it.businessID, alarm: p.Alarm, status: p.Status, problem: p}
	}
	return result{businessID: it.businessID, alarm: &d.Alarm, status: setStatus(d.Verdict), ended: d.RepeatEnded}
}

// append appends the result as JSON. It adds the member "line" unless line is 0.
func (r *result) append(b []byte, line int64) []byte {
	b = append(b, '{')
	if line > 0 {
		b = append(b, `"line":`...)
		b = strconv.AppendInt(b, line, 10)
		b = append(b, ',')
	}
	if r.businessID != "" {
		b = append(b, `"business_id":`...)
		b = appendString(b, r.businessID)
		b = append(b, ',')
	}
	b = append(b, `"status":`...)
	b = strconv.AppendInt(b, int64(r.status), 10)
	if r.alarm != nil {
		b = append(b, `,"generation":`...)
		b = strconv.AppendInt(b, r.alarm.Generation, 10)
		b = append(b, `,"state":"`...)
		b = append(b, r.alarm.State.String()...)
		b = append(b, '"')
	}
	if r.ended {
		b = append(b, memberRepeatEnded...)
	}
	if r.problem != nil {
		b = appendCause(b, r.problem)
	}
	return append(b, '}')
}
