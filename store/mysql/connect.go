package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// The first statements of every connection, in this order. prepare sends further statements after them.
//
// The server's default isolation, REPEATABLE READ, would lock gaps and deadlock. Statements wait one second for a lock
// unless they say otherwise; that is MySQL's shortest wait. A value that does not fit its column is an error.
//
// A transaction whose client is stuck or gone ends after clock.IdleInTransaction on MariaDB. MySQL has no such limit,
// so there the server ends a connection that is silent for 8 s, and the pools keep idle connections for a shorter time.
// The server gives up a client that does not read for clock.IdleInTransaction.
//
// TiDB runs the comment for MySQL, and its own. There optimistic transactions would take no locks, and a key that
// exists would be noticed only by the COMMIT.
//
// MariaDB would turn lists of 1,000 values and more into joins; in_predicate_conversion_threshold = 0 keeps them
// ranges.
const (
	isolateSession = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	prepareSession = `SET SESSION timestamp = DEFAULT, innodb_lock_wait_timeout = 1, net_write_timeout = %[2]d, sql_mode = 'STRICT_TRANS_TABLES', autocommit = %[1]d
/*M!100300 , idle_transaction_timeout = %[2]d, in_predicate_conversion_threshold = 0 */
/*M!110602 , innodb_snapshot_isolation = OFF */
/*!80000 , wait_timeout = 8 */
/*T! , tidb_idle_transaction_timeout = %[2]d, tidb_txn_mode = 'pessimistic', tidb_constraint_check_in_place_pessimistic = ON */`
)

// maxIdle is how long a pool keeps an idle connection to MySQL. It is shorter than the wait_timeout above.
const maxIdle = 5 * time.Second

// connector makes connections with a prepared session. The driver's own timeout covers only the dial. The context must
// end, because a server that accepts the connection but never responds would block forever (see dialer).
type connector struct {
	driver.Connector
	autocommit bool
	session    []string // further statements that prepare the session
}

// sessionConn is a connection that runs statements without preparing them.
type sessionConn interface {
	driver.ExecerContext
	driver.QueryerContext
}

// Connect dials and prepares the session.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session, ok := conn.(sessionConn)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection cannot execute and query"), conn.Close())
	}
	if err := c.prepare(ctx, session); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// prepare sets the session and reads its variables. On a Galera server it waits for the commits of the other servers
// (catchUp). It returns engine.ErrReadOnly if the server refuses writes.
func (c connector) prepare(ctx context.Context, session sessionConn) error {
	prepare := fmt.Sprintf(prepareSession, engine.Bit(c.autocommit), int(clock.IdleInTransaction.Seconds()))
	for _, statement := range append([]string{isolateSession, prepare}, c.session...) {
		if _, err := session.ExecContext(ctx, statement, nil); err != nil {
			return fmt.Errorf("prepare the session: %w", err)
		}
	}
	variables, err := readVariables(ctx, session)
	if err != nil {
		return fmt.Errorf("read the session's variables: %w", err)
	}
	if isOn(variables[snapshotIsolation]) {
		if _, err := session.ExecContext(ctx, "SET SESSION "+snapshotIsolation+" = OFF", nil); err != nil {
			return fmt.Errorf("prepare the session: %w", err)
		}
	}
	if isOn(variables[galera]) {
		if err := catchUp(ctx, session); err != nil {
			return fmt.Errorf("wait until the Galera server has applied the commits of the other servers: %w", err)
		}
	}
	return writable(variables)
}

// snapshotIsolation is a variable of MariaDB. A locking read, also with SKIP LOCKED, would fail at a row that has
// changed since the statement began. An UPDATE that reads a whole table, as RenewLeases and YieldAllShards do, would
// wait for locked rows that do not match.
//
// From 11.6.2 the variable is on by default, and prepareSession turns it off. Before, 10.6.18, 10.11.8, 11.4.2 and
// later releases of their series have it, off by default. No version comment fits these. If such a server has it on,
// another statement turns it off.
const snapshotIsolation = "innodb_snapshot_isolation"

// replicaVariables are the variables that a replica sets. They also show a replica to users who may write there.
var replicaVariables = []string{"read_only", "super_read_only", "innodb_read_only"}

// readVariables reads snapshotIsolation, galera and replicaVariables. The result has only the variables that exist on
// the server.
func readVariables(ctx context.Context, session driver.QueryerContext) (map[string]string, error) {
	names := strings.Join(append([]string{snapshotIsolation, galera}, replicaVariables...), "', '")
	rows, err := session.QueryContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('"+names+"')", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	variables := make(map[string]string)
	for row := make([]driver.Value, 2); ; {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return variables, nil
		case err != nil:
			return nil, err
		}
		variables[asText(row[0])] = asText(row[1])
	}
}

// writable returns engine.ErrReadOnly if the variables are of a server that refuses writes.
func writable(variables map[string]string) error {
	for _, name := range replicaVariables {
		if value, has := variables[name]; has && !slices.Contains([]string{"OFF", "0"}, value) {
			return fmt.Errorf("%w: %s is %s", engine.ErrReadOnly, name, value)
		}
	}
	return nil
}

// open returns a pool that keeps up to size connections. Without autocommit every statement runs in a transaction,
// which the first statement begins. Each connection first runs the statements of session.
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
