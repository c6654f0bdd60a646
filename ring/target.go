package ring

import (
	"context"
	"errors"
	"time"

	"github.com/clockd/clockd/clock"
)

// Target receives rings, such as a broker, a stream, endpoints of webhooks or workers that reserve rings.
type Target interface {
	// Usable returns nil when rings can be handed over now, else the reason. The loop claims nothing while it is not
	// nil.
	Usable() error
	// Accepts returns nil when rings of the receiver (clock.ReceiverOf) can be handed over now, else the reason. While
	// it is not nil, its alarms wait in the database: no claim, no counted try. People read the reason. A destination
	// that the settings no longer have is accepted: the outcomes of its rings end their alarms (clock.NoReceiver).
	Accepts(receiver string) error
	// Changed returns a channel of capacity 1. It is signalled when Usable may have become nil, or when Accepts may
	// have become nil for an application. Then waiting alarms can ring at once. The opposite changes need no signal:
	// the loop calls both methods before it hands out a batch, and rings that come too late for that are Unsent.
	Changed() <-chan struct{}
	// Lane returns a new lane for one worker. Lanes are independent of each other. The lane awaits the late replies of
	// at most maxLate deliveries at a time. A target that bounds them in another way may ignore maxLate.
	Lane(maxLate int) Lane
}

// RationedTarget is a Target that takes only as many rings of an application as its receivers have asked for. Of the
// application's due alarms the loop claims no more than that. The others wait in memory, unclaimed.
type RationedTarget interface {
	Target
	// Ration returns how many rings of the receiver can be handed over now. The loop subtracts the largest number of
	// rings that each batch under way may have. Changed is signalled when it rises.
	Ration(receiver string) int
}

// ErrLaneFull is the reason why a lane does not open while as many of its deliveries have late replies as it may await.
var ErrLaneFull = errors.New("too many deliveries wait for late replies")

// Lane hands rings over to the target. One goroutine at a time may use it.
type Lane interface {
	// Open makes the lane ready for deliveries of up to size rings. It connects if the lane needs a connection and has
	// none. It blocks until the lane is open, for at most the target's own dial timeout, or until ctx ends. The error
	// is the reason why the lane is not open. A lane that is full of late replies first waits for one of them, for at
	// most the same timeout. Then it returns ErrLaneFull, and is opened again at once.
	Open(ctx context.Context, size int) error
	// Broken returns a channel that is closed when the lane must be opened again. The channel of a lane that was never
	// opened is closed. Nil means that the lane never breaks.
	Broken() <-chan struct{}
	// Deliver hands over all rings and waits for their outcomes, at most until limits.ReplyBy plus some milliseconds.
	// It returns one outcome per ring, in order. No byte of a ring is written after limits.WriteBy. Until then an
	// Awaited ring may still be handed over after the return of Deliver, unless LateRings.End is called. No other ring
	// may. When ctx ends, it returns early with the outcomes that are known by then. Of the other rings, those without
	// a written byte are Unsent, the rest Doubtful. At limits.ReplyBy or earlier, the rest may be Awaited instead
	// (limits.Await). Deliver does not open the lane: rings of a lane that is not open are Unsent.
	Deliver(ctx context.Context, rings []clock.Ring, limits Limits) []clock.Outcome
	// Close frees the lane's resources. No method may be called after it.
	Close() error
}

// Limits are the time limits of one delivery, on the monotonic clock, and the callbacks for replies that come before or
// after the others. WriteBy is before ReplyBy.
type Limits struct {
	WriteBy time.Time // time after which no byte of a ring is written
	ReplyBy time.Time // time until which Deliver waits for replies; rings without one are then Awaited or Doubtful
	// OnConfirmed is called with the index of a confirmed ring, while Deliver still waits for other rings. The
	// confirmation must be certain, and the call comes soon after it, on the goroutine that called Deliver. A lane may
	// leave out calls. Nil: no calls.
	OnConfirmed func(ring int)
	// Shared is true for a batch of healthy applications. Then a lane that can tell a slow receiver of one application
	// from a slow target may end the delivery without that receiver, before WriteBy.
	Shared bool
	// Await takes over the rings whose replies are late, when the target may still reply to them. Deliver calls it at
	// most once, on the goroutine of its caller, at the reply limit or earlier. The outcomes of these rings are then
	// Awaited. The lane may have to be opened again (Broken). A lane that cannot wait for late replies never calls it.
	// Nil: no ring is awaited.
	Await func(late LateRings)
	// Suspended returns the time for which the machine has been suspended since the claim began. WriteBy is that much
	// earlier. Nil: suspensions do not count.
	Suspended func() time.Duration
}

// LateRings are the rings of one delivery whose replies are late. One goroutine at a time may use them. They hold
// resources of the lane until End is called.
type LateRings interface {
	// Outcomes returns the outcomes of all rings of the delivery, in order, as far as they are known now. The others
	// are Awaited. The first outcome of a ring that is not Awaited is final. A ring becomes Doubtful when the target
	// shows that its queue alone is at fault.
	Outcomes() []clock.Outcome
	// Stuck reports whether the target shows that it works, but replies to none of these rings. The caller then ends
	// the wait for the whole delivery.
	Stuck() bool
	// End ends the wait. Afterwards Outcomes has no Awaited ring: rings without a reply are Doubtful.
	End()
}

// TooLateToWrite reports whether WriteBy has passed, so that no byte of a ring may be written.
func (l Limits) TooLateToWrite() bool {
	left := time.Until(l.WriteBy)
	if l.Suspended != nil {
		left -= l.Suspended()
	}
	return left <= 0
}
