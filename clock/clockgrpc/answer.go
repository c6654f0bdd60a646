package clockgrpc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
)

// Answer serves the procedure Answer.
func (s *Service) Answer(ctx context.Context, request *clockdv1.AnswerRequest) (*clockdv1.AnswerResponse, error) {
	answer, err := answerOf(request)
	if err != nil {
		return nil, err
	}
	if answer.By == "" {
		answer.By = front.By(callOf(ctx).request)
	}
	waiting, cancel := lasting(ctx)
	defer cancel()
	d, err := s.alarms.Answer(waiting, *answer).Await(waiting)
	if err != nil {
		return nil, err
	}
	return &clockdv1.AnswerResponse{Alarm: alarmOf(&d.Alarm)}, nil
}

// lasting returns a context that continues when the client leaves, because an answer is not repeated without harm. It
// ends with the client's deadline, and after clock.RequestTimeout.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := clock.RequestTimeout
	if end, given := ctx.Deadline(); given {
		wait = min(wait, time.Until(end))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// answerOf returns the answer that a message asks for. The domain checks ranges.
func answerOf(request *clockdv1.AnswerRequest) (*clock.Answer, error) {
	if err := clock.ValidateApplication(request.Application); err != nil {
		return nil, err
	}
	ring, err := clock.ParseRingID(request.MessageId)
	if err != nil {
		return nil, err
	}
	a := &clock.Answer{Kind: clock.AnswerKind(request.Answer), Ring: ring, Reason: request.Reason, By: request.By}
	a.Key.Application = request.Application
	if int32(a.Kind) != int32(request.Answer) || a.Kind.Fields() == nil {
		return nil, clock.Invalid(clock.CodeInvalidValue, "answer", "answer must be ack, release, bury or touch")
	}
	for field, given := range map[string]bool{"delay": request.Delay != nil, "reason": request.Reason != ""} {
		if given && !slices.Contains(a.Kind.Fields(), field) {
			return nil, clock.Invalid(clock.CodeUnknownField, field,
				fmt.Sprintf("the answer %s has no %s", a.Kind, field))
		}
	}
	if err := clock.CheckReason(a.Reason); err != nil {
		return nil, err
	}
	a.Delay.Given = request.Delay != nil
	return a, readDuration(request.Delay, "delay", &a.Delay.Span)
}
