package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/client/internal/once"
)

// Handler does the work of a ring, and returns the answer to it. An Answer without Kind is no answer: the alarm rings
// again after its AckTimeout, under a new message id. If the ring needs no answer (AckTimeout 0), the only answers are
// Acked and none.
//
// ctx ends when the consumer stops waiting for its rings. It does not end with the ring's AckTimeout: a handler that
// needs more time answers Touched in between, with Client.Answer.
type Handler func(ctx context.Context, r *Ring) Answer

// Consumer says how Consume handles rings. Handle is required. A field that is zero has its default.
type Consumer struct {
	Handle      Handler
	Concurrency int           // calls of Handle at once; default 1: rings are handled in the order of their arrival
	ReadAhead   int           // most rings that were read and wait for Handle; default 100
	Memory      int           // message ids that are remembered, to recognize copies; default 100,000, which take about 10 MB
	Drain       time.Duration // time for the rings that were read, after the end of the context; default 10 s
	// Failed is told each fault after which Consume goes on: a stream that ended, that could not be opened or not be
	// resumed, a ring that cannot be read, and an answer that was not accepted. The error wraps an *Error. Several
	// goroutines may call Failed at once. Default: faults are ignored.
	Failed func(error)
}

// Defaults of a Consumer.
const (
	defaultReadAhead = 100
	defaultMemory    = 100_000
	defaultDrain     = 10 * time.Second
)

var errNoHandler = &Error{Code: CodeInvalidValue, Field: "Handle", Detail: "a consumer needs Handle"}

// withDefaults returns the consumer with its defaults.
func (k Consumer) withDefaults() Consumer {
	if k.Concurrency < 1 {
		k.Concurrency = 1
	}
	if k.ReadAhead < 1 {
		k.ReadAhead = defaultReadAhead
	}
	if k.Memory < 1 {
		k.Memory = defaultMemory
	}
	if k.Drain <= 0 {
		k.Drain = defaultDrain
	}
	if k.Failed == nil {
		k.Failed = func(error) {}
	}
	return k
}

// Consume receives the application's rings from the service's stream, until ctx ends. It calls Handle once for each
// message id, and answers the rings that need an answer. Subscribers of an application share its rings, so any number
// of programs may consume them.
//
// When the stream ends, Consume connects again after a random pause, and resumes: the node of the service sends the
// rings again that it wrote after the last one that this program has. Another node, and a node that was restarted,
// cannot do that; then Failed is told. The rings on their way are lost, except for alarms with AckTimeout, which ring
// again. The memory of message ids is this program's. A copy may reach another subscriber, so work that must not be
// done twice needs a memory in the database of the work.
//
// When ctx ends, Consume closes the stream, handles the rings that were read, and returns nil. If they are not handled
// within Drain, it returns an error with their number. It returns an *Error at once, after the rings that were read, if
// the service refuses the application, or if the URL leads to another program.
func (c *Client) Consume(ctx context.Context, application string, k Consumer) error {
	if k.Handle == nil {
		return errNoHandler
	}
	k = k.withDefaults()
	work, stop := outlasting(ctx, k.Drain)
	defer stop()
	h := &handling{client: c, consumer: k, memory: once.NewMemory[*Answer](k.Memory)}
	rings := make(chan *Ring, k.ReadAhead)
	var workers sync.WaitGroup
	for range k.Concurrency {
		workers.Add(1)
		go func() {
			defer workers.Done()
			h.run(work, rings)
		}()
	}
	s := &subscription{client: c, application: application, take: func(r *Ring) { rings <- r }, failed: k.Failed}
	refused := s.run(ctx)
	close(rings)
	workers.Wait()
	switch left := h.left.Load(); {
	case refused != nil:
		return refused
	case left > 0:
		return fmt.Errorf("%d rings of %s were read and not handled within %s", left, application, k.Drain)
	}
	return nil
}

// outlasting returns a context that ends some time after ctx.
func outlasting(ctx context.Context, more time.Duration) (longer context.Context, stop func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(more)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { forget(); cancel() }
}

// handling handles the rings of a consumer.
type handling struct {
	client   *Client
	consumer Consumer
	memory   *once.Memory[*Answer] // answers that were not accepted yet; nil: nothing is to be done for a copy
	left     atomic.Int64          // rings that came too late
}

// run handles rings until there are no more. After the end of ctx it only counts them.
func (h *handling) run(ctx context.Context, rings <-chan *Ring) {
	for r := range rings {
		if isDone(ctx) {
			h.left.Add(1)
			continue
		}
		h.handle(ctx, r)
	}
}

// handle calls the handler, unless the ring is a copy, and answers. A copy whose answer was not accepted repeats the
// answer.
func (h *handling) handle(ctx context.Context, r *Ring) {
	state, unsent := h.memory.Begin(r.MessageID)
	switch {
	case state == once.New:
		answer := h.consumer.Handle(ctx, r)
		unsent = &answer
		h.memory.End(r.MessageID, unsent)
	case unsent == nil:
		return
	}
	err := h.answer(ctx, r, *unsent)
	if err != nil {
		h.consumer.Failed(fmt.Errorf("answer to ring %s of %s/%s: %w", r.MessageID, r.Application, r.BusinessID, err))
	}
	var e *Error
	if !errors.As(err, &e) || !e.again {
		h.memory.End(r.MessageID, nil)
	}
}

// answer sends the answer, if there is one and the ring needs one.
func (h *handling) answer(ctx context.Context, r *Ring, a Answer) error {
	switch {
	case a.Kind == "":
		return nil
	case r.AckTimeout > 0:
		_, err := h.client.Answer(ctx, r.Application, r.MessageID, a)
		return err
	case a.Kind != Acked:
		return invalid("kind", fmt.Sprintf("%q has no effect, because the alarm has no ack_timeout", a.Kind))
	}
	return nil
}
