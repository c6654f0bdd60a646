package clockgrpc

import (
	"cmp"
	"context"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
)

// Pause serves the procedure Pause.
func (s *Service) Pause(ctx context.Context, request *clockdv1.PauseRequest) (*clockdv1.PauseResponse, error) {
	alarm, err := s.act(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		return clock.Op{Pause: &clock.Pause{Key: key, If: condition}, Note: request.Note}
	})
	return &clockdv1.PauseResponse{Alarm: alarm}, err
}

// Resume serves the procedure Resume.
func (s *Service) Resume(ctx context.Context, request *clockdv1.ResumeRequest) (*clockdv1.ResumeResponse, error) {
	alarm, err := s.act(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		return clock.Op{Resume: &clock.Resume{Key: key, If: condition}, Note: request.Note}
	})
	return &clockdv1.ResumeResponse{Alarm: alarm}, err
}

// Trigger serves the procedure Trigger.
func (s *Service) Trigger(ctx context.Context, request *clockdv1.TriggerRequest) (*clockdv1.TriggerResponse, error) {
	alarm, err := s.act(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		return clock.Op{Trigger: &clock.Trigger{Key: key, If: condition}, Note: request.Note}
	})
	return &clockdv1.TriggerResponse{Alarm: alarm}, err
}

// Backfill serves the procedure Backfill.
func (s *Service) Backfill(ctx context.Context, request *clockdv1.BackfillRequest) (*clockdv1.BackfillResponse, error) {
	asked := clock.Backfill{
		From: clock.NoInstant, Until: clock.NoInstant, Limit: int(request.Limit), Pace: clock.DefaultPace,
	}
	if err := cmp.Or(readInstant(request.From, "from", &asked.From), readInstant(request.Until, "until", &asked.Until),
		readDuration(request.Pace, "pace", &asked.Pace)); err != nil {
		return nil, err
	}
	alarm, err := s.act(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		asked.Key, asked.If = key, condition
		return clock.Op{Backfill: &asked, Note: request.Note}
	})
	return &clockdv1.BackfillResponse{Alarm: alarm}, err
}

// EndBackfill serves the procedure EndBackfill.
func (s *Service) EndBackfill(
	ctx context.Context, request *clockdv1.EndBackfillRequest,
) (*clockdv1.EndBackfillResponse, error) {
	alarm, err := s.act(ctx, request, request.Generation, func(key clock.Key, condition clock.Condition) clock.Op {
		return clock.Op{EndBackfill: &clock.EndBackfill{Key: key, If: condition}, Note: request.Note}
	})
	return &clockdv1.EndBackfillResponse{Alarm: alarm}, err
}

// actRequest is a request on one alarm.
type actRequest interface {
	GetApplication() string
	GetBusinessId() string
}

// act submits an op on one alarm that the audit records, and returns the alarm after it.
func (s *Service) act(
	ctx context.Context, request actRequest, generation *int64, op func(clock.Key, clock.Condition) clock.Op,
) (*clockdv1.Alarm, error) {
	return s.change(ctx, request, generation, func(key clock.Key, condition clock.Condition) clock.Op {
		asked := op(key, condition)
		asked.Actor = front.Actor(callOf(ctx).request)
		return asked
	})
}

// change submits an op on one alarm, and returns the alarm after it.
func (s *Service) change(
	ctx context.Context, request actRequest, generation *int64, op func(clock.Key, clock.Condition) clock.Op,
) (*clockdv1.Alarm, error) {
	key := clock.Key{Application: request.GetApplication(), BusinessID: request.GetBusinessId()}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	condition, err := generationCondition(generation)
	if err != nil {
		return nil, err
	}
	d, err := s.alarms.Submit(ctx, op(key, condition)).Await(ctx)
	if err != nil {
		return nil, err
	}
	return alarmOf(&d.Alarm), nil
}
