package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// checkpointPause is the time between two checkpoints while the store writes.
	checkpointPause = time.Second
	// maxLogPages is the number of pages in the log beyond which a checkpoint stops the writer. 16,384 pages are 64 MiB.
	maxLogPages = 1 << 14
)

// checkpointer copies the pages of the write-ahead log into the file, beside the writer. SQLite would do so within every commit that
// finds 1,000 pages in the log, and such a commit takes several times as long as others.
//
// The writer begins the log anew when all its pages are copied and no reader uses them. Under steady writes a checkpoint beside the writer never copies all of
// them. So the checkpointer stops the writer for the last pages of a long log. Readers that overlap without a gap let the log grow further.
type checkpointer struct {
	writer  *sql.DB
	beside  *sql.DB // one connection
	log     *slog.Logger
	pages   int           // maxLogPages; tests have fewer
	written chan struct{} // capacity 1: the writer has committed
	stop    context.CancelFunc
	stopped chan struct{}
}

// startCheckpointer starts checkpoints of the file's log. The caller calls close.
func startCheckpointer(path string, writer *sql.DB, log *slog.Logger) (*checkpointer, error) {
	beside, err := open(path, checkpointPragmas, 1)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{
		writer: writer, beside: beside, log: log, pages: maxLogPages, written: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}),
	}
	go c.run(ctx)
	return c, nil
}

// run copies pages after commits until ctx ends.
func (c *checkpointer) run(ctx context.Context) {
	defer close(c.stopped)
	failing := false
	for {
		select {
		case <-c.written:
		case <-ctx.Done():
			return
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

// checkpoint copies the pages of the log that no reader needs. The writer goes on meanwhile, unless the log is too long.
func (c *checkpointer) checkpoint(ctx context.Context) error {
	pages, err := copyLog(ctx, c.beside)
	if err != nil || pages <= c.pages {
		return err
	}
	_, err = copyLog(ctx, c.writer) // takes the writer's only connection
	return err
}

// copyLog copies pages of the log and returns the number of pages in the log, copied ones included.
func copyLog(ctx context.Context, db *sql.DB) (pages int, err error) {
	var busy, copied int // busy: another connection copies at this moment
	err = db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	return pages, err
}

// noteCommit starts a checkpoint soon.
func (c *checkpointer) noteCommit() { clock.Signal(c.written) }

// close ends the checkpoints. The last connection that closes the file copies the rest of the log.
func (c *checkpointer) close() error {
	c.stop()
	<-c.stopped
	return c.beside.Close()
}
