package clock

import "context"

// Resend submits resends of rings and returns a Pending for each, in order. Like Answers, it blocks for one read of the
// store. Each resend applies only to a ring of its application. Every failure is in the resend's Pending.
func (s *Service) Resend(ctx context.Context, resends []Resend) []*Pending {
	ids := make([]int64, len(resends))
	for i := range resends {
		ids[i] = resends[i].Ring.AlarmID
	}
	keys, err := s.keys(ctx, ids)
	pending := make([]*Pending, len(resends))
	for i := range resends {
		resend := resends[i]
		op := Op{Resend: &resend, WithoutPayload: true}
		key, known := keys[resend.Ring.AlarmID]
		switch {
		case err != nil:
			pending[i] = refused(op, err)
		case !known, resend.Key.Application != key.Application:
			pending[i] = refused(op, unknownRing(resend.Ring))
		default:
			resend.Key = key
			pending[i] = s.Submit(ctx, op)
		}
	}
	return pending
}
