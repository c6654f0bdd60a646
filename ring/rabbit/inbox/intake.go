package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Setter sets alarms.
type Setter interface {
	// In returns an instant by which d has passed for certain. After an error, repeating may help.
	In(d time.Duration) (clock.Instant, error)
	// Set submits the sets in order. It calls done once for each set, with its index, as soon as its outcome is known
	// and at the latest when ctx ends. Any goroutine may call done, also before Set returns. After ErrUnavailable and
	// ErrUnconfirmed, repeating may help. The other kinds of package clock are final. The error of a refused condition
	// has the alarm with its payload.
	Set(ctx context.Context, sets []*clock.Set, done func(i int, err error))
}

// Intake takes delayed messages from a queue of the user's, and sets an alarm for each. Every node consumes, and each
// message goes to one node.
type Intake struct {
	s         shared
	cfg       IntakeConfig
	setter    Setter
	longest   time.Duration // longest pause before a held message is submitted again
	wholeTurn int           // messages that are taken whole, one at a time, before the intake takes many again
}

// wholeTurn is the default of Intake.wholeTurn.
const wholeTurn = 20

// NewIntake returns the intake, nil if the configuration names no queue. It works while its Run runs.
func NewIntake(deps Deps, cfg IntakeConfig, setter Setter) *Intake {
	if cfg.Queue == "" {
		return nil
	}
	return &Intake{s: newShared(deps), cfg: cfg, setter: setter, longest: longestPause, wholeTurn: wholeTurn}
}

// Run connects and reconnects until ctx ends. Then it takes no more messages, settles the taken ones, closes the
// connection and returns nil. It acks a message after the commit of its alarm, or after the confirm of its dead letter.
func (in *Intake) Run(ctx context.Context) error {
	in.s.Broker.KeepConnected(ctx, roleIntake, func(ctx context.Context) (bool, error) {
		whole := false
		for {
			c, err := in.s.consume(ctx, &intakeTurn{Intake: in, whole: whole})
			if !c.turnEnded || ctx.Err() != nil {
				if ctx.Err() == nil {
					in.s.Warn(roleIntake, []string{"delayed messages are not taken: " + err.Error()})
				}
				return c.established, err
			}
			whole = !whole
		}
	})
	in.s.Warn(roleIntake, nil)
	in.s.Warn(roleIntakeWhole, nil)
	in.s.Warn(roleDeadLetters, nil)
	return nil
}

// intakeTurn is the inbox of one connection of the intake. Usually it takes many messages at once, and the connection
// bounds the memory of each: one that is larger than any payload loses its content (boundedConn). Such a message ends
// the turn, unacked, so that the broker delivers it again. In the next turn, whole, the connection passes on messages
// of any size, and the broker sends one at a time.
type intakeTurn struct {
	*Intake
	whole bool
	taken int // messages that were submitted; owned by the submitting goroutine

	maxProperties int // most bytes of properties of a message and of a dead letter, so that our headers fit too; 0: no limit
}

func (t *intakeTurn) role() string {
	if t.whole {
		return roleIntakeWhole
	}
	return roleIntake
}

func (t *intakeTurn) queue() string { return t.cfg.Queue }

func (t *intakeTurn) use() wire.Use {
	if t.whole {
		return wire.Whole
	}
	return wire.Marking(t.cfg.MaxBody)
}

func (t *intakeTurn) prefetch() int {
	if t.whole {
		return 1
	}
	return t.cfg.prefetch()
}

// prepare finds the queue and the exchange for dead letters. The exchange that gets the messages is looked for when a
// message is due.
func (t *intakeTurn) prepare(l *wire.Link) (*copyRules, []string, error) {
	cfg := &t.cfg
	if most := l.MaxProperties(); most > 0 {
		t.maxProperties = most - roomForOurHeaders
	}
	err := l.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(cfg.Queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("queue %q of the intake: %w", cfg.Queue, wire.Describe(err))
	}
	passive := func(exchange string) error {
		return l.OnChannel(func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
		})
	}
	if err := passive(cfg.DeadLetters); err != nil {
		return nil, nil, fmt.Errorf("exchange %q for dead letters: %w", cfg.DeadLetters, wire.Describe(err))
	}
	var warnings []string
	if err := passive(cfg.Exchange); err != nil {
		warnings = []string{fmt.Sprintf("exchange %q, which gets delayed messages at their time: %s", cfg.Exchange,
			wire.Describe(err))}
	}
	return t.deadLetterRules(), warnings, nil
}

// roomForOurHeaders is the largest size of all headers that clockd adds to a message or to a dead letter.
const roomForOurHeaders = 512 + maxRefusalDetail

// submit sets an alarm for each message of the batch.
func (t *intakeTurn) submit(ctx context.Context, batch []*incoming, settle func(settlement)) {
	t.taken += len(batch)
	sets, deliveries := make([]*clock.Set, 0, len(batch)), make([]*incoming, 0, len(batch))
	for _, d := range batch {
		set, s := t.read(d)
		if set == nil {
			settle(s)
			continue
		}
		sets, deliveries = append(sets, set), append(deliveries, d)
	}
	if len(sets) == 0 {
		return
	}
	endTurn := t.whole && t.taken >= t.wholeTurn
	t.setter.Set(ctx, sets, func(i int, err error) {
		s := t.judge(deliveries[i], sets[i], err)
		s.delivery, s.endTurn = deliveries[i], endTurn
		settle(s)
	})
}

