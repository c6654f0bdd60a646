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

// expire ends expired alarms while claims do not: when a route cannot ring, or applications are in quarantine. Otherwise a
// claim ends the expired alarms that it takes. The pass reads all due rows in pages, because only the row tells until when its
// alarm may ring. After the last page it begins again.
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
		if _, quarantined := l.quarantine.Quarantined(); quarantined > 0 || l.anyRouteDown() {
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
		ended, next, err := l.database.Expire(ctx, now, shards, from, expiryRows)
		if err != nil {
			l.log.Debug("could not look for expired alarms", "err", err)
			return from
		}
		l.report(ended)
		if from = next; next == (store.Position{}) {
			break
		}
	}
	return from
}
