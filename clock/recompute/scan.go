package recompute

import (
	"context"
	"errors"

	"github.com/clockd/clockd/clock"
)

// scan recomputes the alarms of a page.
func (r *Recomputer) scan(ctx context.Context, p *page) error {
	ids, err := r.deps.Store.ZonedAlarms(ctx, p.zone, p.from, r.cfg.PageSize)
	if err != nil {
		return err
	}
	p.last = len(ids) < r.cfg.PageSize
	if len(ids) == 0 {
		return nil
	}
	p.to = ids[len(ids)-1]
	keys, err := r.deps.Store.Keys(ctx, ids)
	if err != nil {
		return err
	}
	p.failed, err = r.recompute(ctx, p.zone, keys)
	return err
}

// recompute submits all alarms together, and waits for all of them. failed reports whether an alarm could not be
// recomputed yet. Its error is a fault of the database.
func (r *Recomputer) recompute(ctx context.Context, zone string, keys map[int64]clock.Key) (failed bool, fault error) {
	ctx, cancel := context.WithTimeout(ctx, clock.RequestTimeout)
	defer cancel()
	pending := make([]*clock.Pending, 0, len(keys))
	for _, key := range keys {
		pending = append(pending,
			r.deps.Alarms.Submit(ctx, clock.Op{Recompute: &clock.Recompute{Key: key}, WithoutPayload: true}))
	}
	for _, p := range pending {
		d, err := p.Wait(ctx)
		switch {
		case err == nil && d.Verdict == clock.Amend:
			r.moved.Inc()
			r.deps.Log.Info("alarm moved, because the rules of its time zone have changed",
				"application", d.Alarm.Application, "business_id", d.Alarm.BusinessID, "alarm_id", d.Alarm.ID,
				"generation", d.Alarm.Generation,
				"time_zone", zone, "ring_at_before", d.RingAtBefore.String(), "ring_at", d.Alarm.NextRingAt().String())
		case err == nil, errors.Is(err, clock.ErrNotFound):
		case errors.Is(err, clock.ErrConflict):
			failed = true
		default:
			fault = err
		}
	}
	return failed, fault
}
