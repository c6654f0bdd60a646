package main

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/inbox"
)

var _ inbox.Answerer = answerer{}

// answerer applies the answers that arrive over RabbitMQ.
type answerer struct{ service *clock.Service }

// Answer submits the answers in order, and calls done for each answer once its outcome is known. An answer to an alarm
// whose row is locked does not delay the others.
func (a answerer) Answer(ctx context.Context, answers []clock.Answer, done func(i int, err error)) {
	for i := range answers {
		answers[i].WithoutPayload = true
	}
	for i, p := range a.service.Answers(ctx, answers) {
		go func() {
			_, err := p.Wait(ctx)
			done(i, err)
		}()
	}
}
