package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store"
)

// migrateLockWait is how long one wait for the migration lock lasts, in seconds. Between two waits the migration checks ctx.
const migrateLockWait = 1

// migrateSession prepares a migrating session after prepareSession: changes of the schema may take long.
const migrateSession = "SET SESSION innodb_lock_wait_timeout = 60, wait_timeout = 28800, net_write_timeout = 60"

// Migrations returns the migration files of this engine, in the root directory.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.MySQL, "mysql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrate applies the missing migrations under a lock, and makes the shards of a new database. It has no deadline of its own, except for
// reaching the server. The end of ctx takes effect between two statements. A killed migration continues at the next start: the server commits
// each change of the schema by itself, and schemaProbe finds the statements that are still to run.
func (s *Store) Migrate(ctx context.Context) error {
	db, err := s.openForMigration()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := s.migrate(ctx, db); err != nil {
		return s.migrationError(err)
	}
	return s.makeShards(ctx)
}

func (s *Store) migrate(ctx context.Context, db *sql.DB) error {
	migrations, err := store.ReadMigrations(Migrations())
	if err != nil {
		return err
	}
	session := &migrateLock{log: s.log}
	p, err := goose.NewProvider(goose.DialectMySQL, db, nil, goose.WithDisableGlobalRegistry(true),
		goose.WithSessionLocker(store.NewStoppableLock(ctx, session)),
		store.StepwiseMigrations(ctx, migrations, func() store.Execer { return session.conn }, session.remaining, s.log))
	if err != nil {
		return fmt.Errorf("mysql: read the migrations: %w", err)
	}
	goosed := context.WithoutCancel(ctx)
	if err := healVersions(goosed, db); err != nil {
		return err
	}
	applied, err := p.Up(goosed)
	for _, m := range applied {
		s.log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration.Round(time.Millisecond))
	}
	return err
}

// healVersions adds the first row of goose's version table if it is missing. A process may have been killed between creating the table and
// inserting that row.
func healVersions(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "INSERT INTO "+goose.DefaultTablename+` (version_id, is_applied)
		SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `+goose.DefaultTablename+")")
	if hasNumber(err, errNoSuchTable) {
		return nil
	}
	return err
}

// migrateLock lets one process at a time migrate a database. The lock belongs to the session that also runs the migration's statements. If
// the process dies, the server releases the lock after its last statement has ended, and never before.
type migrateLock struct {
	log  *slog.Logger
	conn *sql.Conn // holds the lock
}

// lockName is an SQL expression for the lock's name. Locks belong to the whole server, so the name contains the database.
const lockName = "CONCAT('clockd.migrate.', MD5(DATABASE()))"

// SessionLock waits for the lock until ctx ends.
func (l *migrateLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for waited := false; ; waited = true {
		var got sql.NullBool
		err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT GET_LOCK(%s, %d)", lockName, migrateLockWait)).Scan(&got)
		switch {
		case err != nil:
			return fmt.Errorf("lock the schema: %w", err)
		case got.Bool:
			l.conn = conn
			return nil
		case !waited:
			l.log.Info("another process migrates the schema: waiting for it")
		}
	}
}

// SessionUnlock releases the lock. If that fails, the session ends soon, and the lock with it.
func (l *migrateLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "DO RELEASE_LOCK("+lockName+")")
	return nil
}

func (l *migrateLock) remaining(ctx context.Context, statement string) (string, error) {
	return schemaProbe{l.conn}.remaining(ctx, statement)
}

// openForMigration returns a pool for goose. goose reads times. It records versions on a second connection, beside the connection with the
// lock.
func (s *Store) openForMigration() (*sql.DB, error) {
	d, err := s.cfg.driver(s.log)
	if err != nil {
		return nil, err
	}
	d.ParseTime = true
	d.ReadTimeout, d.WriteTimeout = 0, 0 // a change of the schema may take long, whatever the URL says
	return open(d, 2, true, migrateSession)
}

// makeShards inserts the shards of a new database. Of two processes at once, one inserts the rows and the other finds them.
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
			args = make([]any, clock.DefaultShards)
		}
		for i := range args {
			args[i] = int64(i)
		}
		err = s.q.InsertShards(ctx, bulk{DBTX: t, part: shardTuple, rows: len(args), args: args}, 0)
		if hasNumber(err, errDuplicateKey) {
			return nil
		}
		return err
	})
}

// Check compares the schema's version with this build's. It also reads the shard count and the server's version.
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
		return fmt.Errorf("mysql: the configuration says %d shards, but the database was made with %d: the count cannot be changed",
			s.cfg.Shards, shards)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards, s.server = int(shards), server
	return nil
}

// readServer reads the server's version and limits (ReadServer). On MySQL it makes the pools close idle connections before the server does.
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
	migrations, err := store.ReadMigrations(Migrations())
	if err != nil {
		return err
	}
	want := migrations[len(migrations)-1].Version
	versions, err := database.NewStore(database.DialectMySQL, goose.DefaultTablename)
	if err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	has, err := versions.GetLatestVersion(ctx, s.upkeep)
	switch {
	case errors.Is(err, database.ErrVersionNotFound) || hasNumber(err, errNoSuchTable):
		has = 0
	case err != nil:
		return s.mapError("read the schema's version", err)
	}
	if err := store.CheckVersion(has, want); err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	oldest, err := s.q.ReadOldestBuild(ctx, s.upkeep)
	if err != nil {
		return s.mapError("read the build level", err)
	}
	if err := store.CheckBuild(oldest); err != nil {
		return fmt.Errorf("mysql: %w", err)
	}
	if has > want {
		s.log.Info("the schema is newer than this build, which may work beside newer ones", "version", has, "known", want)
	}
	return nil
}
