package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
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

// Migrations returns the migration files of this engine.
func (d *Driver) Migrations() fs.FS { return migrations() }

// errNoFile reports that the database file could not be made although the lock's file could.
var errNoFile = errors.New("create the database file")

// OpenMigration takes the lock of a file beside the database and makes the database's file. Each migration is a
// transaction.
func (d *Driver) OpenMigration(ctx context.Context) (*engine.MigrationSession, error) {
	unlock, err := d.lockMigration(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock for a migration: %w", err)
	}
	if err := create(d.path); err != nil {
		unlock()
		return nil, err
	}
	db, err := open(d.path, migratePragmas, 1)
	if err != nil {
		unlock()
		return nil, err
	}
	return &engine.MigrationSession{Dialect: goose.DialectSQLite3, DB: db, Unlock: unlock}, nil
}

// MakeShards inserts the shards of a new database (InsertShards).
func (d *Driver) MakeShards(ctx context.Context, count int) error {
	return engine.InTx(ctx, d.begin,
		func(tx *writeTx) error { return d.q.InsertShards(ctx, tx, jsonNumbers(store.AllShards(count))) })
}

// create makes the file if it does not exist. Only its owner may read it, because payloads are private. SQLite gives
// its other files (-wal, -shm) the mode of this file. An existing file keeps its mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFile, err)
	}
	return f.Close()
}

// lockMigration waits until no other process migrates, and takes the lock. The lock's file stays, because deleting it
// would be a race.
func (d *Driver) lockMigration(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(d.path+".migrate-lock", os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder %q does not exist: %w", filepath.Dir(d.path), err)
	}
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

// Identify reads SQLite's version (ReadVersion).
func (d *Driver) Identify(ctx context.Context) (engine.Server, error) {
	version, err := d.q.ReadVersion(ctx, d.reader)
	return engine.Server{Name: "sqlite " + version}, err
}

// ReadSchemaVersion reads the version of the newest applied migration.
func (d *Driver) ReadSchemaVersion(ctx context.Context) (int64, error) {
	return engine.SchemaVersion(ctx, goose.DialectSQLite3, d.reader,
		func(err error) bool { return hasCode(err, lib.SQLITE_ERROR) })
}

// ReadOldestBuild reads the oldest build level that may work on the database (ReadOldestBuild).
func (d *Driver) ReadOldestBuild(ctx context.Context) (int64, error) {
	return d.q.ReadOldestBuild(ctx, d.reader)
}

// CountShards counts the shards (CountShards).
func (d *Driver) CountShards(ctx context.Context) (int64, error) {
	return d.q.CountShards(ctx, d.reader)
}
