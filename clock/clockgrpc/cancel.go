package clockgrpc

import (
	"context"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// Cancel serves the procedure Cancel.
func (s *Service) Cancel(ctx context.Context, request *clockdv1.CancelRequest) (*clockdv1.CancelResponse, error) {
	alarm, err := s.change(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		return clock.Op{Cancel: &clock.Cancel{Key: key, If: condition}}
	})
	return &clockdv1.CancelResponse{Alarm: alarm}, err
}
