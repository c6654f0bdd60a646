package postgresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/schema"
)

// Waiting for another process that migrates: asked once a second, so many times.
const (
	migrateLockPeriod = 1 // s
	migrateLockTries  = 600
)

// Migrations returns the migrations of this engine, at the root.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.PostgreSQL, "postgresql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate applies what is missing under an advisory lock, and makes the shards of a new database. It has no deadline of its
// own but that of reaching the server.
func (s *Store) Migrate(ctx context.Context) error {
	db, err := s.openForMigration()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	p, err := provider(db)
	if err != nil {
		return err
	}
	applied, err := p.Up(ctx)
	if err != nil {
		return s.mapError("migrate", err)
	}
	for _, m := range applied {
		s.log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration.Round(time.Millisecond))
	}
	return s.mapError("make shards", s.makeShards(ctx))
}

// openForMigration returns a connection without the limits that requests and rings have.
func (s *Store) openForMigration() (*sql.DB, error) {
	pool, err := s.cfg.pool(1, migrateSession())
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*pool.ConnConfig), nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(migrateLockPeriod, migrateLockTries))
	if err != nil {
		return nil, fmt.Errorf("postgresql: make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, Migrations(), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("postgresql: read the migrations: %w", err)
	}
	return p, nil
}

// makeShards fixes the shard count where there is none yet.
func (s *Store) makeShards(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	t, err := begin(ctx, s.upkeep, s.cfg.Timeout)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	if err := s.q.LockShards(ctx, t); err != nil {
		return err
	}
	shards := s.cfg.Shards
	if shards == 0 {
		shards = DefaultShards
	}
	if err := s.q.InsertShards(ctx, t, int64(shards)); err != nil {
		return err
	}
	return t.commit(ctx)
}

// Check compares the schema's version with this build's, and reads the shard count and the server's version.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	shards, err := s.q.CountShards(ctx, s.upkeep)
	if err != nil {
		return s.mapError("count the shards", err)
	}
	version, err := s.q.ReadVersion(ctx, s.upkeep)
	if err != nil {
		return s.mapError("read the version", err)
	}
	switch {
	case shards == 0:
		return errors.New("postgresql: the database has no shards: run clockd migrate")
	case s.cfg.Shards != 0 && int64(s.cfg.Shards) != shards:
		return fmt.Errorf("postgresql: the configuration says %d shards, the database was made with %d: the count cannot be changed",
			s.cfg.Shards, shards)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.engine = int(shards), "postgresql "+version
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.upkeep)
	defer func() { _ = db.Close() }()
	p, err := provider(db)
	if err != nil {
		return err
	}
	sources := p.ListSources()
	want := sources[len(sources)-1].Version
	versions, err := database.NewStore(database.DialectPostgres, goose.DefaultTablename)
	if err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	has, err := versions.GetLatestVersion(ctx, db)
	switch {
	case errors.Is(err, database.ErrVersionNotFound) || hasCode(err, codeUndefinedTable):
		has = 0
	case err != nil:
		return s.mapError("read the schema's version", err)
	}
	switch {
	case has < want:
		return fmt.Errorf("postgresql: the schema has version %d, this build needs %d: run clockd migrate", has, want)
	case has > want:
		return fmt.Errorf("postgresql: the schema has version %d, this build knows only %d: run a newer clockd", has, want)
	}
	return nil
}