// read returns the set of a message, or how to settle a message without one.
func (t *intakeTurn) read(d *incoming) (*clock.Set, settlement) {
	if fromStream(d) {
		t.s.Warn(t.role(), []string{fmt.Sprintf("queue %q of the intake has messages of a stream: they go to the dead letters", t.queue())})
		return nil, t.refuse(d, refuseMessage(clock.CodeInvalidValue, messageOfAStream))
	}
	if _, oversized := d.Headers[wire.HeaderOversized]; oversized && !t.whole {
		t.count(resultOversized)
		return nil, settlement{delivery: d, action: actionLeave, endTurn: true}
	}
	if _, unreadable := d.Headers[wire.HeaderUnreadable]; unreadable {
		return nil, t.refuse(d, refuseMessage(clock.CodeInvalidValue, wire.ErrUnreadable.Error()))
	}
	set, err := t.cfg.setOf(d, t.setter.In, t.maxProperties)
	if refused, is := errors.AsType[*refusedMessage](err); is {
		return nil, t.refuse(d, refused)
	}
	if err != nil {
		return nil, t.hold(d, err)
	}
	return set, settlement{}
}

// hold returns the settlement of a message that cannot be an alarm now.
func (t *intakeTurn) hold(d *incoming, err error) settlement {
	t.count(resultHeld)
	return settlement{delivery: d, action: actionHold, pause: min(retryAfter(err), t.longest)}
}

func (t *intakeTurn) count(result string) { t.s.Metrics.intake.WithLabelValues(result).Inc() }

// refuse returns the settlement of a message that cannot be an alarm.
func (t *intakeTurn) refuse(d *incoming, refused *refusedMessage) settlement {
	t.count(resultRefused)
	t.s.Log.LogAttrs(context.Background(), slog.LevelDebug, "message cannot be an alarm",
		slog.String("queue", t.queue()),
		slog.String("code", refused.code), slog.String("detail", refused.detail))
	return settlement{delivery: d, action: actionDeadLetter, refusal: refused}
}

// judge returns the settlement of a message whose set has the outcome err. Only a message whose set cannot be stored
// now is held: any other error would come again.
func (t *intakeTurn) judge(d *incoming, set *clock.Set, err error) settlement {
	var e *clock.Error
	errors.As(err, &e)
	switch {
	case err == nil:
		t.count(resultSet)
		return settlement{action: actionAck}
	case errors.Is(err, clock.ErrPrecondition) && e != nil:
		return t.judgeExisting(d, set, e.Alarm)
	case e != nil && (errors.Is(err, clock.ErrInvalid) || errors.Is(err, clock.ErrTooLarge) ||
		errors.Is(err, clock.ErrLimited)): // a message that waited for room would keep others from being taken
		return t.refuse(nil, refuseMessage(e.Code, e.Error()))
	default:
		return t.hold(nil, err)
	}
}

// awaitRing returns the settlement of a message whose alarm has a ring under way, or a ring in doubt. The message
// waits, because a consumer that has the ring may have published it. The pauses grow, because a ring may be in doubt
// for long.
func (t *intakeTurn) awaitRing(d *incoming) settlement {
	t.count(resultHeld)
	pauses := clock.Backoff{First: firstPause, Last: t.longest}
	d.waits++
	return settlement{action: actionHold, pause: pauses.Wait(d.waits - 1)}
}

// firstPause is the longest first pause of a message that waits for a ring.
const firstPause = 20 * time.Millisecond

// judgeExisting returns the settlement of a message whose business id has an alarm already. old is nil if it had one,
// and the alarm is deleted.
//
// A message with the content and the time of the alarm is the alarm's own, or was published twice. Any other message
// arms an alarm again if it is over: a consumer has published the message again. The broker's mark of a redelivery does
// not matter. A node that has to stop gives back messages that it has not looked at, and the broker marks them too.
func (t *intakeTurn) judgeExisting(d *incoming, set *clock.Set, old *clock.Alarm) settlement {
	same := old != nil && old.PayloadKind == set.PayloadKind && bytes.Equal(old.Payload, set.Payload)
	switch {
	case old == nil:
		d.replaces = 0
		return settlement{action: actionResubmit}
	case old.Claimed(), old.InDoubt && !old.State.Over():
		return t.awaitRing(d)
	case same && (!old.State.Over() || old.RingAt == set.RingAt):
		t.count(resultDuplicate)
		return settlement{action: actionAck}
	case old.State.Over():
		d.replaces = old.Generation
		return settlement{action: actionResubmit}
	default:
		return t.refuse(nil,
			refuseMessage(codeIDTaken,
				fmt.Sprintf("application %q has another alarm %q", set.Application, set.BusinessID)))
	}
}

// messageOfAStream is the reason why a message with the header of streams is refused. It may also be a message that was
// taken from a stream and published again with its headers.
const messageOfAStream = "the message has the header x-stream-offset: a stream gives each message to every node, and each would set an alarm"

// codeIDTaken is the code of a message whose business id belongs to an alarm with another content.
const codeIDTaken = "id_taken"
