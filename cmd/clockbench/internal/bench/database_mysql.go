package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlDatabase is a database on a MariaDB or MySQL server.
type mysqlDatabase struct {
	url  string
	name string
	own  *sql.DB // connected to the database
}

func newMySQL(ctx context.Context, raw, name string) (database, error) {
	base, err := mysqlConfig(raw)
	if err != nil {
		return nil, err
	}
	server, err := sql.Open("mysql", base.FormatDSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	if _, err := server.ExecContext(ctx, "CREATE DATABASE `"+name+"` DEFAULT CHARACTER SET utf8mb4"); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	own := base.Clone()
	own.DBName = name
	db, err := sql.Open("mysql", own.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(bareConns)
	db.SetMaxIdleConns(bareConns)
	return &mysqlDatabase{url: withDatabase(raw, name), name: name, own: db}, nil
}

// mysqlConfig returns the driver's configuration from a URL. Parameters are put into the statement, as a fast program
// would do.
func mysqlConfig(raw string) (*mysql.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errors.New("the database URL must be mysql://user:password@host:port/database")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	d, err := mysql.ParseDSN("tcp(" + host + ")/" + strings.Trim(u.Path, "/") + "?" + u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the database URL's parameters: %w", err)
	}
	d.User = u.User.Username()
	d.Passwd, _ = u.User.Password()
	d.InterpolateParams = true
	d.Collation = "utf8mb4_bin"
	d.MaxAllowedPacket = 0 // ask the server
	return d, nil
}

// withDatabase returns the URL with another database.
func withDatabase(raw, name string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw // impossible: the URL was parsed before
	}
	u.Path = "/" + name
	return u.String()
}

func (d *mysqlDatabase) URL() string { return d.url }

func (d *mysqlDatabase) Engine(ctx context.Context) (version string, err error) {
	err = d.own.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	if strings.Contains(version, "MariaDB") {
		return version, err
	}
	return "MySQL " + version, err
}

func (d *mysqlDatabase) Time(ctx context.Context) (micros int64, err error) {
	err = d.own.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&micros)
	return micros, err
}

// Logged reads MariaDB's log sequence number, which counts bytes, or else MySQL's counter.
func (d *mysqlDatabase) Logged(ctx context.Context) (int64, error) {
	return d.status(ctx, "Innodb_lsn_current", "Innodb_os_log_written")
}

// Syncs reads the syncs of the log. If the server does not count them separately, it reads all syncs of InnoDB.
func (d *mysqlDatabase) Syncs(ctx context.Context) (int64, error) {
	return d.status(ctx, "Innodb_os_log_fsyncs", "Innodb_data_fsyncs")
}

// SyncsLate is 0: the server counts each sync at once.
func (d *mysqlDatabase) SyncsLate() time.Duration { return 0 }

// status returns the first existing counter among the names; -1 if the server has none of them.
func (d *mysqlDatabase) status(ctx context.Context, names ...string) (int64, error) {
	for _, name := range names {
		var value int64
		err := d.own.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value)
		if !errors.Is(err, sql.ErrNoRows) {
			return value, err
		}
	}
	return -1, nil
}

func (d *mysqlDatabase) Drop(ctx context.Context) error {
	_, err := d.own.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+d.name+"`")
	return errors.Join(err, d.own.Close())
}

func (d *mysqlDatabase) Bare(ctx context.Context) (bareTable, error) {
	for _, statement := range []string{"DROP TABLE IF EXISTS " + bareName, "CREATE TABLE " + bareName + " LIKE " + fullName} {
		if _, err := d.own.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make a bare table: %w", err)
		}
	}
	return &mysqlTable{db: d.own, name: bareName}, nil
}

func (d *mysqlDatabase) Full(context.Context) (bareTable, error) {
	return &mysqlTable{db: d.own, name: fullName}, nil
}

// Upkeep does nothing: the server only writes pages back, and does so continuously.
func (d *mysqlDatabase) Upkeep(context.Context) error { return nil }

