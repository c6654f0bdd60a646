package postgresql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// transactionLimit is the setting that ends the transaction of a stopped node. Its value also shows whether a session got its settings at
// all.
const transactionLimit = "idle_in_transaction_session_timeout"

// errPooler refuses a connection without its settings. Such a session guarantees neither plans that read indexes alone nor locks that end
// with their node.
var errPooler = errors.New("the session does not have the settings that it was opened with: a pooler (like PgBouncer with " +
	"ignore_startup_parameters) drops them. Connect to PostgreSQL itself; clockd pools its connections")

// setupLimit bounds each step that follows the dial of a new connection. The set-up goes on when the caller leaves.
const setupLimit = 8 * time.Second

// prepareOnConnect makes new connections run prepare, after they have checked their settings.
func prepareOnConnect(p *pgxpool.Config, prepare func(context.Context, *pgx.Conn) error) {
	check := p.AfterConnect
	p.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := check(ctx, conn); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, setupLimit)
		defer cancel()
		return prepare(ctx, conn)
	}
}

// checkSettings returns a check of a new connection. The check fails if a pooler between client and server drops the connection's settings.
func checkSettings(asked map[string]string) func(context.Context, *pgx.Conn) error {
	want, given := asked[transactionLimit]
	return func(ctx context.Context, conn *pgx.Conn) error {
		if !given || conn.Config().RuntimeParams[transactionLimit] != want { // the URL sets another value
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, setupLimit)
		defer cancel()
		var got string
		row := conn.QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = $1", pgx.QueryExecModeSimpleProtocol, transactionLimit)
		if err := row.Scan(&got); err != nil {
			return fmt.Errorf("read the session's settings: %w", err)
		}
		if got != want {
			return errPooler
		}
		return nil
	}
}
