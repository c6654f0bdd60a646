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

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// The statements that every connection begins with.
//
// The server's default isolation, REPEATABLE READ, would lock gaps and deadlock. Statements wait one second for a lock unless they say
// otherwise; that is MySQL's shortest wait. A value that does not fit its column is an error.
//
// A transaction whose client is stuck or gone ends after clock.IdleInTransaction on MariaDB. MySQL has no such limit, so there the server
// ends a connection that is silent for 8 s, and the pools keep idle connections for a shorter time. The server gives up a client that does
// not read for clock.IdleInTransaction.
//
// MariaDB would turn lists of 1,000 values and more into joins; in_predicate_conversion_threshold = 0 keeps them ranges.
const (
	isolateSession = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	prepareSession = `SET SESSION timestamp = DEFAULT, innodb_lock_wait_timeout = 1, net_write_timeout = %[2]d, sql_mode = 'STRICT_TRANS_TABLES', autocommit = %[1]d
/*M!100300 , idle_transaction_timeout = %[2]d, in_predicate_conversion_threshold = 0 */
/*!80000 , wait_timeout = 8 */`
)

// maxIdle is how long a pool keeps an idle connection to MySQL. It is shorter than the wait_timeout above.
const maxIdle = 5 * time.Second

// connector makes connections with a prepared session. The driver's own timeout covers only the dial. The context must end, because a server
// that accepts the connection but never responds would block forever (see dialer).
type connector struct {
	driver.Connector
	autocommit bool
	session    []string // further statements that prepare the session
}

// Connect dials and prepares the session.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection cannot execute"), conn.Close())
	}
	prepare := fmt.Sprintf(prepareSession, engine.Bit(c.autocommit), int(clock.IdleInTransaction.Seconds()))
	for _, statement := range append([]string{isolateSession, prepare}, c.session...) {
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

// readOnlyVariables reads the variables that a replica sets. They also show a replica to users who may write there. The server decides
// which of the variables exist.
const readOnlyVariables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only')"

// writable returns engine.ErrReadOnly if the server refuses writes.
func writable(ctx context.Context, conn driver.Conn) error {
	session, ok := conn.(driver.QueryerContext)
	if !ok {
		return errors.New("the driver's connection cannot query")
	}
	rows, err := session.QueryContext(ctx, readOnlyVariables, nil)
	if err != nil {
		return fmt.Errorf("check whether the server is read-only: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for row := make([]driver.Value, 2); ; {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("check whether the server is read-only: %w", err)
		case !slices.Contains([]string{"OFF", "0"}, fmt.Sprintf("%s", row[1])):
			return fmt.Errorf("%w: %s is %s", engine.ErrReadOnly, row[0], row[1])
		}
	}
}

// open returns a pool that keeps up to size connections. Without autocommit every statement runs in a transaction, which the first statement
// begins. Each connection first runs the statements of session.
func open(d *mysql.Config, size int, autocommit bool, session ...string) (*sql.DB, error) {
	c, err := mysql.NewConnector(d)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return openPool(connector{Connector: c, autocommit: autocommit, session: session}, size, d.Timeout), nil
}

// openPool returns a pool of up to size connections of the connector. patience is the limit of a dial.
func openPool(c driver.Connector, size int, patience time.Duration) *sql.DB {
	db := sql.OpenDB(newDialer(c, size, patience))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db
}