// Process reads the process id from the server's pid file.
func (d *mysqlDatabase) Process(ctx context.Context) (int, error) {
	var path, directory string
	if err := d.own.QueryRowContext(ctx, "SELECT @@pid_file, @@datadir").Scan(&path, &directory); err != nil {
		return 0, fmt.Errorf("ask for the server's process: %w", err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(directory, path)
	}
	text, _ := os.ReadFile(path) //nolint:gosec // the server names the path; it does not exist here if the server runs elsewhere
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return localProcess(pid, "mariadbd", "mysqld"), nil
}

// mysqlTable is a bareTable on MariaDB or MySQL.
type mysqlTable struct {
	db   *sql.DB
	name string
}

// Close does nothing: the database owns the connections.
func (t *mysqlTable) Close() error { return nil }

const mysqlTuple = "('" + bareApplication + "',?,?,1,1,?,1,'" + contentType + "',?,NULL,?,'',0,10,0,'',?,?)"

func (t *mysqlTable) Insert(ctx context.Context, rows []bareRow) error {
	args := make([]any, 0, 7*len(rows))
	for i := range rows {
		r := &rows[i]
		args = append(args, r.businessID, r.shard, r.payload, r.at, r.at, r.now, r.now)
	}
	_, err := t.db.ExecContext(ctx,
		"INSERT INTO "+t.name+" ("+insertColumns+") VALUES "+placeholders(mysqlTuple, len(rows)), args...)
	return err
}

func (t *mysqlTable) Cancel(ctx context.Context, businessIDs []string, now int64) error {
	args := make([]any, 0, len(businessIDs)+2)
	args = append(args, now, now)
	for _, id := range businessIDs {
		args = append(args, id)
	}
	_, err := t.db.ExecContext(ctx,
		"UPDATE "+t.name+" SET state = 6, next_try_time = NULL, update_time = ?, finished_at = ? "+
			"WHERE application = '"+bareApplication+"' AND business_id IN ("+placeholders("?",
			len(businessIDs))+") AND state = 1", args...)
	return err
}

func (t *mysqlTable) IDs(ctx context.Context) ([]int64, error) {
	return queryIDs(ctx, t.db, "SELECT id FROM "+t.name+" ORDER BY next_try_time, id")
}

func (t *mysqlTable) Claim(
	ctx context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error,
) error {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	idList := placeholders("?", len(ids))
	args := make([]any, 0, len(ids)+5)
	args = append(args, claimID, now, now, now)
	for _, id := range ids {
		args = append(args, id)
	}
	args = append(args, now)
	if _, err := tx.ExecContext(ctx,
		"UPDATE "+t.name+" SET state = 3, next_try_time = NULL, ring_no = ring_no + 1, claim_id = ?, "+
			"rung_at = ?, update_time = ?, finished_at = ? WHERE id IN ("+idList+") AND state = 1 AND next_try_time <= ?", args...); err != nil {
		return err
	}
	rings, err := queryRings(ctx, tx, now, claimID,
		"SELECT "+ringColumns+" FROM "+t.name+" WHERE id IN ("+idList+") AND claim_id = ?",
		append(args[4:4+len(ids):4+len(ids)], claimID)...)
	if err != nil {
		return err
	}
	if err := do(rings); err != nil {
		return err
	}
	return tx.Commit()
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func queryIDs(ctx context.Context, q querier, query string) (ids []int64, err error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// queryRings runs a query that returns ringColumns.
func queryRings(
	ctx context.Context, q querier, now int64, claimID, query string, args ...any,
) (rings []bareRing, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	rings = make([]bareRing, 0, ringRows)
	for rows.Next() {
		r := bareRing{rungAt: now, claimID: claimID}
		if err := rows.Scan(&r.id, &r.businessID, &r.payload, &r.ringAt, &r.generation, &r.ringNo, &r.retryTimes); err != nil {
			return nil, err
		}
		rings = append(rings, r)
	}
	return rings, rows.Err()
}
