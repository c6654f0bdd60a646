package sqlite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/storetest"
)

// childPath is the environment variable with the file that a child process of TestFourProcessesMigrateOneFile migrates.
const childPath = "CLOCKD_TEST_MIGRATE"

// TestFourProcessesMigrateOneFile migrates one new file from four processes at once.
func TestFourProcessesMigrateOneFile(t *testing.T) {
	if path := os.Getenv(childPath); path != "" {
		migrated(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "clockd.db")
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFourProcessesMigrateOneFile$",
				"-test.count=1")
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
	if err := s.d.reader.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Fatalf("journal mode %q, %v", mode, err)
	}
}

// killedAt and killedPath are the environment variables of a child process of TestKilledMigrationContinues: the
// statement before which it dies, and the file.
const (
	killedAt   = "CLOCKD_TEST_MIGRATE_KILLED_AT"
	killedPath = "CLOCKD_TEST_MIGRATE_KILLED_PATH"
)

// TestKilledMigrationContinues kills a process before each fifth statement of a migration in turn, and starts it again.
// The migration needs no operator, and its schema equals the schema of an undisturbed migration.
func TestKilledMigrationContinues(t *testing.T) {
	if path := os.Getenv(killedPath); path != "" {
		at, _ := strconv.Atoi(os.Getenv(killedAt))
		s := newLogged(t, path, storetest.StepLog(func(n int) {
			if n == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}))
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	path, clean := filepath.Join(t.TempDir(), "killed.db"), filepath.Join(t.TempDir(), "clean.db")
	if err := newStore(t, clean).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	kills, at, version := 0, 0, int64(0)
	for done := false; !done; kills++ {
		at += 5 // a file is one transaction, so its statements are alike
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledMigrationContinues$",
			"-test.count=1")
		child.Env = append(os.Environ(), killedPath+"="+path, killedAt+"="+strconv.Itoa(at))
		out, err := child.CombinedOutput()
		if done = err == nil; !done && child.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("after %d kills: %v\n%s", kills, err, out)
		}
		if has, err := newStore(t, path).d.ReadSchemaVersion(t.Context()); err != nil {
			t.Fatal(err)
		} else if has != version {
			version, at = has, 0 // the statements up to this version do not run again
		}
	}
	t.Logf("%d kills", kills-1)
	if got, want := schemaOf(t, path), schemaOf(t, clean); got != want {
		t.Errorf("after the kills the schema is\n%s\nwant\n%s", got, want)
	}
	if err := newStore(t, path).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// schemaOf returns the definitions of a file's tables, indexes and views.
func schemaOf(t *testing.T, path string) (schema string) {
	t.Helper()
	const query = "SELECT group_concat(name || ': ' || sql, char(10)) FROM (SELECT * FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name)"
	if err := rawSQL(t, path).QueryRow(query).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestMigrationWaitsForTheLock: a migration waits for the lock, and gives up when its context ends.
func TestMigrationWaitsForTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	first, second := newStore(t, path), newStore(t, path)
	unlock, err := first.d.lockMigration(t.Context())
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

// TestShardCountIsFixedOnce: the first migration fixes the shard count, and Check refuses a configuration with another
// count.
func TestShardCountIsFixedOnce(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = scheme + filepath.Join(t.TempDir(), "clockd.db")
	for _, c := range []struct {
		shards int
		want   string
	}{{5, ""}, {0, ""}, {64, "was made with 5"}} {
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

// TestLockedFileIsUnavailable writes while another program holds the file's lock. At the call's deadline the write is
// unavailable, and nothing is written.
func TestLockedFileIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	s := migrated(t, path)
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
	set := clock.Op{Set: &clock.Set{Key: k,
		Content: clock.Content{LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(), MaxRings: 1}}}
	begun := time.Now()
	if _, err := s.Write(ctx, clock.WriteRequest{Ops: []clock.Op{set}}); !errors.Is(err, clock.ErrUnavailable) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("write to a locked file: %v", err)
	}
	if took := time.Since(begun); took > busyTimeout {
		t.Errorf("waited for the lock for %s, although the context had ended", took)
	}
	if _, err := s.Get(t.Context(), k); !errors.Is(err, clock.ErrNotFound) {
		t.Fatalf("read of a locked file: %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Write(t.Context(), clock.WriteRequest{Ops: []clock.Op{set}}); err != nil ||
		d[0].Verdict != clock.Create {
		t.Fatalf("write after the lock: %v, %v", d, err)
	}
}

func TestOnlyTheOwnerReadsNewFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	migrated(t, path)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 3 {
		t.Errorf("files %v (%v), want the database, its log and the lock at least", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}
