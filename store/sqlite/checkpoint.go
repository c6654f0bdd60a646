package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// checkpointPause is the least time between two checkpoints.
	checkpointPause = time.Second
	// checkpointCommits is the number of commits after which a checkpoint begins.
	checkpointCommits = 16
	// checkpointRest is the time after which a checkpoint begins even if there were fewer commits. An idle node commits
	// twice a second.
	checkpointRest = 10 * time.Second
	// maxLogPages is the number of pages in the log beyond which a checkpoint stops the writer. 16,384 pages are 64
	// MiB.
	maxLogPages = 1 << 14
)

// checkpointer copies the pages of the write-ahead log into the file, beside the writer. SQLite would do so within
// every commit that finds 1,000 pages in the log, and such a commit takes several times as long as others.
//
// The writer begins a new log when all its pages are copied and no reader uses them. Under steady writes a checkpoint
// beside the writer never copies all of them. So for a long log the checkpointer runs the checkpoint on the writer's
// own connection: no commit can add pages meanwhile. Readers that overlap without a gap let the log grow further.
type checkpointer struct {
	writer  *sql.DB
	copier  *sql.DB // one connection of its own
	log     *slog.Logger
	pages   int           // maxLogPages; tests have fewer
	commits atomic.Int32  // of the writer since the last checkpoint began
	written chan struct{} // capacity 1: the writer has committed checkpointCommits times
	stop    context.CancelFunc
	stopped chan struct{}
}

// startCheckpointer starts checkpoints of the file's log. The caller calls close.
func startCheckpointer(path string, writer *sql.DB, log *slog.Logger) (*checkpointer, error) {
	copier, err := open(path, checkpointPragmas, 1)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{
		writer: writer, copier: copier, log: log, pages: maxLogPages, written: make(chan struct{}, 1), stop: stop,
		stopped: make(chan struct{}),
	}
	go c.run(ctx)
	return c, nil
}

// run copies pages after commits until ctx ends.
func (c *checkpointer) run(ctx context.Context) {
	defer close(c.stopped)
	rest := time.NewTicker(checkpointRest)
	defer rest.Stop()
	failing := false
	for {
		select {
		case <-c.written:
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		if c.commits.Swap(0) == 0 {
			continue // nothing was written since the last checkpoint
		}
		err := c.checkpoint(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.log.Warn("could not copy the write-ahead log into the file: the log grows", "err", err)
		}
		failing = err != nil
		select {
		case <-time.After(checkpointPause):
		case <-ctx.Done():
			return
		}
	}
}

// checkpoint copies the pages of the log up to the oldest one that a running read still needs. The writer goes on
// meanwhile, unless the log is too long.
func (c *checkpointer) checkpoint(ctx context.Context) error {
	pages, err := copyLog(ctx, c.copier)
	if err != nil || pages <= c.pages {
		return err
	}
	_, err = copyLog(ctx, c.writer) // the writer's only connection: no commit meanwhile
	return err
}

// copyLog copies pages of the log and returns the number of pages in the log, copied ones included.
func copyLog(ctx context.Context, db *sql.DB) (pages int, err error) {
	var busy, copied int // busy: another connection copies at this moment
	err = db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	return pages, err
}

// noteCommit starts a checkpoint soon if there were many commits since the last one.
func (c *checkpointer) noteCommit() {
	if c.commits.Add(1) >= checkpointCommits {
		clock.Signal(c.written)
	}
}

// close ends the checkpoints. The last connection that closes the file copies the rest of the log.
func (c *checkpointer) close() error {
	c.stop()
	<-c.stopped
	return c.copier.Close()
}
