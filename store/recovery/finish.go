package recovery

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Database is the restored database. engine.Store implements it.
type Database interface {
	store.Loader
	store.Claimer
	Cluster(ctx context.Context) (store.Cluster, error)
	Time(ctx context.Context) (micros int64, err error)
	ShardCount() int
	// SkipIDs leaves out store.SkippedIDs ids of new alarms.
	SkipIDs(ctx context.Context) error
	// MarkRestored marks the next alarms above an id, at most limit. next is the last of them; it equals after at the
	// end.
	MarkRestored(ctx context.Context, now clock.Instant, after int64, limit int) (next int64, counts store.RestoredCounts, err error)
}

// Result counts what Finish has done.
type Result struct {
	store.RestoredCounts     // InDoubt has the alarms of AtMostOnce too
	AtMostOnce           int // due alarms that ring at most once: they are rung, in doubt
	Ended                int // due alarms past their latest_ring_at, or without a ring left
}

// pageRows is the number of alarms that one transaction marks or claims.
const pageRows = 500

// lookInterval is the time between two looks at the nodes.
const lookInterval = 200 * time.Millisecond

// pageBytes bounds the payloads of one claim.
const pageBytes = 16 << 20

// Finish prepares the database. It calls progress after each page of alarms.
func Finish(ctx context.Context, db Database, progress func(Result)) (done Result, err error) {
	now, err := awaitNoNode(ctx, db)
	if err != nil {
		return done, err
	}
	if err := db.SkipIDs(ctx); err != nil {
		return done, err
	}
	for after := int64(0); ; {
		next, counts, err := db.MarkRestored(ctx, now, after, pageRows)
		if err != nil {
			return done, err
		}
		done.RestoredCounts = done.Plus(counts)
		if next == after {
			break
		}
		after = next
		progress(done)
	}
	err = finishAtMostOnce(ctx, db, now, &done, progress)
	return done, err
}

// awaitNoNode waits until the leases of all nodes have ended, and returns the database's time. It returns an error if a
// node renews its lease: then the node works on the database.
func awaitNoNode(ctx context.Context, db Database) (now clock.Instant, err error) {
	first := map[string]clock.Instant{} // end of each node's lease, as first seen
	for {
		micros, err := db.Time(ctx)
		if err != nil {
			return 0, err
		}
		c, err := db.Cluster(ctx)
		if err != nil {
			return 0, err
		}
		now = clock.InstantOf(time.UnixMicro(micros))
		alive := false
		for i := range c.Nodes {
			n := &c.Nodes[i]
			if seen, known := first[n.Incarnation]; known && n.Expires > seen {
				return 0, fmt.Errorf("the node %s works on this database: stop all nodes first", n.Name)
			}
			first[n.Incarnation] = n.Expires
			alive = alive || n.Alive(now)
		}
		if !alive {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(lookInterval):
		}
	}
}

// finishAtMostOnce records the due alarms that ring at most once as rung and in doubt, without a ring.
func finishAtMostOnce(ctx context.Context, db Database, now clock.Instant, done *Result, progress func(Result)) error {
	query := store.DueQuery{Shards: store.AllShards(db.ShardCount()), Until: store.Position{Time: now + 1}}
	query.Limit = max(1, pageRows/len(query.Shards))
	for {
		page, err := db.Due(ctx, query)
		if err != nil {
			return err
		}
		for rows := range slices.Chunk(page.Rows, pageRows) {
			if err := finishPage(ctx, db, now, rows, done); err != nil {
				return err
			}
			progress(*done)
		}
		if query.From = page.CompleteUntil; query.From == query.Until {
			return nil
		}
	}
}

// finishPage claims the rows that ring at most once. Such a claim records them as rung and in doubt when it commits;
// the settlement adds the attempts, and moves repeating alarms to their next occurrence.
func finishPage(ctx context.Context, db Database, now clock.Instant, rows []store.Due, done *Result) error {
	request := store.ClaimRequest{Now: now, ClaimID: rand.Text(), AtMostOnce: true, MaxBytes: pageBytes,
		Named: store.NamedOf(rows)}
	for i := range rows {
		request.IDs = append(request.IDs, rows[i].ID)
	}
	for len(request.IDs) > 0 {
		claim, err := db.Claim(ctx, request)
		if err != nil {
			return err
		}
		done.Ended += len(claim.Ended)
		done.AtMostOnce += len(claim.Rings)
		if err := settle(ctx, claim, now+1); err != nil {
			return err
		}
		request.IDs, request.ClaimID = claim.Deferred, rand.Text()
	}
	return nil
}

// settle records that the outcome of each ring is unknown.
func settle(ctx context.Context, claim *store.Claim, now clock.Instant) error {
	if claim.Settler == nil {
		return nil
	}
	fates := make([]clock.Fate, len(claim.Rings))
	for i := range fates {
		fates[i] = clock.FateOf(&claim.Rings[i], clock.Outcome{Kind: clock.Doubtful, Reason: store.ReasonRestored}, now)
	}
	return claim.Settler.Settle(ctx, now, fates)
}
