package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// sqliteDatabase is a SQLite file in a directory of its own.
type sqliteDatabase struct{ directory string }

// newSQLite makes the directory beside the file of the URL, so that the bench measures the same disk.
func newSQLite(raw, name string) (database, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(raw, "sqlite:"), "//")
	if path == "" {
		return nil, errors.New("the database URL names no file: sqlite:FILE")
	}
	directory, err := filepath.Abs(filepath.Join(filepath.Dir(path), name))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the database: %w", err)
	}
	return &sqliteDatabase{directory: directory}, nil
}

func (d *sqliteDatabase) file() string { return filepath.Join(d.directory, "clockd.db") }

func (d *sqliteDatabase) URL() string { return "sqlite:" + d.file() }

func (d *sqliteDatabase) Engine(ctx context.Context) (version string, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	return "SQLite " + version, err
}

// Time returns the clock of this machine, because a file has no clock.
func (d *sqliteDatabase) Time(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

// Logged is -1: the WAL is overwritten from the beginning again and again. The bench counts the disk writes of the
// nodes instead.
func (d *sqliteDatabase) Logged(context.Context) (int64, error) { return -1, nil }

// Syncs is -1: SQLite does not count them.
func (d *sqliteDatabase) Syncs(context.Context) (int64, error) { return -1, nil }

// SyncsLate is 0: Syncs counts nothing.
func (d *sqliteDatabase) SyncsLate() time.Duration { return 0 }

func (d *sqliteDatabase) Drop(context.Context) error { return os.RemoveAll(d.directory) }

// Bare makes the table in another file, because a file has one writer, and clockd is the writer of its own file.
func (d *sqliteDatabase) Bare(ctx context.Context) (bareTable, error) {
	definition, err := d.definition(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the table's definition: %w", err)
	}
	path := filepath.Join(d.directory, "bare.db")
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	t, err := openSQLite(path)
	if err != nil {
		return nil, err
	}
	for _, statement := range definition {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("make a bare table: %w", err), t.Close())
		}
	}
	return t, nil
}

func (d *sqliteDatabase) Full(context.Context) (bareTable, error) { return openSQLite(d.file()) }

// openSQLite opens a file for fast and durable writes.
func openSQLite(path string) (*sqliteTable, error) {
	db, err := sql.Open("sqlite",
		"file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &sqliteTable{db: db}, nil
}

// Upkeep does nothing.
func (d *sqliteDatabase) Upkeep(context.Context) error { return nil }

// Process returns 0: SQLite runs in clockd's process.
func (d *sqliteDatabase) Process(context.Context) (int, error) { return 0, nil }

// definition returns the statements that create clockd's table and its indexes.
func (d *sqliteDatabase) definition(ctx context.Context) (statements []string, err error) {
	db, err := sql.Open("sqlite", "file:"+d.file()+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx,
		"SELECT sql FROM sqlite_master WHERE tbl_name = 'alarm' AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			return nil, err
		}
		statements = append(statements, statement)
	}
	return statements, rows.Err()
}

// sqliteTable is a bareTable on SQLite. It has the name of clockd's table, in clockd's file or in another file.
type sqliteTable struct{ db *sql.DB }

func (t *sqliteTable) Close() error { return t.db.Close() }

const sqliteTuple = "('" + bareApplication + "',?,?,1,1,?,1,'" + contentType + "',?,NULL,?,'',0,10,0,'',?,?)"

func (t *sqliteTable) Insert(ctx context.Context, rows []bareRow) error {
	args := make([]any, 0, 7*len(rows))
	for i := range rows {
		r := &rows[i]
		args = append(args, r.businessID, r.shard, r.payload, r.at, r.at, r.now, r.now)
	}
	_, err := t.db.ExecContext(ctx,
		"INSERT INTO "+fullName+" ("+insertColumns+") VALUES "+placeholders(sqliteTuple, len(rows)), args...)
	return err
}

func (t *sqliteTable) Cancel(ctx context.Context, businessIDs []string, now int64) error {
	_, err := t.db.ExecContext(ctx,
		"UPDATE "+fullName+" SET state = 6, next_try_time = NULL, update_time = ?, finished_at = ? "+
			"WHERE application = '"+bareApplication+"' AND business_id IN (SELECT value FROM json_each(?)) AND state = 1",
		now, now, jsonOf(businessIDs))
	return err
}

func (t *sqliteTable) IDs(ctx context.Context) ([]int64, error) {
	return queryIDs(ctx, t.db, "SELECT id FROM "+fullName+" ORDER BY next_try_time, id")
}

func (t *sqliteTable) Claim(
	ctx context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error,
) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rings, err := queryRings(ctx, tx, now, claimID,
		"UPDATE "+fullName+" SET state = 3, next_try_time = NULL, ring_no = ring_no + 1, claim_id = ?, "+
			"rung_at = ?, update_time = ?, finished_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND state = 1 AND next_try_time <= ? "+
			"RETURNING "+ringColumns, claimID, now, now, now, jsonOf(ids), now)
	if err != nil {
		return err
	}
	if err := do(rings); err != nil {
		return err
	}
	return tx.Commit()
}

// jsonOf returns a list as a JSON array for json_each.
func jsonOf[T int64 | string](list []T) string {
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // impossible for numbers and texts
	}
	return string(b)
}
