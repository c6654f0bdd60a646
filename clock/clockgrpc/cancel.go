package clockgrpc

import (
	"context"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// Cancel serves the procedure Cancel.
func (s *Service) Cancel(ctx context.Context, request *clockdv1.CancelRequest) (*clockdv1.CancelResponse, error) {
	key := clock.Key{Application: request.Application, BusinessID: request.BusinessId}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	condition, err := generationCondition(request.Generation)
	if err != nil {
		return nil, err
	}
	d, err := s.alarms.Submit(ctx, clock.Op{Cancel: &clock.Cancel{Key: key, If: condition}}).Await(ctx)
	if err != nil {
		return nil, err
	}
	return &clockdv1.CancelResponse{Alarm: alarmOf(&d.Alarm)}, nil
}
