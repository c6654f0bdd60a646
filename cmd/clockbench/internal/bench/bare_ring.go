package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// fill inserts alarms 0..n-1 of a series with several writers at once. It returns the time that this took.
func fill(ctx context.Context, t bareTable, s series, n int, dueAt func(n int) int64) (time.Duration, error) {
	begun := time.Now()
	err := eachBulk(ctx, n, func(ctx context.Context, _, from, to int) error {
		rows := make([]bareRow, 0, to-from)
		now := time.Now().UnixMilli()
		for i := from; i < to; i++ {
			rows = append(rows,
				bareRow{businessID: s.id(i), shard: i % shards, payload: s.appendPayload(nil, i), at: dueAt(i),
					now: now})
		}
		return t.Insert(ctx, rows)
	})
	if err != nil {
		return 0, fmt.Errorf("bare insert: %w", err)
	}
	return time.Since(begun), nil
}

// eachBulk cuts 0..n-1 into parts of bulkRows. bulkWriters goroutines call do, once for each part.
func eachBulk(ctx context.Context, n int, do func(ctx context.Context, writer, from, to int) error) error {
	var next atomic.Int64
	writers, ctx := errgroup.WithContext(ctx)
	for w := range bulkWriters {
		writers.Go(func() error {
			for ctx.Err() == nil {
				from := int(next.Add(bulkRows)) - bulkRows
				if from >= n {
					return nil
				}
				if err := do(ctx, w, from, min(from+bulkRows, n)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return writers.Wait()
}

// deliverer delivers a batch, and returns when every ring is confirmed. Without a broker it delivers nothing.
type deliverer func([]bareRing) error

// bareRinger is the bare loop: each worker claims a batch in a transaction, delivers it and commits.
type bareRinger struct {
	table   bareTable
	deliver []deliverer // by worker
	rows    int         // most rings of a batch
	close   func()
}

// newBareRinger makes the workers. If b is nil, nothing is delivered.
func newBareRinger(ctx context.Context, table bareTable, b *broker, key string, headers bool) (*bareRinger, error) {
	r := &bareRinger{table: table, rows: ringRows, close: func() {}}
	for range ringWorkers {
		if b == nil {
			r.deliver = append(r.deliver, func([]bareRing) error { return nil })
			continue
		}
		p, err := newBarePublisher(ctx, b, key, headers)
		if err != nil {
			r.close()
			return nil, err
		}
		r.deliver = append(r.deliver, p.publish)
		before := r.close
		r.close = func() { p.close(); before() }
	}
	return r, nil
}

// ring rings one batch.
func (r *bareRinger) ring(ctx context.Context, worker int, ids []int64) error {
	return r.table.Claim(ctx, ids, time.Now().UnixMilli(), rand.Text(), func(rings []bareRing) error {
		if len(rings) != len(ids) {
			return fmt.Errorf("bare loop: %d of %d rows were claimed", len(rings), len(ids))
		}
		return r.deliver[worker](rings)
	})
}

// herd rings all ids as fast as possible.
func (r *bareRinger) herd(ctx context.Context, ids []int64) error {
	var next atomic.Int64
	workers, ctx := errgroup.WithContext(ctx)
	for w := range r.deliver {
		workers.Go(func() error {
			for {
				from := int(next.Add(int64(r.rows))) - r.rows
				if from >= len(ids) {
					return nil
				}
				if err := r.ring(ctx, w, ids[from:min(from+r.rows, len(ids))]); err != nil {
					return err
				}
			}
		})
	}
	return workers.Wait()
}

// steadily rings each id at its due time. Ids that are due together form a batch. It returns the lateness of their
// commits.
func (r *bareRinger) steadily(ctx context.Context, ids []int64, dueAt func(n int) int64) ([]time.Duration, error) {
	var mu sync.Mutex
	late := make([]time.Duration, 0, len(ids))
	work := make(chan [2]int) // from, to
	workers, ctx := errgroup.WithContext(ctx)
	for w := range r.deliver {
		workers.Go(func() error {
			for part := range work {
				if err := r.ring(ctx, w, ids[part[0]:part[1]]); err != nil {
					return err
				}
				mu.Lock()
				for n := part[0]; n < part[1]; n++ {
					late = append(late, time.Since(time.UnixMilli(dueAt(n))))
				}
				mu.Unlock()
			}
			return nil
		})
	}
	workers.Go(func() error {
		defer close(work)
		return r.dispatch(ctx, len(ids), dueAt, work)
	})
	err := workers.Wait()
	return late, err
}

// sleepUntil sleeps until an instant by the wall clock, and returns the instant at which it returns. A clock correction
// may set back the wall clock during the sleep, which uses the monotonic clock; then sleepUntil sleeps again.
func sleepUntil(ctx context.Context, instant int64) (now int64, err error) {
	for {
		if now = time.Now().UnixMilli(); now >= instant {
			return now, nil
		}
		if err := sleep(ctx, time.Until(time.UnixMilli(instant))); err != nil {
			return 0, err
		}
	}
}

// dispatch sends ranges of due alarms to work, in the order of their due times. dueAt returns the due time of alarm n.
func (r *bareRinger) dispatch(ctx context.Context, n int, dueAt func(n int) int64, work chan<- [2]int) error {
	for from := 0; from < n; {
		now, err := sleepUntil(ctx, dueAt(from))
		if err != nil {
			return err
		}
		to := from + 1
		for to < n && to-from < r.rows && dueAt(to) <= now {
			to++
		}
		select {
		case work <- [2]int{from, to}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		from = to
	}
	return nil
}
