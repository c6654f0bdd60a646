package front

import (
	"net/http"

	"github.com/clockd/clockd/clock"
)

// WholeProblem returns the problem of a whole batch, nil unless an item failed for the server's reasons. The problem of
// an applied item is nil.
func WholeProblem(problems []*Problem) *Problem {
	var whole *Problem
	applied := false
	for _, p := range problems {
		if p != nil && p.ServerFault() {
			whole = joinProblems(whole, p)
		} else if p == nil {
			applied = true
		}
	}
	if whole != nil && applied {
		whole.Code = clock.CodeUnconfirmed
		whole.Detail = "some items of the batch were applied, and others failed; repeat the whole batch"
	}
	return whole
}

const joinedDetail = "items of the batch failed; repeat the whole batch: "

// joinProblems adds p, the problem of one item, to the problem of the whole batch. whole is nil for the first item that
// failed. A client may safely repeat the whole batch after any of these problems.
func joinProblems(whole, p *Problem) *Problem {
	if whole == nil {
		joined := *p
		joined.Status, joined.Alarm = http.StatusServiceUnavailable, nil
		joined.Detail = joinedDetail + p.Detail
		return &joined
	}
	whole.RetryAfter = max(whole.RetryAfter, p.RetryAfter)
	if whole.Cause == nil {
		whole.Cause = p.Cause
	}
	if p.Code == clock.CodeUnconfirmed {
		whole.Code, whole.Detail = p.Code, joinedDetail+p.Detail
	}
	return whole
}

// BatchFailure returns the error of a whole batch, nil unless an item failed for the server's reasons. errs has the
// errors of all items, nil for applied ones.
func BatchFailure(errs []error) error {
	problems := make([]*Problem, len(errs))
	for i, err := range errs {
		if err != nil {
			problems[i] = ProblemOf(err)
		}
	}
	if whole := WholeProblem(problems); whole != nil {
		return whole
	}
	return nil
}
