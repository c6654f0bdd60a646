package engine

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// SettleTx is a transaction that settles one claim: the open transaction of a held claim, or another one. Its methods
// change only rows that are still as Settlement.Claimed says, and pass over rows that the claim has lost. They may send
// their statements with the COMMIT. An old build may settle too.
type SettleTx interface {
	Tx
	// Confirm writes clock.ConfirmedRow to the rows of the rings of a two-phase claim
	// (store.ClaimRequest.ConfirmsAtOnce).
	Confirm(ctx context.Context, rings []clock.Ring) error
	// Settle writes the rows, and adds the attempts of the rows that are still as Settlement.Claimed says. All rows
	// have the same state and update_time in Settlement.Claimed, because the claim or its last settlement wrote them
	// all at one time. It keeps the newest clock.MaxAttempts of each alarm. Each alarm with attempts is in settled.
	// Settle need not write a row that stays unchanged (Settlement.Unchanged).
	Settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error
}

var _ store.Settler = (*claim)(nil)

// Settle writes the rows whose fate differs from the row that the claim wrote, and the attempts. A confirmed ring of a
// held claim needs only the COMMIT, and an attempt if the ring before it was not acknowledged.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	if len(fates) != len(c.rings) {
		panic(fmt.Sprintf("engine: %d fates of %d rings", len(fates), len(c.rings)))
	}
	attempts := store.FateAttempts(c.rings, fates, now)
	if c.claimed == nil && c.ConfirmsAtOnce(c.rings, fates, attempts) {
		return c.inSettleTx(ctx, "settle",
			func(ctx context.Context, t SettleTx) error { return t.Confirm(ctx, c.rings) })
	}
	claimed := c.claimed
	if claimed == nil {
		claimed = c.RowsAfterClaim(c.rings)
	}
	err := c.writeSettlements(ctx, "settle", store.Settlements(c.rings, claimed, fates, store.Attempted(attempts)),
		attempts)
	if err == nil {
		c.keepAwaited(fates)
	}
	return err
}

// keepAwaited keeps the rings whose fate is Awaited for the next settlement. The transaction of a held claim is over.
// Without such a ring the claim stays as it is.
func (c *claim) keepAwaited(fates []clock.Fate) {
	var rings []clock.Ring
	var claimed []clock.RingRow
	for i := range fates {
		if fates[i].Outcome.Kind == clock.Awaited {
			ring := c.rings[i]
			ring.Payload = nil // no settlement needs it, and many rings may wait
			rings, claimed = append(rings, ring), append(claimed, fates[i].RingRow)
		}
	}
	if len(rings) > 0 {
		c.tx, c.rings, c.claimed = nil, rings, claimed
	}
}

// Release gives the rings back. It rolls back a held claim, and restores the rows of a two-phase claim.
func (c *claim) Release(ctx context.Context) error {
	if c.tx != nil {
		c.tx.Rollback(ctx)
		return nil
	}
	return c.writeSettlements(ctx, "release", c.Restorations(c.rings), nil)
}

// writeSettlements writes the settlements and attempts, and commits.
func (c *claim) writeSettlements(
	ctx context.Context, doing string, settled []store.Settlement, attempts []store.AlarmAttempt,
) error {
	if len(settled) > 0 {
		return c.inSettleTx(ctx, doing,
			func(ctx context.Context, t SettleTx) error { return t.Settle(ctx, settled, attempts) })
	}
	if c.tx != nil {
		return c.inSettleTx(ctx, doing, func(context.Context, SettleTx) error { return nil })
	}
	return nil
}

// inSettleTx runs do in the transaction of a held claim, or in a transaction of its own, and commits. The transaction
// of a held claim is never replayed: its rings were handed out.
func (c *claim) inSettleTx(ctx context.Context, doing string, do func(ctx context.Context, t SettleTx) error) error {
	if c.tx != nil {
		return c.s.call(ctx, doing, func(ctx context.Context) error {
			return InTx(ctx, func(context.Context) (SettleTx, error) { return c.tx, nil },
				func(t SettleTx) error { return do(ctx, t) })
		})
	}
	return c.s.replayed(ctx, doing, func(ctx context.Context) error {
		return InTx(ctx,
			func(ctx context.Context) (SettleTx, error) { return c.s.driver.BeginSettle(ctx, &c.ClaimRequest) },
			func(t SettleTx) error { return do(ctx, t) })
	})
}
