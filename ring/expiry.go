package ring

import (
	"context"
	"time"

	"github.com/clockd/clockd/store"
)

const (
	expiryInterval = time.Second
	expiryRows     = 1000 // looked at, a statement
	expiryPages    = 10   // a round, at most: what is due may be millions
)

// expire ends what can no longer ring while nothing is claimed, or not for every application; a claim ends by itself what it
// meets. It goes round what is due in pages, for only its rows tell until when they may ring.
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
		if l.target.Usable() != nil || len(l.ward.Unwell()) > 0 {
			from = l.expireRound(ctx, from)
		}
	}
}

// expireRound looks at some pages from a position on and returns where to go on.
func (l *Loop) expireRound(ctx context.Context, from store.Position) store.Position {
	shards := l.reader.Owned()
	for range expiryPages {
		if len(shards) == 0 {
			break
		}
		now, err := l.time.Now()
		if err != nil {
			return from
		}
		ended, next, err := l.claimer.Expire(ctx, now, shards, from, expiryRows)
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
