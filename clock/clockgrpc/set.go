package clockgrpc

import (
	"context"

	"connectrpc.com/connect"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// Set serves the procedure Set.
func (s *Service) Set(ctx context.Context, request *clockdv1.SetRequest) (*clockdv1.SetResponse, error) {
	set, err := setOf(request.Application, request.Alarm, traceparentOf(ctx))
	if err != nil {
		return nil, err
	}
	d, err := s.alarms.Submit(ctx, clock.Op{Set: set}).Await(ctx)
	if err != nil {
		return nil, err
	}
	return &clockdv1.SetResponse{Alarm: alarmOf(&d.Alarm), Created: d.Verdict == clock.Create, RepeatEnded: d.RepeatEnded}, nil
}

// traceparentOf returns the trace context in the headers of the call.
func traceparentOf(ctx context.Context) string {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ""
	}
	return clock.ParseTraceparent(info.RequestHeader()["Traceparent"])
}
