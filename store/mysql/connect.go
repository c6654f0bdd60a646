package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// What a connection begins with. The server's default, REPEATABLE READ, would lock gaps and deadlock. Locks are waited for one second, the least that MySQL knows, where a
// statement says nothing else; what does not fit a column is an error. A transaction whose client is stuck or gone
// ends after 5 s on MariaDB; MySQL has no such limit, so there a connection that is silent for 8 s is ended (and ours are not
// kept idle that long). MariaDB would turn lists of 1,000 values and more into joins; here they are ranges.
const (
	isolateSession = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	prepareSession = `SET SESSION innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_TRANS_TABLES', autocommit = 1
/*M!100300 , idle_transaction_timeout = 5, in_predicate_conversion_threshold = 0 */
/*!80000 , wait_timeout = 8 */`
)

// maxIdle is shorter than the wait_timeout above.
const maxIdle = 5 * time.Second

// connector makes connections whose session is prepared. The driver's own timeout ends with the dial: a server that
// takes the connection and does not answer would be waited for without end.
type connector struct {
	driver.Connector
	timeout time.Duration
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
	for _, statement := range []string{isolateSession, prepareSession} {
		if _, err = session.ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("prepare the session: %w", err)
		}
	}
	return conn, nil
}

// open returns a pool of at most size connections, all of which are kept.
func open(d *mysql.Config, size int) (*sql.DB, error) {
	c, err := mysql.NewConnector(d)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	db := sql.OpenDB(connector{Connector: c, timeout: d.Timeout})
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}
