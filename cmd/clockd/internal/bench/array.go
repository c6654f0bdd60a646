package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// arrays sends JSON batches on one connection.
type arrays struct {
	*httpConn
	series series
	body   []byte
}

// set sets the alarms from..to-1, due as at says.
func (a *arrays) set(from, to int, at func(n int) int64) error {
	a.body = append(a.body[:0], `{"set":[`...)
	for n := from; n < to; n++ {
		a.appendSet(n, at)
	}
	return a.endSets(to - from)
}

// setThese sets some alarms.
func (a *arrays) setThese(numbers []int, at func(n int) int64) error {
	a.body = append(a.body[:0], `{"set":[`...)
	for _, n := range numbers {
		a.appendSet(n, at)
	}
	return a.endSets(len(numbers))
}

func (a *arrays) appendSet(n int, at func(n int) int64) {
	a.body = append(a.series.appendSet(a.body, n, at(n)), ',')
}

// endSets puts the end in place of the last comma.
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

// batch sends the body; all of its items must be answered with the status.
func (a *arrays) batch(items, want int) error {
	a.head(http.MethodPost, nil)
	var answer []byte
	status, err := a.send(a.body, func(r io.Reader) (err error) {
		answer, err = io.ReadAll(r)
		return err
	})
	if err := expect(status, err, http.StatusOK); err != nil {
		return fmt.Errorf("batch: %w: %.300s", err, answer)
	}
	if done := bytes.Count(answer, statusMark(want)); done != items {
		return fmt.Errorf("batch: %d of %d items were answered %d: %.300s", done, items, want, answer)
	}
	return nil
}

// statusMark is what an item's result with that status holds.
func statusMark(status int) []byte { return fmt.Appendf(nil, `"status":%d`, status) }
