package inbox

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// inbox says what a consumer does with the messages of one queue. Answers and the intake of delayed messages are
// inboxes.
type inbox interface {
	role() string  // role of the connection, for its name and for logs
	queue() string // queue that the inbox consumes
	use() wire.Use // what lies between the library and the socket
	prefetch() int // most deliveries in flight
	// prepare makes sure over the consumer's connection that the queue can be consumed. copies says how deliveries are
	// published again; nil: no delivery is.
	prepare(l *wire.Link) (copies *copyRules, warnings []string, err error)
	// submit begins the work on a batch. It calls settle exactly once for each delivery, as soon as its outcome is
	// known and at the latest when ctx ends. Any goroutine may call settle, also before submit returns.
	submit(ctx context.Context, batch []*incoming, settle func(settlement))
}

// incoming is a delivery, and what its inbox keeps of it between two submits.
type incoming struct {
	amqp.Delivery
	received time.Time
	// What the intake keeps.
	id       string        // business id that it has given to a message without one; "": none
	ringAt   clock.Instant // time of the alarm; NoInstant: not known yet
	waits    int           // pauses because of a ring of the alarm
	replaces int64         // generation of the alarm that is over and that the message arms again; 0: none
}

// settlement is what to do with one delivery.
type settlement struct {
	delivery *incoming
	action   action
	pause    time.Duration // with actionPause and actionHold
	refusal  *refusedMessage
	endTurn  bool // the consumer takes no more deliveries, and ends when all others are settled
	paused   bool // the delivery is counted in pausedDeliveries
}

// action says how to settle a delivery with the broker.
type action uint8

const (
	actionAck        action = iota // the delivery is acked
	actionPause                    // the delivery waits, and is put back after a pause
	actionPutBack                  // the delivery is requeued, or copied if a requeue may drop it
	actionHold                     // the delivery waits, and is submitted to the inbox again after a pause
	actionResubmit                 // the delivery is submitted to the inbox again
	actionDeadLetter               // the delivery is published to the exchange for dead letters
	actionAckCopied                // the copy of the delivery is confirmed: the delivery is acked
	actionLeave                    // the delivery stays unacked, so that the broker delivers it again after the end of the connection
)
