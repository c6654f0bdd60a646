package sqlite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// childPath names the file that a child process of TestMigrateProcesses migrates.
const childPath = "CLOCKD_TEST_MIGRATE"

// TestMigrateProcesses migrates one new file from four processes at once.
func TestMigrateProcesses(t *testing.T) {
	if path := os.Getenv(childPath); path != "" {
		s := newStore(t, path)
		if err := errors.Join(s.Migrate(t.Context()), s.Check(t.Context())); err != nil {
			t.Fatal(err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "clockd.db")
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateProcesses$", "-test.count=1")
			child.Env = append(os.Environ(), childPath+"="+path)
			out, err := child.CombinedOutput()
			if err != nil {
				return errors.New(string(out))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, path)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mode string
	if err := s.reader.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Fatalf("journal mode %q, %v", mode, err)
	}
}

// TestMigrateWaits demands that a migration waits for the lock, and gives up with its context.
func TestMigrateWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	first, second := newStore(t, path), newStore(t, path)
	unlock, err := first.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	if err := second.Migrate(ctx); !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("migrate beside a lock: %v", err)
	}
	unlock()
	if err := second.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestShardCount is fixed by the first migration, and Check says so where the configuration differs.
func TestShardCount(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = scheme + filepath.Join(t.TempDir(), "clockd.db")
	for _, c := range []struct {
		shards int
		want   string
	}{{5, ""}, {0, ""}, {64, "has 5 shards"}} {
		cfg.Shards = c.shards
		s, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = s.Check(t.Context())
		if c.want == "" && (err != nil || s.ShardCount() != 5) {
			t.Errorf("shards %d: %d, %v", c.shards, s.ShardCount(), err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("shards %d: %v", c.shards, err)
		}
		_ = s.Close()
	}
}

// TestBusy writes while another program holds the file: unavailable at the call's deadline, and nothing is written.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	s := newStore(t, path)
	if err := errors.Join(s.Migrate(t.Context()), s.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	conn, err := rawSQL(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	k := clock.Key{Application: "shop", BusinessID: "a"}
	set := clock.Op{Set: &clock.Set{Key: k, Content: clock.Content{LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(), MaxRings: 1}}}
	begun := time.Now()
	if _, err := s.Write(ctx, clock.WriteRequest{Ops: []clock.Op{set}}); !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("write to a locked file: %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("gave up after %s", took)
	}
	if _, err := s.Get(t.Context(), k); !errors.Is(err, clock.ErrNotFound) {
		t.Fatalf("read of a locked file: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Write(t.Context(), clock.WriteRequest{Ops: []clock.Op{set}}); err != nil || d[0].Verdict != clock.Create {
		t.Fatalf("write after the lock: %v, %v", d, err)
	}
}
