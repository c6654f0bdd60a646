package clock

import (
	"context"
	"errors"
	"slices"
)

// DeadQuery selects dead and expired alarms of one application, by business id.
type DeadQuery struct {
	Application string
	States      []State // Dead, Expired; none: both
	Prefix      string  // of business_id, bytewise
	After       string  // business_id > After: where the one before ended
	Limit       int     // alarms at most, 1 to MaxDeadLimit
}

// Limits of a DeadQuery.
const (
	DefaultDeadLimit = 1000
	MaxDeadLimit     = 10_000
)

// DeadResult is what became of the alarms that a DeadQuery selects.
type DeadResult struct {
	Done   int    // kicked or discarded
	Failed int    // not, for another was faster or the database failed
	Next   string // After for what is left; empty: nothing is, or with an error
}

// deadPage is how many alarms are read and written at once.
const deadPage = 100

// KickAll kicks the alarms that q selects. Where the limit is reached or ctx ends, Next tells how to go on. When the database
// fails it stops with what was done by then and the error; repeating the same is safe, for what was done is not dead any more.
func (s *Service) KickAll(ctx context.Context, q DeadQuery) (DeadResult, error) {
	return s.eachDead(ctx, q, func(k Key) Op { return Op{Kick: &Kick{Key: k}} })
}

// DiscardAll discards the alarms that q selects, as KickAll kicks them.
func (s *Service) DiscardAll(ctx context.Context, q DeadQuery) (DeadResult, error) {
	return s.eachDead(ctx, q, func(k Key) Op { return Op{Discard: &Discard{Key: k}} })
}

func (s *Service) eachDead(ctx context.Context, q DeadQuery, op func(Key) Op) (r DeadResult, err error) {
	if q.Limit < 1 || q.Limit > MaxDeadLimit {
		return r, invalid(CodeOutOfRange, "limit", "limit must be from 1 to 10000")
	}
	if slices.ContainsFunc(q.States, func(st State) bool { return st != Dead && st != Expired }) {
		return r, invalid(CodeInvalidValue, "state", "state must be dead, expired or both")
	}
	list := ListQuery{Application: q.Application, States: q.States, DueAfter: NoInstant, DueBefore: NoInstant, Prefix: q.Prefix, After: q.After}
	if len(list.States) == 0 {
		list.States = []State{Dead, Expired}
	}
	for left := q.Limit; left > 0; left -= list.Limit {
		list.Limit = min(left, deadPage)
		alarms, err := s.List(ctx, list)
		switch {
		case err != nil && ctx.Err() != nil && list.After != q.After:
			r.Next = list.After
			return r, nil
		case err != nil:
			return r, err
		}
		if err := s.submitDead(ctx, alarms, op, &r); err != nil {
			return r, err
		}
		if len(alarms) < list.Limit {
			return r, nil
		}
		list.After = alarms[len(alarms)-1].BusinessID
	}
	r.Next = list.After
	return r, nil
}

// submitDead submits an op an alarm, all at once, and counts what becomes of them, beyond ctx if need be. Its error is the
// database's.
func (s *Service) submitDead(ctx context.Context, alarms []Alarm, op func(Key) Op, r *DeadResult) (fault error) {
	pending := make([]*Pending, len(alarms))
	for i := range alarms {
		pending[i] = s.Submit(op(alarms[i].Key))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	for _, p := range pending {
		_, err := p.Wait(ctx)
		switch {
		case err == nil:
			r.Done++
			continue
		case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnconfirmed):
			fault = err
		}
		r.Failed++
	}
	return fault
}
