package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store"
)

// lockPoll is the interval at which a waiting process tries to take the migration lock.
const lockPoll = 20 * time.Millisecond

// migrations returns the migration files of this engine.
func migrations() fs.FS {
	files, err := fs.Sub(schema.SQLite, "sqlite")
	if err != nil { // the path is a constant
		panic("sqlite: " + err.Error())
	}
	return files
}

// Migrate brings the schema up to date and fixes the shard count of a new database, under the lock of a file beside the database. Each
// migration is a transaction. The end of ctx takes effect between two statements.
func (s *Store) Migrate(ctx context.Context) error {
	unlock, err := s.lockMigration(ctx)
	if err != nil {
		return s.mapError(ctx, "lock for a migration", err)
	}
	defer unlock()
	if err := create(s.path); err != nil {
		return err
	}
	db, err := open(s.path, migratePragmas, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	all, err := store.ReadMigrations(migrations())
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithDisableGlobalRegistry(true),
		store.TransactionalMigrations(ctx, all, s.log))
	if err != nil {
		return fmt.Errorf("sqlite: read the migrations: %w", err)
	}
	results, err := provider.Up(context.WithoutCancel(ctx))
	if err != nil {
		return s.migrationError(ctx, err)
	}
	for _, r := range results {
		s.log.Info("schema migrated", "version", r.Source.Version, "took", r.Duration.Round(time.Millisecond))
	}
	shards := make([]int, s.cfg.Shards)
	if len(shards) == 0 {
		shards = make([]int, clock.DefaultShards)
	}
	for i := range shards {
		shards[i] = i
	}
	return s.mapError(ctx, "fix the shard count", s.q.InsertShards(ctx, db, jsonNumbers(shards)))
}

// create makes the file if it does not exist. Only its owner may read it, because payloads are private. SQLite gives its other files (-wal,
// -shm) the mode of this file. An existing file keeps its mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: create the database file: %w", err)
	}
	return f.Close()
}

// lockMigration waits until no other process migrates, and takes the lock. The lock's file stays, because deleting it would be a race.
func (s *Store) lockMigration(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(s.path+".migrate-lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := tryLock(f)
		if locked {
			return func() { _ = f.Close() }, nil
		}
		wait := time.NewTimer(lockPoll)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			err = ctx.Err()
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}

// Check compares the schema's version with this build's. It also reads the shard count and SQLite's version.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	shards, err := s.q.CountShards(ctx, s.reader)
	if err != nil {
		return s.mapError(ctx, "count the shards", err)
	}
	if s.cfg.Shards != 0 && int64(s.cfg.Shards) != shards {
		return fmt.Errorf("sqlite: the database has %d shards, fixed when it was first migrated, not the configured %d", shards, s.cfg.Shards)
	}
	if shards == 0 {
		return errors.New("sqlite: the shard count is not fixed yet: migrate the database")
	}
	version, err := s.q.ReadVersion(ctx, s.reader)
	if err != nil {
		return s.mapError(ctx, "read the version", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.engine = int(shards), "sqlite "+version
	return nil
}

// checkSchema returns an error if this build cannot work with the schema.
func (s *Store) checkSchema(ctx context.Context) error {
	all, err := store.ReadMigrations(migrations())
	if err != nil {
		return err
	}
	need := all[len(all)-1].Version
	has, err := s.schemaVersion(ctx)
	if err != nil {
		return s.mapError(ctx, "read the schema's version", err)
	}
	if err := store.CheckVersion(has, need); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	oldest, err := s.q.ReadOldestBuild(ctx, s.reader)
	if err != nil {
		return s.mapError(ctx, "read the build level", err)
	}
	if err := store.CheckBuild(oldest); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if has > need {
		s.log.Info("the schema is newer than this build, which may work beside newer ones", "version", has, "known", need)
	}
	return nil
}

// schemaVersion returns the version of the newest applied migration; 0 if there is none.
func (s *Store) schemaVersion(ctx context.Context) (int64, error) {
	versions, err := database.NewStore(database.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return 0, err
	}
	version, err := versions.GetLatestVersion(ctx, s.reader)
	if errors.Is(err, database.ErrVersionNotFound) || hasCode(err, lib.SQLITE_ERROR) { // the table does not exist
		return 0, nil
	}
	return version, err
}
