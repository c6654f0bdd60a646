package clock

import "context"

// Answer submits an answer to a ring; see Answers.
func (s *Service) Answer(ctx context.Context, a Answer) *Pending {
	return s.Answers(ctx, []Answer{a})[0]
}

// Answers submits answers to rings and returns what is to come of each, in order. It blocks for one read, of the keys of
// the alarms that the rings are of; ctx bounds that alone. An answer that names an application is for its rings only; one that
// names none is for any. Every failure is in its Pending.
func (s *Service) Answers(ctx context.Context, answers []Answer) []*Pending {
	invalid := make([]error, len(answers))
	ids := make([]int64, 0, len(answers))
	for i := range answers {
		if invalid[i] = answers[i].Validate(); invalid[i] == nil {
			ids = append(ids, answers[i].Ring.AlarmID)
		}
	}
	keys, err := s.keys(ctx, ids)
	pending := make([]*Pending, len(answers))
	for i := range answers {
		a := answers[i]
		op := Op{Answer: &a}
		key, known := keys[a.Ring.AlarmID]
		switch {
		case invalid[i] != nil:
			pending[i] = failed(op, invalid[i])
		case err != nil:
			pending[i] = failed(op, err)
		case !known, a.Key.Application != "" && a.Key.Application != key.Application:
			pending[i] = failed(op, unknownRing(a.Ring))
		default:
			a.Key = key
			pending[i] = s.Submit(op)
		}
	}
	return pending
}

// keys reads the keys of the alarms, nothing where there is no id.
func (s *Service) keys(ctx context.Context, ids []int64) (map[int64]Key, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys, err := s.store.Keys(ctx, ids)
	if err != nil && ctx.Err() != nil {
		return nil, Unavailable(err) // the caller's own limit
	}
	return keys, err
}
