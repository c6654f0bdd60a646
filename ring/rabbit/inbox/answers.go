package inbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Time bounds of consuming answers and delayed messages.
const (
	answerPause          = time.Second     // pause before a delivery is put back or submitted again when the error has no RetryAfter
	longestPause         = 3 * time.Second // longest pause before that
	inboxDrain           = 4 * time.Second // longest wait at the end of Run for deliveries in flight
	malformedLogInterval = time.Minute     // between two log lines about malformed messages
)

// Answerer applies answers.
type Answerer interface {
	// Answer submits the answers in order. It calls done once for each answer, with its index, as soon as its outcome
	// is known and at the latest when ctx ends. The outcome of one answer does not wait for the outcome of another. Any
	// goroutine may call done, also before Answer returns. A nil error means that the answer was applied. After
	// ErrUnavailable and ErrUnconfirmed, repeating may help. ErrNotFound, ErrConflict and the other kinds of package
	// clock are final.
	Answer(ctx context.Context, answers []clock.Answer, done func(i int, err error))
}

// Answers consumes the answers of applications from the queue that reply_to of a ring names. Every node consumes, and
// each message goes to one node.
type Answers struct {
	s               shared
	queueName       string
	most            int // most answers in flight
	answerer        Answerer
	longestPause    time.Duration // longest pause before an answer is put back
	malformedLogged time.Time     // time of the last log line about a malformed message; owned by the submitting goroutine
}

// NewAnswers returns a consumer of the answers in the queue, which has at most that many in flight. It works while its
// Run runs.
func NewAnswers(deps Deps, queue string, prefetch int, answerer Answerer) *Answers {
	return &Answers{
		s: newShared(deps), queueName: queue, most: prefetch, answerer: answerer, longestPause: longestPause,
	}
}

// Run connects and reconnects until ctx ends. Then it takes no more answers, settles the taken ones, closes the
// connection and returns nil. It acks an answer after the Answerer has applied it or refused it finally. All other
// answers go back to the queue.
func (a *Answers) Run(ctx context.Context) error {
	a.s.Broker.KeepConnected(ctx, roleAnswers, func(ctx context.Context) (bool, error) {
		c, err := a.s.consume(ctx, a)
		if ctx.Err() == nil {
			a.s.Warn(roleAnswers, []string{"answers to rings are not taken: " + err.Error()})
		}
		return c.established, err
	})
	a.s.Warn(roleAnswers, nil)
	return nil
}

func (a *Answers) role() string { return roleAnswers }

func (a *Answers) prefetch() int { return a.most }

func (a *Answers) use() wire.Use { return wire.Bounded(0) } // nothing reads the body of an answer

func (a *Answers) queue() string { return a.queueName }

// prepare declares the queue. Answers are copied unless a requeue never drops them.
func (a *Answers) prepare(l *wire.Link) (*copyRules, []string, error) {
	unlimited, warnings, err := declareAnswers(l, a.queue())
	if err != nil || unlimited {
		return nil, warnings, err
	}
	return a.copyRules(), warnings, nil
}

// copyRules says how a paused answer goes back to its queue.
func (a *Answers) copyRules() *copyRules {
	return &copyRules{
		role: roleCopies,
		message: func(s *settlement) (exchange, routingKey string, message amqp.Publishing) {
			return "", a.queue(), copyOf(&s.delivery.Delivery)
		},
		settle: func(s settlement, confirmed bool) settlement {
			result := resultCopyFailed
			s.action = actionResubmit
			if confirmed {
				result, s.action = resultCopyConfirmed, actionAckCopied
			}
			a.s.Metrics.answerCopies.WithLabelValues(result).Inc()
			return s
		},
		failure: "paused answers wait on this node, not in their queue",
	}
}

// submit passes the answers of a batch to the Answerer.
func (a *Answers) submit(ctx context.Context, batch []*incoming, settle func(settlement)) {
	answers, deliveries := make([]clock.Answer, 0, len(batch)), make([]*incoming, 0, len(batch))
	for _, d := range batch {
		answer, err := parseAnswer(&d.Delivery)
		if err != nil {
			a.reject(err)
			settle(settlement{delivery: d, action: actionAck})
			continue
		}
		answers, deliveries = append(answers, answer), append(deliveries, d)
	}
	if len(answers) == 0 {
		return
	}
	a.answerer.Answer(ctx, answers, func(i int, err error) {
		s := a.judge(&answers[i], err)
		s.delivery = deliveries[i]
		settle(s)
	})
}

// reject counts and logs a message that is no answer.
func (a *Answers) reject(err error) {
	a.s.Metrics.answers.WithLabelValues(kindUnknown, resultMalformed).Inc()
	if now := time.Now(); now.Sub(a.malformedLogged) >= malformedLogInterval {
		a.malformedLogged = now
		a.s.Log.Warn("message to the queue of answers is no answer", "broker", a.s.Broker.AddressFor(roleAnswers), "err",
			err)
	}
}

// judge counts the result of an answer and returns the settlement of its delivery, without the delivery.
func (a *Answers) judge(answer *clock.Answer, err error) settlement {
	result, settled := resultOf(err)
	a.s.Metrics.answers.WithLabelValues(answer.Kind.String(), result).Inc()
	if err != nil {
		a.s.Log.LogAttrs(context.Background(), slog.LevelDebug, "answer was not accepted",
			slog.String("message_id", answer.Ring.String()),
			slog.String("kind", answer.Kind.String()), slog.String("result", result), slog.Any("err", err))
	}
	if settled {
		return settlement{action: actionAck}
	}
	return settlement{action: actionPause, pause: min(retryAfter(err), a.longestPause)}
}

// resultOf returns the result of an answer, and whether it is final. An error of an unknown kind is not final: the
// answer is put back.
func resultOf(err error) (result string, settled bool) {
	switch {
	case err == nil:
		return resultAccepted, true
	case errors.Is(err, clock.ErrUnavailable), errors.Is(err, clock.ErrUnconfirmed):
		return resultRequeued, false
	case errors.Is(err, clock.ErrNotFound):
		return resultNotFound, true
	case errors.Is(err, clock.ErrConflict), errors.Is(err, clock.ErrPrecondition):
		return resultConflict, true
	case errors.Is(err, clock.ErrInvalid), errors.Is(err, clock.ErrTooLarge):
		return resultInvalid, true
	default:
		return resultRequeued, false
	}
}

// retryAfter returns the pause before an answer is put back.
func retryAfter(err error) time.Duration {
	if e := (*clock.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return answerPause
}
