package postgresql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/store/engine"
)

// Settings with a meaning of their own.
const (
	// applicationName is the setting that travels in the startup message, where the server's log also has it. PgBouncer
	// passes it on.
	applicationName = "application_name"
	// idleInTransactionTimeout is the setting that ends the transaction of a stopped node. Its value also shows whether
	// a session has its settings at all.
	idleInTransactionTimeout = "idle_in_transaction_session_timeout"
)

// errSettings refuses a connection whose session does not have its settings. Without them, plans may read whole tables,
// and the locks of a stopped node may stay.
var errSettings = errors.New("the session does not keep its settings: a pooler or a proxy drops them. Use a pooler with session pooling, " +
	"or PostgreSQL itself")

// setupLimit bounds what prepareOnConnect runs on a new connection. Config.DialTimeout bounds the connect before it,
// with the settings of the session. Both go on when the caller leaves.
const setupLimit = 8 * time.Second

// sessionSetup sets and checks the settings of a new connection's session. Startup parameters would save the statement,
// but PgBouncer refuses a connection with a startup parameter that it does not know.
type sessionSetup struct {
	set       string   // statement that sets the settings; "" without settings
	args      [][]byte // names and values of the settings, as set has them
	idleTime  string   // value of idleInTransactionTimeout, which the check compares; "": no check
	mustWrite bool     // the server must take writes
}

// prepareSession makes new connections of the configuration set and check the settings. A value in the URL wins. If a
// check fails and the URL has several hosts, pgx tries the next host.
func prepareSession(c *pgconn.Config, settings map[string]string) {
	s := newSessionSetup(c.RuntimeParams, settings)
	attributes := c.ValidateConnect // checks target_session_attrs; nil if the URL does not have it
	s.mustWrite = attributes == nil
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if attributes != nil {
			if err := attributes(ctx, conn); err != nil {
				return err
			}
		}
		return s.prepare(ctx, conn)
	}
}

// newSessionSetup returns the set-up for the settings. It removes clockd's settings from the startup parameters, where
// the URL has put them, and uses their values. applicationName stays a startup parameter.
func newSessionSetup(startup, settings map[string]string) *sessionSetup {
	s := &sessionSetup{idleTime: settings[idleInTransactionTimeout]}
	settings = maps.Clone(settings)
	for name := range ringSettings() { // it has each setting that clockd knows
		if value, given := startup[name]; given {
			settings[name] = value
		}
	}
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value, given := startup[name]
		if !given {
			value = settings[name]
		}
		if name == applicationName {
			startup[name] = value
			continue
		}
		delete(startup, name)
		if name == idleInTransactionTimeout && given {
			s.idleTime = "" // the URL's value may have another unit than the server's answer
		}
		s.args = append(s.args, []byte(name), []byte(value))
		calls = append(calls, fmt.Sprintf("set_config($%d, $%d, false)", len(s.args)-1, len(s.args)))
	}
	if len(calls) > 0 {
		s.set = "SELECT " + strings.Join(calls, ", ")
	}
	return s
}

// readSession reads the settings that prepare checks. It is a transaction of its own: a pooler may keep settings for
// one transaction only.
const readSession = "SELECT current_setting('transaction_read_only'), (SELECT setting FROM pg_settings WHERE name = '" + idleInTransactionTimeout + "')"

// prepare sets and checks the settings in one round trip. It returns engine.ErrReadOnly if the server refuses writes: a
// standby, or a server with read-only transactions by default.
func (s *sessionSetup) prepare(ctx context.Context, conn *pgconn.PgConn) error {
	p := conn.StartPipeline(ctx)
	if s.set != "" {
		p.SendQueryParams(s.set, s.args, nil, nil, nil)
		p.SendPipelineSync()
	}
	p.SendQueryParams(readSession, nil, nil, nil, nil)
	row, err := lastRow(p)
	switch {
	case err != nil:
		return fmt.Errorf("prepare the session: %w", err)
	case s.mustWrite && string(row[0]) == "on":
		return engine.ErrReadOnly
	case s.idleTime != "" && string(row[1]) != s.idleTime:
		return errSettings
	}
	return nil
}

// lastRow sends the pipeline, ends it, and returns the only row of its last statement.
func lastRow(p *pgconn.Pipeline) (row [][]byte, err error) {
	err = p.Sync()
	for err == nil {
		var results any
		if results, err = p.GetResults(); err != nil || results == nil {
			break
		}
		if reader, is := results.(*pgconn.ResultReader); is {
			result := reader.Read()
			if err = result.Err; err == nil && len(result.Rows) == 1 {
				row = result.Rows[0]
			}
		}
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err == nil && row == nil {
		err = errors.New("the server returns no settings")
	}
	return row, err
}

// prepareOnConnect makes new connections run prepare, after they have checked their settings.
func prepareOnConnect(p *pgxpool.Config, prepare func(context.Context, *pgx.Conn) error) {
	p.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, setupLimit)
		defer cancel()
		return prepare(ctx, conn)
	}
}
