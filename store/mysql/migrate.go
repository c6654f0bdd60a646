package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/clockd/clockd/schema"
	"github.com/clockd/clockd/store/engine"
)

// migrateLockWait is how long one wait for the migration lock lasts, in seconds. Between two waits the migration checks
// ctx.
const migrateLockWait = 1

// migrateSession prepares a migrating session after prepareSession: changes of the schema may take long.
// schemaProbe reads quoted names.
const migrateSession = "SET SESSION innodb_lock_wait_timeout = 60, wait_timeout = 28800, net_write_timeout = 60, sql_quote_show_create = 1"

// Migrations returns the migration files of this engine, in the root directory.
func Migrations() fs.FS {
	sub, err := fs.Sub(schema.MySQL, "mysql")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Migrations returns the migration files of this engine.
func (d *Driver) Migrations() fs.FS { return Migrations() }

// OpenMigration returns a session in which each statement commits by itself. A killed migration continues at the next
// start: schemaProbe finds the statements that are still to run. goose reads times. It records versions on a second
// connection, beside the connection with the lock.
func (d *Driver) OpenMigration(context.Context) (*engine.MigrationSession, error) {
	c, err := d.cfg.driver(d.log)
	if err != nil {
		return nil, err
	}
	c.ParseTime = true
	c.ReadTimeout, c.WriteTimeout = 0, 0 // a change of the schema may take long, whatever the URL says
	db, err := open(c, 2, true, migrateSession)
	if err != nil {
		return nil, err
	}
	session := &migrateLock{log: d.log}
	return &engine.MigrationSession{
		Dialect: goose.DialectMySQL, DB: db, Lock: session, Conn: func() engine.Execer { return session.conn },
		Remainder: session.remaining,
	}, nil
}

// makeVersions makes the table of versions of goose, with its first row. goose itself would make both in two
// steps, and refuse a table without the row for ever if the second step fails. Call it with the migration lock.
func makeVersions(ctx context.Context, conn *sql.Conn) error {
	insert := "INSERT INTO " + goose.DefaultTablename + " (version_id, is_applied) SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " + goose.DefaultTablename + ")"
	_, err := conn.ExecContext(ctx, insert)
	if !hasNumber(err, errNoSuchTable) {
		return err
	}
	versions, err := database.NewStore(goose.DialectMySQL, goose.DefaultTablename)
	if err != nil {
		return err
	}
	if err := versions.CreateVersionTable(ctx, conn); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, insert)
	return err
}

// migrateLock lets one process at a time migrate a database. The lock belongs to the session that also runs the
// migration's statements. If the process dies, the server releases the lock after its last statement has ended, and
// never before.
type migrateLock struct {
	log  *slog.Logger
	conn *sql.Conn // holds the lock
}

// lockName is an SQL expression for the lock's name. Locks belong to the whole server, so the name contains the
// database. It has 47 bytes, and may have 64. MySQL 9.7 has no function MD5.
const lockName = "CONCAT('clockd.migrate.', LEFT(SHA2(DATABASE(), 256), 32))"

// SessionLock waits for the lock until ctx ends, and makes the table of versions.
func (l *migrateLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for waited := false; ; waited = true {
		var got sql.NullBool
		err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT GET_LOCK(%s, %d)", lockName, migrateLockWait)).Scan(&got)
		switch {
		case err != nil:
			return fmt.Errorf("lock the schema: %w", err)
		case got.Bool:
			l.conn = conn
			if err := makeVersions(ctx, conn); err != nil {
				return fmt.Errorf("make the table of versions: %w", err)
			}
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

// MakeShards inserts the shards of a new database. Of two processes at once, one inserts the rows and the other finds
// them.
func (d *Driver) MakeShards(ctx context.Context, count int) error {
	return d.inTx(ctx, d.upkeep, func(t *tx) error {
		existing, err := d.q.CountShards(ctx, t)
		if err != nil || existing > 0 {
			return err
		}
		args := make([]any, count)
		for i := range args {
			args[i] = int64(i)
		}
		err = d.q.InsertShards(ctx, bulk{DBTX: t, rows: count, args: args}, 0)
		if hasNumber(err, errDuplicateKey) {
			return nil
		}
		return err
	})
}

// Identify reads the server's version and limits (ReadServer). On MySQL and TiDB it makes the pools close idle
// connections before the server does.
func (d *Driver) Identify(ctx context.Context) (engine.Server, error) {
	row, err := d.q.ReadServer(ctx, d.upkeep)
	if err != nil {
		return engine.Server{}, err
	}
	v := parseServer(row.Version)
	v.maxPacket, v.idStep = int(row.MaxPacket), row.IDStep
	if !v.maria {
		for _, p := range d.pools() {
			p.SetConnMaxIdleTime(maxIdle)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = v
	return engine.Server{Name: v.String(), Unfit: v.check(), CommitsClaims: v.tidb}, nil
}

// ReadSchemaVersion reads the version of the newest applied migration.
func (d *Driver) ReadSchemaVersion(ctx context.Context) (int64, error) {
	return engine.SchemaVersion(ctx, goose.DialectMySQL, d.upkeep,
		func(err error) bool { return hasNumber(err, errNoSuchTable) })
}

// ReadOldestBuild reads the oldest build level that may work on the database (ReadOldestBuild).
func (d *Driver) ReadOldestBuild(ctx context.Context) (int64, error) {
	return d.q.ReadOldestBuild(ctx, d.upkeep)
}

// CountShards counts the shards (CountShards).
func (d *Driver) CountShards(ctx context.Context) (int64, error) {
	return d.q.CountShards(ctx, d.upkeep)
}
