package preload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/clockd/clockd/store"
)

// failingLoader is a store.Loader whose reads return empty pages, or err.
type failingLoader struct{ err error }

func (l *failingLoader) Due(_ context.Context, q store.DueQuery) (store.DuePage, error) {
	return store.DuePage{CompleteUntil: q.Until}, l.err
}

// Reads fails from a failed read until good reads of the same shards. A read whose ctx ended does not count.
func TestReadsFailUntilAGoodReadOfTheSameShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &failingLoader{err: errors.New("no page")}
		reads := NewReads(table)
		due := func(ctx context.Context, shards ...int) {
			_, _ = reads.Due(ctx, store.DueQuery{Shards: shards, Limit: 1})
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if due(ended, 1); reads.Failing() {
			t.Error("a read whose ctx ended counts")
		}
		if due(t.Context(), 1, 2); !reads.Failing() {
			t.Error("a failed read does not count")
		}
		table.err = nil
		if due(t.Context(), 3); !reads.Failing() {
			t.Error("a good read of another shard counts")
		}
		if due(t.Context(), 1); !reads.Failing() {
			t.Error("a good read of one shard counts for the other")
		}
		if due(t.Context(), 2); reads.Failing() {
			t.Error("good reads of both shards do not count")
		}
	})
}
