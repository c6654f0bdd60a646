package ring

import (
	"context"
	"time"

	"github.com/clockd/clockd/store"
)

const (
	expiryInterval = time.Second
	expiryRows     = 1000 // most rows that one statement reads
	expiryPages    = 10   // most pages in a round: millions of alarms may be due
)

// expire ends alarms that may not ring any more while claims do not: when a route cannot ring, when applications are in
// quarantine, or when no worker asks for the rings of an application. Otherwise a claim ends such alarms among its own.
// The pass reads all due rows in pages, because only the row tells whether its alarm may still ring. After the last
// page it begins again.
func (l *Loop) expire(ctx context.Context) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	var from store.Position
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.quarantine.leavesAlarms() || l.anyRouteDown() {
			from = l.expireRound(ctx, from)
		}
	}
}

// expireRound reads some pages from a position on, and returns the position of the next page.
func (l *Loop) expireRound(ctx context.Context, from store.Position) store.Position {
	shards := l.feeder.Owned()
	for range expiryPages {
		if len(shards) == 0 {
			break
		}
		now, err := l.time.Floor()
		if err != nil {
			return from
		}
		page, err := l.database.Expire(ctx, now, shards, from, expiryRows)
		if err != nil {
			l.log.Debug("could not look for alarms that may not ring any more", "err", err)
			return from
		}
		l.countEnded(page.Ended)
		l.countOccurrences(page.Counted)
		l.feeder.Offer(l.heap.expectReoffer(page.Moved))
		if from = page.Next; from == (store.Position{}) {
			break
		}
	}
	return from
}
