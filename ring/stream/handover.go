package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

const (
	// maxDelivery bounds the rings that one subscriber gets at once, so that several subscribers share a large batch.
	maxDelivery = 64
	// patience is the time for which a shared batch waits for an application's subscribers. After it the outlet is
	// slow, and shared batches do not wait for it at all, until a report comes within patience again.
	patience = 100 * time.Millisecond
	// maxPatience is the longest time for which a round of the quarantine waits for them. It ends earlier after
	// patience without a report.
	maxPatience = 250 * time.Millisecond
	// maxDeliveryBytes bounds the payloads that one subscriber gets at once; a larger payload goes alone. They are kept
	// in memory until the subscriber has reported.
	maxDeliveryBytes = 256 << 10
	// memoryPause is the time between two looks for memory (ring.Handed), while subscribers that do not read hold it.
	memoryPause = 5 * time.Millisecond
)

// handover is one application's part of a delivery.
type handover struct {
	limits      ring.Limits
	application string
	handed      *ring.Handed
	rings       []clock.Ring
	delivery    *lateDelivery // the whole delivery; a handover writes only its own application's outcomes
	outlet      *outlet       // nil: the application has no subscriber
	began       time.Time
	reports     chan report
	unreported  int // deliveries that a subscriber has taken and not yet reported
}

// report is a subscriber's result of the rings that it has taken at once.
type report struct {
	rings          []int // indexes of these rings in handover.rings
	written, begun int   // as in clock.Delivery.Done
	err            error // as in clock.Delivery.Done
}

// handOver hands the rings to subscribers, part by part, until the write limit or the end of the outlet's patience.
func (h *handover) handOver(ctx context.Context, ringIndexes []int) {
	if h.outlet == nil {
		h.set(ringIndexes, clock.Unsent, "the application has no subscriber")
		return
	}
	for len(ringIndexes) > 0 {
		next := ringIndexes[:h.nextPart(ringIndexes)]
		if kind, reason := h.handTo(ctx, next); kind != clock.Awaited {
			h.set(ringIndexes, kind, reason)
			return
		}
		h.unreported++
		h.set(next, clock.Awaited, "")
		ringIndexes = ringIndexes[len(next):]
	}
}

// nextPart returns how many of the rings a subscriber gets at once.
func (h *handover) nextPart(ringIndexes []int) int {
	bytes := 0
	for n, i := range ringIndexes {
		if bytes += len(h.rings[i].Payload); n > 0 && bytes > maxDeliveryBytes || n == maxDelivery {
			return n
		}
	}
	return len(ringIndexes)
}

// handTo waits until there is memory for the rings and a subscriber takes them. The result is then Awaited, else the
// outcome of these and all further rings.
func (h *handover) handTo(ctx context.Context, ringIndexes []int) (kind clock.OutcomeKind, reason string) {
	const untaken = "no subscriber took the ring in time"
	bytes := ring.HandedSize(h.rings, ringIndexes)
	d := h.forSubscriber(ringIndexes, bytes)
	var deliveries chan<- clock.Delivery // nil without memory: then no subscriber takes the rings
	defer func() {
		if deliveries != nil && kind != clock.Awaited {
			h.handed.Give(h.application, bytes)
		}
	}()
	for {
		if h.limits.TooLateToWrite() { // a select may prefer a subscriber to the timer
			return clock.Untaken, untaken
		}
		if deliveries == nil && h.handed.Take(h.application, bytes) {
			deliveries = h.outlet.deliveries
		}
		select {
		case deliveries <- d: // a free subscriber takes the rings, even if the outlet is slow
			return clock.Awaited, ""
		default:
		}
		wait := time.Until(h.patientUntil(h.limits.WriteBy))
		if wait <= 0 {
			h.outlet.noteSlow()
			return clock.Untaken, untaken
		}
		if deliveries == nil {
			wait = min(wait, memoryPause)
		}
		select {
		case deliveries <- d:
			return clock.Awaited, ""
		case r := <-h.reports:
			h.noteReport(r)
		case <-h.outlet.closed:
			return clock.Unsent, "the last subscriber left"
		case <-time.After(wait):
		case <-ctx.Done():
			return clock.Unsent, "stopping"
		}
	}
}

// patientUntil returns the end of the outlet's patience, but no time after limit.
func (h *handover) patientUntil(limit time.Time) time.Time {
	if until := h.outlet.patientUntil(h.began, h.limits.Shared); until.Before(limit) {
		return until
	}
	return limit
}

// forSubscriber returns what a subscriber gets for the rings, whose memory its report gives back.
func (h *handover) forSubscriber(ringIndexes []int, bytes int) clock.Delivery {
	rings := make([]clock.Ring, len(ringIndexes))
	for i, ringIndex := range ringIndexes {
		rings[i] = h.rings[ringIndex]
	}
	ready, outlet := time.Now(), h.outlet
	return clock.Delivery{Rings: rings, TooLateToWrite: h.limits.TooLateToWrite, Context: h.delivery.ctx, Done: func(written, begun int, err error) {
		h.handed.Give(h.application, bytes)
		outlet.noteReport(ready)
		h.reports <- report{rings: ringIndexes, written: written, begun: begun, err: err}
	}}
}

// await waits until all taken deliveries are reported, at most until the reply limit. If late rings may be awaited, it
// waits no longer than the outlet's patience.
func (h *handover) await(ctx context.Context) {
	for h.unreported > 0 {
		until := h.limits.ReplyBy
		if h.limits.Await != nil {
			until = h.patientUntil(until)
		}
		wait := time.Until(until)
		if wait <= 0 {
			h.outlet.noteSlow()
			return
		}
		select {
		case r := <-h.reports:
			h.noteReport(r)
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (h *handover) noteReport(r report) {
	h.unreported--
	h.set(r.rings[:r.written], clock.Confirmed, "")
	h.set(r.rings[r.written:r.begun], clock.Doubtful, fmt.Sprintf("the ring was not written in whole: %v", r.err))
	h.set(r.rings[r.begun:], clock.Unsent, fmt.Sprintf("no byte of the ring was written: %v", r.err))
}

func (h *handover) set(ringIndexes []int, kind clock.OutcomeKind, reason string) {
	for _, i := range ringIndexes {
		h.delivery.outcomes[i] = clock.Outcome{Kind: kind, Reason: reason}
	}
}
