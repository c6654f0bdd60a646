package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DeadQuery selects dead and expired alarms of one application, by business id.
type DeadQuery struct {
	Application string
	States      []State // Dead, Expired or both; empty: both
	Prefix      string  // prefix of business_id, compared bytewise; may be empty
	After       string  // only business_id > After: DeadResult.Next of the query before
	Limit       int     // alarms, at most: 1 to MaxDeadLimit
	Actor       *Actor  // who asks, for the audit; nil: the audit does not record it
}

// Limits of a DeadQuery.
const (
	DefaultDeadLimit = 1000
	MaxDeadLimit     = 10_000
)

// DeadResult counts the alarms that a DeadQuery selected.
type DeadResult struct {
	Done   int    // kicked or discarded alarms
	Failed int    // other alarms: another request changed them first, or the database failed
	Next   string // DeadQuery.After for the remaining alarms; empty if none remain, or with an error
}

// deadPage is how many alarms are read and written at a time.
const deadPage = 100

// KickAll kicks the alarms that query selects. If the limit is reached or ctx ends, the result's Next continues the
// query. If the database fails, KickAll stops and returns the counts so far with the error. A repeat is safe, because a
// kicked alarm is no longer dead.
func (s *Service) KickAll(ctx context.Context, query DeadQuery) (DeadResult, error) {
	return s.eachDead(ctx, query, func(k Key) Op { return Op{Kick: &Kick{Key: k}, Actor: query.Actor, WithoutPayload: true} })
}

// DiscardAll discards the alarms that query selects, as KickAll kicks them.
func (s *Service) DiscardAll(ctx context.Context, query DeadQuery) (DeadResult, error) {
	return s.eachDead(ctx, query,
		func(k Key) Op { return Op{Discard: &Discard{Key: k}, Actor: query.Actor, WithoutPayload: true} })
}

func (s *Service) eachDead(ctx context.Context, query DeadQuery, newOp func(Key) Op) (result DeadResult, err error) {
	if query.Limit < 1 || query.Limit > MaxDeadLimit {
		return result, invalid(CodeOutOfRange, "limit", fmt.Sprintf("limit must be from 1 to %d", MaxDeadLimit))
	}
	if slices.ContainsFunc(query.States, func(state State) bool { return state != Dead && state != Expired }) {
		return result, invalid(CodeInvalidValue, "state", "state must be dead, expired or both")
	}
	list := ListQuery{
		Application: query.Application, States: query.States, DueAfter: NoInstant, DueBefore: NoInstant,
		Prefix: query.Prefix,
		After:  ListPosition{BusinessID: query.After},
	}
	if len(list.States) == 0 {
		list.States = []State{Dead, Expired}
	}
	for left := query.Limit; left > 0; {
		list.Limit = min(left, deadPage)
		var keys []Key
		next, err := s.List(ctx, list, func(a *Alarm) bool {
			keys = append(keys, a.Key)
			return true
		})
		switch {
		case err != nil && ctx.Err() != nil && list.After.BusinessID != query.After:
			result.Next = list.After.BusinessID
			return result, nil
		case err != nil:
			return result, err
		}
		if err := s.submitDead(ctx, keys, newOp, &result); err != nil {
			return result, err
		}
		if next.IsZero() {
			return result, nil
		}
		left -= len(keys)
		list.After = next
	}
	result.Next = list.After.BusinessID
	return result, nil
}

// submitDead submits one op for each key, all together, and counts their outcomes. It waits for all of them, even if
// ctx ends. Its error is a fault of the database.
func (s *Service) submitDead(ctx context.Context, keys []Key, newOp func(Key) Op, result *DeadResult) (fault error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTimeout)
	defer cancel()
	pending := make([]*Pending, len(keys))
	for i := range keys {
		pending[i] = s.Submit(ctx, newOp(keys[i]))
	}
	for _, p := range pending {
		_, err := p.Wait(ctx)
		switch {
		case err == nil:
			result.Done++
			continue
		case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnconfirmed):
			fault = err
		}
		result.Failed++
	}
	return fault
}
