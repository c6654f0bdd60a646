package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/schema"
)

const (
	// migrateTimeout bounds a migration, the wait for other processes included, where the caller's context has no deadline.
	migrateTimeout = 5 * time.Minute
	// lockPoll is how often a process looks whether another has migrated.
	lockPoll = 20 * time.Millisecond
)

// migrations returns the files of this engine.
func migrations() fs.FS {
	files, err := fs.Sub(schema.SQLite, "sqlite")
	if err != nil { // the path is a constant
		panic("sqlite: " + err.Error())
	}
	return files
}

// Migrate brings the schema up to date and fixes the shard count of a new database, under a lock beside the file.
func (s *Store) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	unlock, err := s.lock(ctx)
	if err != nil {
		return s.mapError(ctx, "lock for a migration", err)
	}
	defer unlock()
	db, err := open(s.path, migrating, 1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	provider, err := provider(db)
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return s.mapError(ctx, "migrate", err)
	}
	for _, r := range results {
		s.log.Info("migrated", "version", r.Source.Version, "duration", r.Duration)
	}
	shards := make([]int, s.cfg.Shards)
	if len(shards) == 0 {
		shards = make([]int, DefaultShards)
	}
	for i := range shards {
		shards[i] = i
	}
	return s.mapError(ctx, "fix the shard count", s.q.InsertShards(ctx, db, list(shards)))
}

func provider(db *sql.DB) (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations())
	if err != nil {
		return nil, fmt.Errorf("sqlite: read the migrations: %w", err)
	}
	return p, nil
}

// lock waits until no other process migrates. The lock's file stays, for to delete it would be a race.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
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

// Check compares the schema with what this build needs and reads the shard count and the version.
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

// checkSchema compares the versions of the schema.
func (s *Store) checkSchema(ctx context.Context) error {
	provider, err := provider(s.reader)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	need := sources[len(sources)-1].Version
	has, err := s.schemaVersion(ctx)
	switch {
	case err != nil:
		return s.mapError(ctx, "read the schema's version", err)
	case has < need:
		return fmt.Errorf("sqlite: the schema has version %d, this build needs %d: migrate the database", has, need)
	case has > need:
		return fmt.Errorf("sqlite: the schema has version %d, newer than the %d of this build: use a newer build", has, need)
	}
	return nil
}

// schemaVersion returns the newest migration that the database has seen, 0 where there is none.
func (s *Store) schemaVersion(ctx context.Context) (int64, error) {
	versions, err := database.NewStore(database.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return 0, err
	}
	version, err := versions.GetLatestVersion(ctx, s.reader)
	if errors.Is(err, database.ErrVersionNotFound) || hasCode(err, lib.SQLITE_ERROR) { // there is no such table
		return 0, nil
	}
	return version, err
}
