package clockgrpc

import (
	"context"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/repeat"
)

// Occurrences serves the procedure Occurrences.
func (s *Service) Occurrences(
	ctx context.Context, request *clockdv1.OccurrencesRequest,
) (*clockdv1.OccurrencesResponse, error) {
	count := int(request.Count)
	if count == 0 {
		count = clock.DefaultOccurrences
	}
	if count < 1 || count > clock.MaxOccurrences {
		return nil, clock.Invalid(clock.CodeOutOfRange, "count",
			fmt.Sprintf("count must be from 1 to %d", clock.MaxOccurrences))
	}
	a, err := s.read(ctx, clock.Key{Application: request.Application, BusinessID: request.BusinessId})
	if err != nil {
		return nil, err
	}
	if a.Repeat == nil {
		return nil, clock.RingsOnce(a)
	}
	response, repetition := &clockdv1.OccurrencesResponse{TimeZoneData: repeat.Data().Version()}, a.Repetition()
	for _, o := range a.Occurrences(clock.InstantOf(time.Now()), count, clock.CountedOccurrences) {
		response.Occurrences = append(response.Occurrences, &clockdv1.NextOccurrence{
			Number: o.Number, At: timestampOf(clock.Instant(o.At)), RingAt: timestampOf(repetition.RingAt(o)),
			Local: a.Repeat.Local(o.At),
		})
	}
	return response, nil
}
