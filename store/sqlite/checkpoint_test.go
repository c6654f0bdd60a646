package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// Commits leave the log alone. The checkpointer copies it into the file, and then the writer begins a new log, so that
// it does not grow.
func TestCheckpointerBoundsTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clockd.db")
	s := migrated(t, path)
	size := func(name string) int64 {
		info, err := os.Stat(name)
		ok(t, err, "size")
		return info.Size()
	}
	now, number := clock.Instant(time.Now().UnixMilli()), 0
	write := func() {
		ops := make([]clock.Op, 100)
		for i := range ops {
			number++
			ops[i] = clock.Op{Set: &clock.Set{
				Key: clock.Key{Application: "shop", BusinessID: fmt.Sprint(number)}, Content: clock.Content{
					RingAt: now.Add(time.Hour), LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
					MaxRings: 1,
					Payload:  bytes.Repeat([]byte("x"), 10_000),
				},
			}}
		}
		_, err := s.Write(t.Context(), clock.WriteRequest{Now: now, Ops: ops})
		ok(t, err, "write")
	}
	for range 20 { // 20 MB, five times the log at which SQLite itself would make a checkpoint
		write()
	}
	for deadline := time.Now().Add(time.Minute); size(path) < 20_000_000; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the file has %d bytes, and its log %d: no page is copied", size(path), size(path+"-wal"))
		}
	}
	// the checkpoint that has copied the last page may not have ended yet
	for deadline, before := time.Now().Add(time.Minute), size(path+"-wal"); ; {
		write()
		if after := size(path + "-wal"); after == before {
			return
		} else if before = after; time.Now().After(deadline) {
			t.Fatalf("the log grows without end: %d bytes", after)
		}
		time.Sleep(2 * checkpointPause)
	}
}
