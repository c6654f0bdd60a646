package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/store/engine"
)

// killTimeout bounds the attempt to end a statement at the server. If the attempt fails, the statement ends at
// engine.ReadLimit.
const killTimeout = 5 * time.Second

// limitSession makes the server end each statement of the session at a limit. MariaDB counts in seconds. MySQL counts
// in milliseconds, and limits only SELECT.
const limitSession = `SET SESSION net_write_timeout = 5 /*M!100101 , max_statement_time = %d */ /*!50708 , max_execution_time = %d000 */`

// openReads returns a pool for requests that read. The driver closes a connection whose context ended, but the server
// continues the statement until it writes the next row. So the pool asks the server to end the statement, through the
// pool kills.
func openReads(d *mysql.Config, size int, kills *sql.DB) (*sql.DB, error) {
	c, err := mysql.NewConnector(d)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return openPool(readConnector{connector: connector{Connector: c, autocommit: true}, kills: kills}, size, d.Timeout), nil
}

// readConnector makes connections that know their connection id at the server.
type readConnector struct {
	connector
	kills *sql.DB
}

// Connect connects as connector does, and bounds the statements of the session.
func (c readConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection lacks a method"), conn.Close())
	}
	r := &readConn{fullConn: full, kills: c.kills}
	if err := r.prepare(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("prepare the session of reads: %w", err)
	}
	return r, nil
}

// fullConn is the set of interfaces that database/sql uses of the driver's connection.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// readConn is a connection that ends its running statement at the server when it is closed.
type readConn struct {
	fullConn
	kills  *sql.DB
	number int64 // CONNECTION_ID()
}

func (r *readConn) prepare(ctx context.Context) error {
	seconds := int(engine.ReadLimit.Seconds())
	if _, err := r.ExecContext(ctx, fmt.Sprintf(limitSession, seconds, seconds), nil); err != nil {
		return err
	}
	rows, err := r.QueryContext(ctx, "SELECT CONNECTION_ID()", nil)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err != nil {
		return err
	}
	_, err = fmt.Sscan(asText(row[0]), &r.number)
	return err
}

// asText returns a number from the driver as text.
func asText(v driver.Value) string {
	if b, is := v.([]byte); is {
		return string(b)
	}
	return fmt.Sprint(v)
}

// Close closes the connection. An invalid connection was cut off, maybe in the middle of a statement, so Close ends
// that statement at the server. database/sql calls Close in the goroutine of the read, so the read keeps its place
// until the statement has ended.
func (r *readConn) Close() error {
	cut := !r.IsValid()
	err := r.fullConn.Close()
	if cut {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		_, _ = r.kills.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", r.number)) // an error means that the connection is already gone
	}
	return err
}
