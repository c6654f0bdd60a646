package main

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit"
)

var _ rabbit.Answerer = answerer{}

// answerer applies the answers that come over RabbitMQ.
type answerer struct{ service *clock.Service }

// Answer applies the answers in order and returns what became of each.
func (a answerer) Answer(ctx context.Context, answers []clock.Answer) []error {
	pending := a.service.Answers(ctx, answers)
	errs := make([]error, len(pending))
	for i, p := range pending {
		_, errs[i] = p.Wait(ctx)
	}
	return errs
}
