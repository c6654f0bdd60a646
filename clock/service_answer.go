package clock

import "context"

// Answer submits an answer to a ring; see Answers.
func (s *Service) Answer(ctx context.Context, answer Answer) *Pending {
	return s.Answers(ctx, []Answer{answer})[0]
}

// Answers submits answers to rings and returns a Pending for each, in order. It blocks for one read of the store, which
// finds the keys of the rings' alarms. ctx bounds that read, and must last as long as the caller waits, as for Submit.
// An answer that names an application applies only to rings of that application. An answer without an application
// applies to any ring. Every failure is in the answer's Pending.
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
		answer := answers[i]
		op := Op{Answer: &answer, WithoutPayload: answer.WithoutPayload}
		key, known := keys[answer.Ring.AlarmID]
		switch {
		case invalid[i] != nil:
			pending[i] = refused(op, invalid[i])
		case err != nil:
			pending[i] = refused(op, err)
		case !known, answer.Key.Application != "" && answer.Key.Application != key.Application:
			pending[i] = refused(op, unknownRing(answer.Ring))
		default:
			answer.Key = key
			pending[i] = s.Submit(ctx, op)
		}
	}
	return pending
}

// keys reads the keys of the alarms. It does not ask the store if ids is empty.
func (s *Service) keys(ctx context.Context, ids []int64) (map[int64]Key, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys, err := s.store.Keys(ctx, ids)
	if err != nil && ctx.Err() != nil {
		return nil, Unavailable(err) // the caller's ctx ended the read
	}
	return keys, err
}
