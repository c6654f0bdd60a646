package httpcall

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// handover is one receiver's part of a delivery.
type handover struct {
	target   *Target
	limits   ring.Limits
	delivery *lateDelivery // the whole delivery; a handover writes only its own receiver's outcomes
	receiver *receiver
	began    time.Time
	reports  chan report   // room for one report a ring, so a report never blocks
	calls    map[int]*Call // requests without a report, by index in the delivery
}

// report is the outcome of one request.
type report struct {
	ring    int // index in the delivery
	outcome clock.Outcome
}

// handOver sends the rings with these indexes, each when it has a slot, until the write limit or the end of patience.
func (h *handover) handOver(ctx context.Context, rings []clock.Ring, indexes []int) {
	if len(indexes) == 0 {
		return
	}
	first := &rings[indexes[0]]
	s, none := h.senderOf(first)
	for n, i := range indexes {
		if n > 0 && (none != nil || first.Own != (clock.OwnReceiver{})) {
			s, none = h.senderOf(&rings[i])
		}
		if none != nil {
			h.set([]int{i}, *none)
			continue
		}
		sl, refused := h.takeSlot(ctx, s)
		if refused != nil {
			h.set(indexes[n:], *refused)
			return
		}
		h.send(sl, s, rings, i)
	}
}

// senderOf returns the sender of a ring, or the outcome of a ring without one. Rings of a receiver have one sender, or
// each alarm brings fields of its own.
func (h *handover) senderOf(r *clock.Ring) (Sender, *clock.Outcome) {
	if r.Own != (clock.OwnReceiver{}) {
		s, err := h.target.deps.OwnSender(r)
		if err != nil {
			return nil, new(clock.Withdrawn(r, err.Error()))
		}
		return s, nil
	}
	e, ok := h.target.deps.Endpoint(r.Receiver())
	if !ok {
		return nil, new(clock.NoReceiver(r, "endpoint"))
	}
	s, err := h.receiver.senderOf(e)
	if err != nil {
		return nil, &clock.Outcome{Kind: clock.Returned, Reason: Cut("the endpoint is not valid: " + err.Error())}
	}
	return s, nil
}

// takeSlot waits for a slot. refused is nil, or the outcome of this and all further rings.
func (h *handover) takeSlot(ctx context.Context, s Sender) (sl *slot, refused *clock.Outcome) {
	if o := h.refused(); o != nil {
		return nil, o
	}
	sl, w := h.target.slots.take(h.receiver, s)
	if w == nil {
		return sl, nil
	}
	o := h.awaitSlot(ctx, w)
	if o == nil {
		return w.slot, nil
	}
	sl, atLimit := h.target.slots.abandon(w)
	if sl != nil {
		h.target.slots.free(sl)
	}
	if atLimit && o.Kind == clock.Untaken {
		h.target.slots.setSlow(h.receiver) // else others have the slots, and nothing is known of this receiver
	}
	return nil, o
}

// refused returns the outcome of rings that may not be sent now, nil if they may.
func (h *handover) refused() *clock.Outcome {
	switch {
	case h.receiver.isPaused():
		return &clock.Outcome{Kind: clock.Unsent, Reason: "the receiver has asked to wait"}
	case h.limits.TooLateToWrite():
		return untaken()
	}
	return nil
}

func untaken() *clock.Outcome {
	return &clock.Outcome{Kind: clock.Untaken, Reason: "the receiver did not take the request in time"}
}

func (h *handover) awaitSlot(ctx context.Context, w *slotWait) *clock.Outcome {
	for {
		wait := time.Until(h.patientUntil(h.limits.WriteBy.Add(-writeMargin)))
		if wait <= 0 {
			return untaken()
		}
		timer := time.NewTimer(wait)
		select {
		case <-w.granted:
			timer.Stop()
			return h.refusedAfterWait()
		case r := <-h.reports:
			h.note(r)
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &clock.Outcome{Kind: clock.Unsent, Reason: "stopping"}
		}
		timer.Stop()
	}
}

// refusedAfterWait notes the replies that have come, because a reply may ask to wait.
func (h *handover) refusedAfterWait() *clock.Outcome {
	h.takeReports()
	return h.refused()
}

// patientUntil returns the end of the patience with the receiver, but no time after limit.
func (h *handover) patientUntil(limit time.Time) time.Time {
	until := h.began.Add(h.target.slots.patience)
	if h.limits.Shared {
		until = h.began.Add(h.target.slots.sharedPatience(h.receiver))
	} else {
		if replied := h.receiver.lastReply(); replied.After(h.began) {
			until = replied.Add(h.target.slots.patience)
		}
		if end := h.began.Add(h.target.maxPatience); until.After(end) {
			until = end
		}
	}
	if until.After(limit) {
		return limit
	}
	return until
}

// send sends a ring in the slot that the caller has taken.
func (h *handover) send(sl *slot, s Sender, rings []clock.Ring, i int) {
	t, r := h.target, h.receiver
	c, err := newCall(t, s, &rings[i], h.limits)
	if err != nil || !t.begin() {
		t.slots.free(sl)
		if err == nil {
			c.cancel(errEnded)
			h.set([]int{i}, clock.Outcome{Kind: clock.Unsent, Reason: errClosed.Error()})
			return
		}
		h.set([]int{i}, clock.Outcome{Kind: clock.Refused, Reason: Cut("the ring cannot be a request: " + err.Error())})
		return
	}
	h.set([]int{i}, clock.Outcome{Kind: clock.Awaited})
	h.calls[i] = c
	began := time.Now()
	r.use(1)
	t.slots.watch(sl, func() { c.cancel(errCrowded) })
	reports := h.reports // the goroutine keeps no ring of the delivery
	go func() {
		defer t.calls.Done()
		defer r.use(-1)
		defer t.slots.free(sl)
		c.run(func(o clock.Outcome) {
			now := time.Now()
			r.noteReply(now)
			t.slots.noteEnd(r, now.Sub(began), c.replied)
			t.pause(r, o.RetryAfter)
			reports <- report{ring: i, outcome: o}
		})
	}()
}

// await waits until all requests are reported, at most until the reply limit. If late replies may be awaited, it waits
// no longer than patience.
func (h *handover) await(ctx context.Context) {
	for len(h.calls) > 0 {
		h.takeReports()
		until := h.limits.ReplyBy
		if h.limits.Await != nil {
			until = h.patientUntil(until)
		}
		wait := time.Until(until)
		if len(h.calls) == 0 {
			return
		}
		if wait <= 0 {
			h.target.slots.setSlow(h.receiver)
			return
		}
		timer := time.NewTimer(wait)
		select {
		case r := <-h.reports:
			h.note(r)
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// takeReports notes the reports that have come.
func (h *handover) takeReports() {
	for len(h.calls) > 0 {
		select {
		case r := <-h.reports:
			h.note(r)
		default:
			return
		}
	}
}

func (h *handover) note(r report) {
	delete(h.calls, r.ring)
	h.set([]int{r.ring}, r.outcome)
}

// end ends the requests without a report.
func (h *handover) end() {
	for _, c := range h.calls {
		c.cancel(errEnded)
	}
	h.calls = nil
}

func (h *handover) set(indexes []int, o clock.Outcome) {
	for _, i := range indexes {
		h.delivery.outcomes[i] = o
	}
}
