package postgresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store"
)

// Migrations returns the migration files of this engine, in the root directory.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.PostgreSQL, "postgresql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate applies the missing migrations under an advisory lock, and makes the shards of a new database. It has no deadline of its own,
// except for reaching the server. Each migration is one transaction. The end of ctx takes effect between two statements.
func (s *Store) Migrate(ctx context.Context) error {
	db, err := s.openForMigration()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	migrations, err := store.ReadMigrations(Migrations())
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithDisableGlobalRegistry(true),
		goose.WithSessionLocker(store.NewStoppableLock(ctx, migrateLock{s.log})), store.TransactionalMigrations(ctx, migrations, s.log))
	if err != nil {
		return fmt.Errorf("postgresql: read the migrations: %w", err)
	}
	applied, err := p.Up(context.WithoutCancel(ctx))
	if err != nil {
		return s.migrationError(err)
	}
	for _, m := range applied {
		s.log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration.Round(time.Millisecond))
	}
	return s.mapError("make shards", s.makeShards(ctx))
}

// migrateLock lets one process at a time migrate a database. The lock belongs to the session that also runs the migrations. If the process
// dies, the server releases the lock after its last statement has ended, and never before.
type migrateLock struct{ log *slog.Logger }

// SessionLock waits for the lock until ctx ends.
func (l migrateLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got bool
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", lock.DefaultLockID).Scan(&got); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	if got {
		return nil
	}
	l.log.Info("another process migrates the schema: waiting for it")
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", lock.DefaultLockID); err != nil {
		return fmt.Errorf("wait for the lock of the schema: %w", err)
	}
	return nil
}

// SessionUnlock releases the lock. If that fails, the session ends soon, and the lock with it.
func (l migrateLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", lock.DefaultLockID)
	return nil
}

// openForMigration returns a database handle without the timeouts of the pools.
func (s *Store) openForMigration() (*sql.DB, error) {
	pool, err := s.cfg.pool(1, migrateSettings())
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*pool.ConnConfig), nil
}

// makeShards inserts the shards of a new database. An existing shard count stays.
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
		shards = clock.DefaultShards
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
		return fmt.Errorf("postgresql: the configuration says %d shards, but the database was made with %d: the count cannot be changed",
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
	migrations, err := store.ReadMigrations(Migrations())
	if err != nil {
		return err
	}
	want := migrations[len(migrations)-1].Version
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
	if err := store.CheckVersion(has, want); err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	oldest, err := s.q.ReadOldestBuild(ctx, s.upkeep)
	if err != nil {
		return s.mapError("read the build level", err)
	}
	if err := store.CheckBuild(oldest); err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	if has > want {
		s.log.Info("the schema is newer than this build, which may work beside newer ones", "version", has, "known", want)
	}
	return nil
}
