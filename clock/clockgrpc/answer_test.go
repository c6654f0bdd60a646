package clockgrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestAnswersEndOrMoveTheRing(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := s.subscribe(ctx, s.grpc())
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for _, answer := range []struct {
			request *clockdv1.AnswerRequest
			state   clockdv1.State
		}{
			{&clockdv1.AnswerRequest{Answer: clockdv1.AnswerKind_ANSWER_KIND_ACK, By: "worker 1"},
				clockdv1.State_STATE_RUNG},
			{&clockdv1.AnswerRequest{Answer: clockdv1.AnswerKind_ANSWER_KIND_BURY, Reason: "unreadable", By: "worker 1"}, clockdv1.State_STATE_DEAD},
			{&clockdv1.AnswerRequest{Answer: clockdv1.AnswerKind_ANSWER_KIND_RELEASE, Delay: durationpb.New(time.Hour), Reason: "later"}, clockdv1.State_STATE_SCHEDULED},
			{&clockdv1.AnswerRequest{Answer: clockdv1.AnswerKind_ANSWER_KIND_TOUCH, Delay: durationpb.New(time.Hour)},
				clockdv1.State_STATE_RINGING},
		} {
			spec := alarm(id+answer.request.Answer.String(), 0)
			spec.AckTimeout = durationpb.New(time.Minute)
			must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
			answer.request.Application, answer.request.MessageId = "shop", in.next(t)[0].MessageId
			a := must(t, c, "Answer", answer.request, &clockdv1.AnswerResponse{}).Alarm
			by := answer.request.By
			if by == "" {
				by = "127.0.0.1"
			}
			if a.State != answer.state || a.BusinessId != spec.BusinessId || a.Answer != answer.request.Answer ||
				a.AnsweredBy != by || a.AnsweredAt == nil {
				t.Errorf("%v: %v", answer.request, a)
			}
			if until := a.NextTryTime.AsTime().Sub(a.UpdatedAt.AsTime()); answer.request.Delay != nil &&
				until != time.Hour {
				t.Errorf("%v: next due in %s", answer.request, until)
			}
			if answer.request.Answer == clockdv1.AnswerKind_ANSWER_KIND_TOUCH {
				continue // may be repeated
			}
			if f := c.call(t.Context(), "Answer", answer.request, &clockdv1.AnswerResponse{}); f == nil ||
				f.code != codes.FailedPrecondition || f.problem.GetCode() != "stale_ring" ||
				f.problem.GetAlarm().GetAnsweredBy() != by {
				t.Errorf("the repeated answer: %v", f)
			}
		}
	})
}

func TestFaultsOfAnswersAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for _, fault := range []struct {
			code   codes.Code
			field  string
			change func(*clockdv1.AnswerRequest)
		}{
			{codes.NotFound, "", func(*clockdv1.AnswerRequest) {}},
			{codes.InvalidArgument, "application", func(a *clockdv1.AnswerRequest) { a.Application = "" }},
			{codes.InvalidArgument, "message_id", func(a *clockdv1.AnswerRequest) { a.MessageId = "1.1" }},
			{codes.InvalidArgument, "answer", func(a *clockdv1.AnswerRequest) { a.Answer = 0 }},
			{codes.InvalidArgument, "answer", func(a *clockdv1.AnswerRequest) { a.Answer = 257 }},
			{codes.InvalidArgument, "delay", func(a *clockdv1.AnswerRequest) { a.Delay = durationpb.New(time.Hour) }},
			{codes.InvalidArgument, "reason", func(a *clockdv1.AnswerRequest) { a.Reason = "x" }},
			{codes.InvalidArgument, "reason", func(a *clockdv1.AnswerRequest) {
				a.Answer, a.Reason = clockdv1.AnswerKind_ANSWER_KIND_BURY, strings.Repeat("x", 501)
			}},
			{codes.InvalidArgument, "delay", func(a *clockdv1.AnswerRequest) {
				a.Answer, a.Delay = clockdv1.AnswerKind_ANSWER_KIND_TOUCH, durationpb.New(time.Millisecond)
			}},
			{codes.InvalidArgument, "delay", func(a *clockdv1.AnswerRequest) {
				a.Answer, a.Delay = clockdv1.AnswerKind_ANSWER_KIND_RELEASE, durationpb.New(-time.Hour)
			}},
		} {
			request := &clockdv1.AnswerRequest{Application: "shop", MessageId: "99.1.1",
				Answer: clockdv1.AnswerKind_ANSWER_KIND_ACK}
			fault.change(request)
			if f := c.call(t.Context(), "Answer", request, &clockdv1.AnswerResponse{}); f == nil ||
				f.code != fault.code || f.problem.GetField() != fault.field {
				t.Errorf("%v: %v", request, f)
			}
		}
	})
}
