package clockgrpc

import (
	"context"
	"errors"
	"time"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// Get serves the procedure Get.
func (s *Service) Get(ctx context.Context, request *clockdv1.GetRequest) (*clockdv1.GetResponse, error) {
	a, err := s.read(ctx, clock.Key{Application: request.Application, BusinessID: request.BusinessId})
	if err != nil {
		return nil, err
	}
	if !callOf(ctx).take(int64(len(a.Payload))) {
		return nil, errTooManyResponses
	}
	return &clockdv1.GetResponse{Alarm: s.blockedAlarmOf(a), Attempts: attemptsOf(a.Attempts)}, nil
}

// read reads an alarm. It validates the key.
func (s *Service) read(ctx context.Context, key clock.Key) (*clock.Alarm, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, clock.RequestTimeout)
	defer cancel()
	a, err := s.alarms.Get(limited, key)
	switch {
	case errors.Is(err, clock.ErrNotFound):
		return nil, clock.UnknownAlarm(key)
	case err != nil:
		return nil, clock.UnavailableIfLate(limited, err)
	}
	return a, nil
}

// errTooManyResponses is the error of a read that finds no memory, because unread responses hold all response memory.
var errTooManyResponses = &clock.Error{
	Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
	Detail: "too many large responses wait for their clients; repeat later",
}
