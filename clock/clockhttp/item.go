package clockhttp

import (
	"context"
	"net/http"
	"strconv"

	"github.com/clockd/clockd/clock"
)

// item is one op of many: submitted, or refused before that.
type item struct {
	businessID string
	pending    *clock.Pending // nil with err
	err        error
}

// refusedItem returns an item that err refuses. An id that is none is not repeated in its result.
func refusedItem(businessID string, err error) item {
	if len(businessID) > clock.MaxBusinessID {
		businessID = ""
	}
	return item{businessID: businessID, err: err}
}

// ready reports whether outcome would not wait.
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

func (it *item) outcome() (*clock.Decision, error) {
	if it.pending == nil {
		return nil, it.err
	}
	return outcome(it.pending)
}

func (it *item) outcomeWithin(ctx context.Context) (*clock.Decision, error) {
	if it.pending == nil {
		return nil, it.err
	}
	return it.pending.Wait(ctx)
}

// result is what became of an item.
type result struct {
	businessID string
	alarm      *clock.Alarm // as it stands, where it is known
	status     int
	problem    *problem // nil when it was done
}

func resultOf(it *item, d *clock.Decision, err error) result {
	if err != nil {
		p := problemOf(err)
		return result{businessID: it.businessID, alarm: p.Alarm, status: p.Status, problem: p}
	}
	return result{businessID: it.businessID, alarm: &d.Alarm, status: setStatus(d.Verdict)}
}

// append appends the result as JSON, with the line it answers unless that is 0.
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
	if r.problem != nil {
		b = r.problem.appendCause(b)
	}
	return append(b, '}')
}

// classes of answers, as metrics name them.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func classOf(status int) string {
	if status < 100 || status > 599 {
		return classes[http.StatusInternalServerError/100-1]
	}
	return classes[status/100-1]
}
