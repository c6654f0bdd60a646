package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/store"
)

// What a connection begins with. The server's default, REPEATABLE READ, would lock gaps and deadlock. Locks are waited for one second, the least that MySQL knows, where a
// statement says nothing else; what does not fit a column is an error. A transaction whose client is stuck or gone
// ends after 5 s on MariaDB; MySQL has no such limit, so there a connection that is silent for 8 s is ended (and ours are not
// kept idle that long). A client that stops reading is given up after 5 s. MariaDB would turn lists of 1,000 values and more into joins; here they are ranges.
const (
	isolateSession = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	prepareSession = `SET SESSION innodb_lock_wait_timeout = 1, net_write_timeout = 5, sql_mode = 'STRICT_TRANS_TABLES', autocommit = %d
/*M!100300 , idle_transaction_timeout = 5, in_predicate_conversion_threshold = 0 */
/*!80000 , wait_timeout = 8 */`
)

// maxIdle is shorter than the wait_timeout above.
const maxIdle = 5 * time.Second

// connector makes connections whose session is prepared. The driver's own timeout ends with the dial: a server that
// takes the connection and does not answer would be waited for without end.
type connector struct {
	driver.Connector
	timeout    time.Duration
	autocommit bool
}

// Connect dials and prepares the session.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection cannot execute"), conn.Close())
	}
	for _, statement := range []string{isolateSession, fmt.Sprintf(prepareSession, bit(c.autocommit))} {
		if _, err = session.ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("prepare the session: %w", err)
		}
	}
	if err := writable(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// readOnlyVariables tell a replica, also to a user whom they do not bind; which of them exist depends on the server.
const readOnlyVariables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only')"

// writable refuses a server that takes no writes.
func writable(ctx context.Context, conn driver.Conn) error {
	session, ok := conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver's connection cannot query")
	}
	rows, err := session.QueryContext(ctx, readOnlyVariables, nil)
	if err != nil {
		return fmt.Errorf("look whether the server is read-only: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for row := make([]driver.Value, 2); ; {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("look whether the server is read-only: %w", err)
		case !slices.Contains([]string{"OFF", "0"}, fmt.Sprintf("%s", row[1])):
			return fmt.Errorf("%w: %s is %s", store.ErrReadOnly, row[0], row[1])
		}
	}
}

// open returns a pool of at most size connections, all of which are kept. Without autocommit every statement is in a
// transaction, which the first one begins.
func open(d *mysql.Config, size int, autocommit bool) (*sql.DB, error) {
	c, err := mysql.NewConnector(d)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	db := sql.OpenDB(connector{Connector: c, timeout: d.Timeout, autocommit: autocommit})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}
