package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/schema"
)

// Waiting for another process that migrates: looked at so often, so many times. Its lease ends 30 s after it died.
const (
	migrateLockPeriod = 500 * time.Millisecond
	migrateLockTries  = 1200
)

// Migrations returns the migrations of this engine, at the root.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.MySQL, "mysql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate applies what is missing under a lock table, and makes the shards of a new database. It has no deadline of its own
// but that of reaching the server.
func (s *Store) Migrate(ctx context.Context) error {
	db, err := s.openForMigration()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	p, err := s.provider(db)
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
	return s.makeShards(ctx)
}

// openForMigration returns a pool as goose needs it: it reads times, and its lock is renewed beside the migration.
func (s *Store) openForMigration() (*sql.DB, error) {
	d, err := s.cfg.driver(s.log)
	if err != nil {
		return nil, err
	}
	d.ParseTime = true
	return open(d, 2, true)
}

func (s *Store) provider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewMySQLTableLocker(lock.WithTableLockTimeout(migrateLockPeriod, migrateLockTries), lock.WithTableLogger(s.log))
	if err != nil {
		return nil, fmt.Errorf("mysql: make the migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectMySQL, db, Migrations(), goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("mysql: read the migrations: %w", err)
	}
	return p, nil
}

// makeShards fixes the shard count where there is none yet. Of two processes one inserts, and the other meets its rows.
func (s *Store) makeShards(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.transact(ctx, s.upkeep, "make shards", func(t *tx, _ bool) error {
		count, err := s.q.CountShards(ctx, t)
		if err != nil || count > 0 {
			return err
		}
		args := make([]any, s.cfg.Shards)
		if len(args) == 0 {
			args = make([]any, DefaultShards)
		}
		for i := range args {
			args[i] = int64(i)
		}
		err = s.q.InsertShards(ctx, bulk{DBTX: t, part: shardTuple, rows: len(args), args: args}, 0)
		if isNumber(err, errDuplicateKey) {
			return nil
		}
		return err
	})
}

// Check compares the schema's version with this build's, and reads the shard count and what the server is.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	server, err := s.readServer(ctx)
	if err != nil {
		return err
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	shards, err := s.q.CountShards(ctx, s.upkeep)
	switch {
	case err != nil:
		return s.mapError("count the shards", err)
	case shards == 0:
		return errors.New("mysql: the database has no shards: run clockd migrate")
	case s.cfg.Shards != 0 && int64(s.cfg.Shards) != shards:
		return fmt.Errorf("mysql: the configuration says %d shards, the database was made with %d: the count cannot be changed",
			s.cfg.Shards, shards)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.server = int(shards), server
	return nil
}

// readServer asks the server what it is (ReadServer). Pools do not keep connections longer than MySQL does.
func (s *Store) readServer(ctx context.Context) (server, error) {
	row, err := s.q.ReadServer(ctx, s.upkeep)
	if err != nil {
		return server{}, s.mapError("read the version", err)
	}
	v := parseServer(row.Version)
	v.maxPacket, v.idStep = int(row.MaxPacket), row.IDStep
	if !v.maria {
		for _, p := range s.pools() {
			p.SetConnMaxIdleTime(maxIdle)
		}
	}
	return v, v.check()
}

func (s *Store) checkSchema(ctx context.Context) error {
	p, err := s.provider(s.upkeep)
	if err != nil {
		return err
	}
	sources := p.ListSources()
	want := sources[len(sources)-1].Version
	versions, err := database.NewStore(database.DialectMySQL, goose.DefaultTablename)
	if err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	has, err := versions.GetLatestVersion(ctx, s.upkeep)
	switch {
	case errors.Is(err, database.ErrVersionNotFound) || isNumber(err, errNoSuchTable):
		has = 0
	case err != nil:
		return s.mapError("read the schema's version", err)
	}
	switch {
	case has < want:
		return fmt.Errorf("mysql: the schema has version %d, this build needs %d: run clockd migrate", has, want)
	case has > want:
		return fmt.Errorf("mysql: the schema has version %d, this build knows only %d: run a newer clockd", has, want)
	}
	return nil
}
