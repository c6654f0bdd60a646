package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// before is what the rows of one UPDATE have in common: what guards it, and which it is.
type before struct {
	kind       clock.Verdict // Replace, Stop or Amend
	state      clock.State
	generation int64 // Stop; each row of the others is guarded by its own
	ringNo     int   // Amend
}

// Update rewrites the rows: cancels with one statement for each state and generation that they meet (CancelAlarms), sets with one for
// each state (RewriteAlarms), answers, kicks and discards with one for each state and ring_no (AmendAlarms).
func (w *writeTx) Update(ctx context.Context, changes []store.Change) (int, error) {
	groups := make(map[before][]store.Change)
	for _, c := range changes {
		b := beforeOf(&c)
		groups[b] = append(groups[b], c)
	}
	changed := 0
	for b, group := range groups {
		n, err := w.update(ctx, b, group)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	if attempts := store.AttemptsOf(changes); len(attempts) > 0 {
		return changed, w.s.addAttempts(ctx, w.tx, attempts)
	}
	return changed, nil
}

func beforeOf(c *store.Change) before {
	switch {
	case c.New.Generation != c.Old.Generation:
		return before{kind: clock.Replace, state: c.Old.State}
	case c.Stops():
		return before{kind: clock.Stop, state: c.Old.State, generation: c.Old.Generation}
	default:
		return before{kind: clock.Amend, state: c.Old.State, ringNo: c.Old.RingNo}
	}
}

func (w *writeTx) update(ctx context.Context, b before, group []store.Change) (int, error) {
	switch b.kind {
	case clock.Stop:
		return w.cancel(ctx, b, group)
	case clock.Amend:
		return w.amend(ctx, b, group)
	default:
		return w.rewrite(ctx, b, group)
	}
}

func (w *writeTx) cancel(ctx context.Context, b before, group []store.Change) (int, error) {
	n, err := w.s.q.CancelAlarms(ctx, w.tx, dbsqlc.CancelAlarmsParams{
		Now: int64(group[0].New.UpdateTime), Generation: b.generation, OldState: int64(b.state),
		Ids: idsOf(group, func(c *store.Change) int64 { return c.Old.ID }),
	})
	return int(n), err
}

func (w *writeTx) rewrite(ctx context.Context, b before, group []store.Change) (int, error) {
	changed := 0
	size := func(i int) int { return sizeOf(group[i].New) }
	err := chunks(len(group), w.server.maxStatement(), size, func(from, to int) error {
		args := make([]any, 0, (to-from)*24+1)
		for _, c := range group[from:to] {
			args = appendRewritten(args, c.New)
		}
		args = append(args, int64(b.state))
		n, err := w.s.q.RewriteAlarms(ctx, bulk{DBTX: w.tx, part: rewriteRow, rows: to - from, args: args}, dbsqlc.RewriteAlarmsParams{})
		changed += int(n)
		return err
	})
	return changed, err
}

func (w *writeTx) amend(ctx context.Context, b before, group []store.Change) (int, error) {
	changed := 0
	err := w.s.inChunks(len(group), func(from, to int) error {
		args := make([]any, 0, (to-from)*15+2)
		for _, c := range group[from:to] {
			args = appendAmended(args, c.New)
		}
		args = append(args, int64(b.state), int64(b.ringNo))
		n, err := w.s.q.AmendAlarms(ctx, bulk{DBTX: w.tx, part: amendRow, rows: to - from, args: args}, dbsqlc.AmendAlarmsParams{})
		changed += int(n)
		return err
	})
	return changed, err
}

// appendAmended adds the arguments of AmendAlarms; there -1, which NoInstant is, stands for NULL.
func appendAmended(args []any, a *clock.Alarm) []any {
	return append(args, a.ID, a.Generation, int64(a.State), int64(a.LatestRingAt), int64(a.NextTryTime), int64(a.RingNo), int64(a.RetryTimes),
		a.LastError, bit(a.InDoubt), int64(a.RungAt), int64(a.Answer), a.AnsweredBy, int64(a.AnsweredAt), int64(a.UpdateTime), int64(a.FinishedAt))
}

// appendRewritten adds the arguments of RewriteAlarms; there -1, which NoInstant is, stands for NULL.
func appendRewritten(args []any, a *clock.Alarm) []any {
	return append(args, a.ID, a.Generation, int64(a.State), bytesOf(a.Payload), int64(a.PayloadKind), a.ContentType, int64(a.RingAt),
		int64(a.LatestRingAt), int64(a.NextTryTime), int64(a.RingNo), int64(a.RetryTimes), a.LastError, bit(a.InDoubt),
		a.Retry.Encode(), a.AckTimeout.Milliseconds(), int64(a.MaxRings), int64(a.Priority), a.Traceparent, a.ClaimID,
		int64(a.RungAt), int64(a.UpdateTime), int64(a.FinishedAt), int64(a.Delivery), int64(store.Rank(a.Priority)))
}
