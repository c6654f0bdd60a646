package preload

import (
	"context"
	"sync"
	"time"

	"github.com/clockd/clockd/store"
)

const (
	// slowRead is how long a read may take before it counts as failing.
	slowRead = time.Second
	// probePause is how long Reads waits before it repeats a failed query.
	probePause = time.Second
	// probeTimeout bounds a repeated query.
	probeTimeout = 5 * time.Second
)

var _ store.Loader = (*Reads)(nil)

// Reads is a store.Loader that knows whether its reads succeed. It repeats a failed query until the query succeeds,
// because the loaders of a node that yielded its shards read nothing any more.
type Reads struct {
	loader store.Loader

	mu     sync.Mutex
	failed map[int]store.DueQuery        // by shard, a failed query; removed by the shard's next successful read
	begun  map[*store.DueQuery]time.Time // by running query, when it began
}

// NewReads returns Reads from the loader, without failed reads.
func NewReads(l store.Loader) *Reads {
	return &Reads{loader: l, failed: map[int]store.DueQuery{}, begun: map[*store.DueQuery]time.Time{}}
}

// Due reads from the loader and notes whether the read failed. An error of a read whose ctx ended does not count.
func (r *Reads) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	r.begin(&q)
	page, err := r.loader.Due(ctx, q)
	r.end(&q, err, ctx.Err() != nil)
	return page, err
}

func (r *Reads) begin(q *store.DueQuery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[q] = time.Now()
}

func (r *Reads) end(q *store.DueQuery, err error, cancelled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.begun, q)
	for _, shard := range q.Shards {
		switch {
		case err == nil:
			delete(r.failed, shard)
		case !cancelled:
			r.failed[shard] = *q
		}
	}
}

// Failing reports whether a read takes longer than slowRead, or has failed and its shards were not read since.
func (r *Reads) Failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, begun := range r.begun {
		if time.Since(begun) > slowRead {
			return true
		}
	}
	return len(r.failed) > 0
}

// Run repeats one failed query a second until ctx ends.
func (r *Reads) Run(ctx context.Context) error {
	ticker := time.NewTicker(probePause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			r.probe(ctx)
		}
	}
}

// probe repeats a failed query.
func (r *Reads) probe(parent context.Context) {
	q, ok := r.oneFailed()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(parent, probeTimeout)
	defer cancel()
	_, err := r.loader.Due(ctx, q)
	r.end(&q, err, parent.Err() != nil)
}

func (r *Reads) oneFailed() (store.DueQuery, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.failed {
		return q, true
	}
	return store.DueQuery{}, false
}
