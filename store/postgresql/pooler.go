package postgresql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errSharedSessions refuses a pooler that gives a connection another session for each transaction or statement.
// Settings, LISTEN, the lock of a migration and prepared statements stay with a session, so the next client of the
// session would have them.
var errSharedSessions = errors.New("the database URL leads to a pooler that shares sessions (transaction or statement pooling): " +
	"use session pooling or the server itself")

// Numbers of connections whose sessions are compared. Two connections, compared once, missed a shared session in 5 to
// 10 % of the attempts, measured beside 6 other clients of PgBouncer 1.18.
const (
	comparedConns = 4
	// comparedPooled is the number behind a pooler. Several processes of a pooler behind a balancer share a session
	// only if two of the connections reach the same process. A pooler for clockd allows more connections than this.
	comparedPooled = 24
)

// comparedRounds is how often the connections are compared, each time in another order. A pooler with
// server_round_robin gives connections that ask in the same order the same sessions again.
const comparedRounds = 3

// comparedTime bounds the comparison. The connections ask one after the other: 24 of them, at 300 ms a round trip, take
// half a minute.
const comparedTime = time.Minute

// The statements that identify a session: by its process on one server, and by the mark that its connection has set.
// The mark alone is not enough: a pooler may set it again in the connection's next session.
const (
	// sqlSession identifies the process. Servers behind a proxy may have processes with the same number.
	sqlSession  = "concat(pg_backend_pid(), ' since ', extract(epoch FROM pg_postmaster_start_time()))"
	sqlSetMark  = "SELECT " + sqlSession + ", set_config('clockd.session', $1, false)"
	sqlReadMark = "SELECT " + sqlSession + ", current_setting('clockd.session', true)"
)

// refuseSharedSessions returns errSharedSessions if connections of the URL share sessions. Once they did not, it looks
// no more: a start would look twice, before the migration and after it.
func (d *Driver) refuseSharedSessions(ctx context.Context) error {
	if d.sessionsApart.Load() {
		return nil
	}
	err := d.lookForSharedSessions(ctx)
	if err == nil {
		d.sessionsApart.Store(true)
	}
	return err
}

func (d *Driver) lookForSharedSessions(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, comparedTime)
	defer cancel()
	var conns []*pgconn.PgConn
	defer func() {
		ctx, cancel := cleanupContext(ctx)
		defer cancel()
		for _, c := range conns {
			_ = c.Close(ctx)
		}
	}()
	if conns, err = d.openBare(ctx, comparedConns); err != nil {
		return err
	}
	pooled, err := isPooled(ctx, conns[0])
	if err != nil {
		return err
	}
	if pooled {
		further, err := d.openBare(ctx, comparedPooled-comparedConns)
		if conns = append(conns, further...); err != nil {
			return fmt.Errorf("the database URL leads to a pooler: %w", err)
		}
	}
	if err := compareSessions(ctx, conns); err != nil {
		return err
	}
	return refuseStatementPooling(ctx, conns[0])
}

// openBare opens connections without settings, all at once. The caller closes them, also after an error.
func (d *Driver) openBare(ctx context.Context, count int) (conns []*pgconn.PgConn, err error) {
	pool, err := d.cfg.pool(1, map[string]string{applicationName: "clockd check"})
	if err != nil {
		return nil, err
	}
	opened, errs := make([]*pgconn.PgConn, count), make([]error, count)
	var opening sync.WaitGroup
	for i := range opened {
		opening.Go(func() { opened[i], errs[i] = pgconn.ConnectConfig(ctx, &pool.ConnConfig.Config) })
	}
	opening.Wait()
	for i, c := range opened {
		if c != nil {
			conns = append(conns, c)
		} else if err == nil { // the first one is enough: the errors mostly have one cause
			err = fmt.Errorf("open %d connections at once: %w", count, errs[i])
		}
	}
	return conns, err
}

// isPooled reports whether the process that the connection was told at its start is another one than the process that
// serves it. A pooler tells numbers of its own.
func isPooled(ctx context.Context, c *pgconn.PgConn) (bool, error) {
	result := c.ExecParams(ctx, "SELECT pg_backend_pid()::text", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return false, fmt.Errorf("identify the session: %w", result.Err)
	}
	return string(result.Rows[0][0]) != strconv.FormatUint(uint64(c.PID()), 10), nil
}

// compareSessions marks the session of each connection, and looks whether each connection keeps its session and its
// mark.
func compareSessions(ctx context.Context, conns []*pgconn.PgConn) error {
	sessions, marks := make([]string, len(conns)), make([]string, len(conns))
	seen := map[string]bool{}
	for i, c := range conns {
		var err error
		if sessions[i], marks[i], err = askSession(ctx, c, sqlSetMark, []byte(rand.Text())); err != nil {
			return err
		}
		if seen[sessions[i]] {
			return errSharedSessions
		}
		seen[sessions[i]] = true
	}
	order := make([]int, len(conns))
	for i := range order {
		order[i] = i
	}
	for range comparedRounds {
		for previous := slices.Clone(order); slices.Equal(order, previous); {
			mathrand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for _, i := range order {
			session, mark, err := askSession(ctx, conns[i], sqlReadMark)
			if err != nil {
				return err
			}
			if session != sessions[i] || mark != marks[i] {
				return errSharedSessions
			}
		}
	}
	return nil
}

// askSession runs a statement that returns a session and its mark.
func askSession(ctx context.Context, c *pgconn.PgConn, sql string, args ...[]byte) (session, mark string, err error) {
	result := c.ExecParams(ctx, sql, args, nil, nil, nil).Read()
	if result.Err != nil {
		return "", "", fmt.Errorf("identify the session: %w", result.Err)
	}
	return string(result.Rows[0][0]), string(result.Rows[0][1]), nil
}

// refuseStatementPooling returns errSharedSessions if a pooler refuses BEGIN, as PgBouncer does with statement pooling.
func refuseStatementPooling(ctx context.Context, c *pgconn.PgConn) error {
	for _, sql := range []string{sqlBegin, sqlRollback} {
		_, err := c.Exec(ctx, sql).ReadAll()
		if hasCode(err, codeProtocol) {
			return errSharedSessions
		}
		if err != nil {
			return fmt.Errorf("begin a transaction: %w", err)
		}
	}
	return nil
}
