package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// before is what the rows of one UPDATE have in common: what guards it.
type before struct {
	state      clock.State
	generation int64 // of cancels; a set always makes the next one
}

// Update rewrites the rows: cancels with one statement for each state and generation that they meet (CancelAlarms), sets with one for
// each state (RewriteAlarms).
func (w *writeTx) Update(ctx context.Context, changes []store.Change) (int, error) {
	cancels, rewrites := make(map[before][]store.Change), make(map[before][]store.Change)
	for _, c := range changes {
		if c.New.State == clock.Cancelled && c.New.Generation == c.Old.Generation {
			b := before{state: c.Old.State, generation: c.Old.Generation}
			cancels[b] = append(cancels[b], c)
			continue
		}
		b := before{state: c.Old.State}
		rewrites[b] = append(rewrites[b], c)
	}
	changed := 0
	for b, group := range cancels {
		n, err := w.cancel(ctx, b, group)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	for b, group := range rewrites {
		n, err := w.rewrite(ctx, b, group)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

func (w *writeTx) cancel(ctx context.Context, b before, group []store.Change) (int, error) {
	n, err := w.q.CancelAlarms(ctx, w.tx, dbsqlc.CancelAlarmsParams{
		Now: int64(group[0].New.UpdateTime), Generation: b.generation, OldState: int64(b.state),
		Ids: idsOf(group, func(c *store.Change) int64 { return c.Old.ID }),
	})
	return int(n), err
}

func (w *writeTx) rewrite(ctx context.Context, b before, group []store.Change) (int, error) {
	changed := 0
	size := func(i int) int { return sizeOf(group[i].New) }
	err := chunks(len(group), w.server.maxStatement(), size, func(from, to int) error {
		args := make([]any, 0, (to-from)*22+1)
		for _, c := range group[from:to] {
			args = appendRewritten(args, c.New)
		}
		args = append(args, int64(b.state))
		n, err := w.q.RewriteAlarms(ctx, bulk{DBTX: w.tx, part: rewriteRow, rows: to - from, args: args}, dbsqlc.RewriteAlarmsParams{})
		changed += int(n)
		return err
	})
	return changed, err
}

// appendRewritten adds the arguments of RewriteAlarms; there -1, which NoInstant is, stands for NULL.
func appendRewritten(args []any, a *clock.Alarm) []any {
	return append(args, a.ID, a.Generation, int64(a.State), bytesOf(a.Payload), int64(a.PayloadKind), a.ContentType, int64(a.RingAt),
		int64(a.LatestRingAt), int64(a.NextTryTime), int64(a.RingNo), int64(a.RetryTimes), a.LastError, bit(a.InDoubt),
		a.Retry.Encode(), a.AckTimeout.Milliseconds(), int64(a.MaxRings), int64(a.Priority), a.Traceparent, a.ClaimID,
		int64(a.RungAt), int64(a.UpdateTime), int64(a.FinishedAt))
}
