package postgresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store/engine"
)

// Migrations returns the migration files of this engine, in the root directory.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.PostgreSQL, "postgresql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// DistributedMigrations returns the migration files of a distributed database, in the root directory.
func DistributedMigrations() fs.FS {
	sub, err := fs.Sub(schema.Citus, "citus")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return joinedFS{Migrations(), sub}
}

// Migrations returns the migration files of this engine.
func (d *Driver) Migrations() fs.FS {
	if d.cfg.Distributed {
		return DistributedMigrations()
	}
	return Migrations()
}

// OpenMigration returns a session without the timeouts of the pools, in which each migration is one transaction. With
// shared sessions, another client would get the session with the lock of the migration.
func (d *Driver) OpenMigration(ctx context.Context) (*engine.MigrationSession, error) {
	if err := d.refuseSharedSessions(ctx); err != nil {
		return nil, err
	}
	if err := d.refuseOtherMode(ctx); err != nil {
		return nil, err
	}
	pool, err := d.cfg.pool(1, d.cfg.migrateSettings())
	if err != nil {
		return nil, err
	}
	return &engine.MigrationSession{Dialect: goose.DialectPostgres, DB: stdlib.OpenDB(*pool.ConnConfig), Lock: migrateLock{d.log}}, nil
}

// migrateLock lets one process at a time migrate a database. The lock belongs to the session that also runs the
// migrations. If the process dies, the server releases the lock after its last statement has ended, and never before.
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

// MakeShards inserts the shards of a new database (LockShards, InsertShards), and the gates of a distributed one. An
// existing shard count stays.
func (d *Driver) MakeShards(ctx context.Context, count int) error {
	if d.cfg.Distributed { // in a transaction of its own, because one that also writes shard would not be atomic
		if err := d.distributed.InsertGates(ctx, d.upkeep, int64(count)); err != nil {
			return err
		}
	}
	return engine.InTx(ctx, func(ctx context.Context) (*tx, error) { return begin(ctx, d.upkeep, d.cfg.Timeout) }, func(t *tx) error {
		if err := d.q.LockShards(ctx, t); err != nil {
			return err
		}
		if d.cfg.Distributed {
			if err := d.setPlans(ctx, t); err != nil {
				return err
			}
		}
		return d.q.InsertShards(ctx, t, int64(count))
	})
}

// Identify reads the server's version (ReadVersion). It refuses a pooler that shares sessions.
func (d *Driver) Identify(ctx context.Context) (engine.Server, error) {
	switch err := d.refuseSharedSessions(ctx); {
	case errors.Is(err, errSharedSessions):
		return engine.Server{Unfit: err}, nil
	case err != nil:
		return engine.Server{}, err
	}
	version, err := d.q.ReadVersion(ctx, d.upkeep)
	if err != nil {
		return engine.Server{}, err
	}
	mode, err := d.readMode(ctx)
	if err != nil {
		return engine.Server{}, err
	}
	server := engine.Server{Name: "postgresql " + version, Unfit: d.otherMode(mode)}
	if mode == modeDistributed && server.Unfit == nil {
		server.Placements, err = d.readPlacements(ctx)
	}
	return server, err
}

// ReadSchemaVersion reads the version of the newest applied migration.
func (d *Driver) ReadSchemaVersion(ctx context.Context) (int64, error) {
	db := stdlib.OpenDBFromPool(d.upkeep)
	defer func() { _ = db.Close() }()
	return engine.SchemaVersion(ctx, goose.DialectPostgres, db,
		func(err error) bool { return hasCode(err, codeUndefinedTable) })
}

// ReadOldestBuild reads the oldest build level that may work on the database (ReadOldestBuild).
func (d *Driver) ReadOldestBuild(ctx context.Context) (int64, error) {
	return d.q.ReadOldestBuild(ctx, d.upkeep)
}

// CountShards counts the shards (CountShards).
func (d *Driver) CountShards(ctx context.Context) (int64, error) {
	return d.q.CountShards(ctx, d.upkeep)
}
