package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// arrays sends batches as JSON arrays on one connection.
type arrays struct {
	*httpConn
	series series
	body   []byte
}

// set sets the alarms from..to-1. dueAt returns the due time of alarm n.
func (a *arrays) set(from, to int, dueAt func(n int) int64) error {
	a.body = append(a.body[:0], `{"set":[`...)
	for n := from; n < to; n++ {
		a.appendSet(n, dueAt)
	}
	return a.endSets(to - from)
}

// setThese sets the alarms with these numbers.
func (a *arrays) setThese(numbers []int, dueAt func(n int) int64) error {
	a.body = append(a.body[:0], `{"set":[`...)
	for _, n := range numbers {
		a.appendSet(n, dueAt)
	}
	return a.endSets(len(numbers))
}

func (a *arrays) appendSet(n int, dueAt func(n int) int64) {
	a.body = append(a.series.appendSet(a.body, n, dueAt(n)), ',')
}

// endSets replaces the last comma by the end of the batch, and sends it.
func (a *arrays) endSets(items int) error {
	a.body = append(a.body[:len(a.body)-1], "]}"...)
	return a.batch(items, http.StatusCreated)
}

// cancel cancels the alarms from..to-1.
func (a *arrays) cancel(from, to int) error {
	a.body = append(a.body[:0], `{"cancel":[`...)
	for n := from; n < to; n++ {
		if n > from {
			a.body = append(a.body, ',')
		}
		a.body = append(a.body, '"')
		a.body = append(a.series.appendID(a.body, n), '"')
	}
	a.body = append(a.body, "]}"...)
	return a.batch(to-from, http.StatusOK)
}

// batch sends the body. The result of every item must have the status want.
func (a *arrays) batch(items, want int) error {
	a.head(http.MethodPost, nil)
	var response []byte
	status, err := a.send(a.body, func(r io.Reader) (err error) {
		response, err = io.ReadAll(r)
		return err
	})
	if err := expect(status, err, http.StatusOK); err != nil {
		return fmt.Errorf("batch: %w: %.300s", err, response)
	}
	if done := bytes.Count(response, statusMark(want)); done != items {
		return fmt.Errorf("batch: %d of %d items have status %d: %.300s", done, items, want, response)
	}
	return nil
}

// statusMark returns the bytes that an item's result with this status contains.
func statusMark(status int) []byte { return fmt.Appendf(nil, `"status":%d`, status) }
