package clockgrpc

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
)

// Batch serves the procedure Batch. It submits every item in order, sets first, and responds when all items are done.
func (s *Service) Batch(ctx context.Context, request *clockdv1.BatchRequest) (*clockdv1.BatchResponse, error) {
	if err := clock.ValidateApplication(request.Application); err != nil {
		return nil, err
	}
	count := len(request.Set) + len(request.Cancel)
	if count > s.cfg.BatchItems {
		return nil, &clock.Error{
			Kind: clock.ErrTooLarge, Code: clock.CodeBatchTooLarge,
			Detail: fmt.Sprintf("a batch has at most %d items; send several", s.cfg.BatchItems),
		}
	}
	if err := front.Spend(callOf(ctx).request, count-1); err != nil {
		return nil, err
	}
	items := make([]item, 0, count)
	trace := traceparentOf(ctx)
	for _, spec := range request.Set {
		items = append(items, s.submitSet(ctx, request.Application, spec, trace))
	}
	for _, id := range request.Cancel {
		items = append(items, s.submitCancel(ctx, clock.Key{Application: request.Application, BusinessID: id}))
	}
	return s.results(ctx, items)
}

// item is one op of a batch. It is submitted, or it was refused before that.
type item struct {
	businessID string
	pending    *clock.Pending // submitted op; nil for a refused item
	err        error          // reason of the refusal; nil for a submitted item
}

func (s *Service) submitSet(ctx context.Context, application string, spec *clockdv1.AlarmSpec, trace string) item {
	set, err := setOf(application, spec, trace)
	if err != nil {
		return item{businessID: spec.GetBusinessId(), err: err}
	}
	return item{businessID: set.BusinessID, pending: s.submit(ctx, clock.Op{Set: set, WithoutPayload: true})}
}

func (s *Service) submitCancel(ctx context.Context, key clock.Key) item {
	if err := key.Validate(); err != nil {
		return item{businessID: key.BusinessID, err: err}
	}
	return item{businessID: key.BusinessID,
		pending: s.submit(ctx, clock.Op{Cancel: &clock.Cancel{Key: key, Brief: true}, WithoutPayload: true})}
}

// submit submits an item. If a batch names one key more often than the queue allows, this item and all later items wait
// here.
func (s *Service) submit(ctx context.Context, op clock.Op) *clock.Pending {
	return clock.SubmitPatiently(ctx, func() *clock.Pending { return s.alarms.Submit(ctx, op) },
		clock.CodeKeyOverloaded)
}

// results waits for all items. If any item failed for the server's reasons, the whole batch fails.
func (s *Service) results(ctx context.Context, items []item) (*clockdv1.BatchResponse, error) {
	pending := make([]*clock.Pending, len(items))
	for i := range items {
		pending[i] = items[i].pending
	}
	clock.AwaitAll(ctx, pending)
	decisions, errs := make([]*clock.Decision, len(items)), make([]error, len(items))
	for i, it := range items {
		if errs[i] = it.err; it.pending != nil {
			decisions[i], errs[i] = it.pending.Known()
		}
	}
	if err := front.BatchFailure(errs); err != nil {
		return nil, err
	}
	response := &clockdv1.BatchResponse{Results: make([]*clockdv1.BatchResult, len(items))}
	for i := range items {
		response.Results[i] = s.resultOf(ctx, &items[i], decisions[i], errs[i])
	}
	return response, nil
}

// resultOf returns the result of an item. It does not repeat a business id that is too long.
func (s *Service) resultOf(ctx context.Context, it *item, d *clock.Decision, err error) *clockdv1.BatchResult {
	result := &clockdv1.BatchResult{BusinessId: it.businessID}
	if len(it.businessID) > clock.MaxBusinessID {
		result.BusinessId = ""
	}
	status, e := s.front.ItemRefusal(callOf(ctx).request, "rpc", err)
	alarm := (*clock.Alarm)(nil)
	if e == nil {
		alarm, result.Created, result.RepeatEnded = &d.Alarm, d.Verdict == clock.Create, d.RepeatEnded
	} else {
		alarm, e.Alarm = e.Alarm, nil
		result.Failure = &clockdv1.Failure{Code: int32(codeOf(status)), Message: e.Detail, Problem: problemOf(e)}
	}
	if alarm != nil {
		result.Generation, result.State = alarm.Generation, clockdv1.State(alarm.State)
	}
	return result
}
