package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/store"
)

var _ store.Notifier = (*Store)(nil)

// listenPing is how long a connection that listens may be silent before it is asked whether it is still there.
const listenPing = 5 * time.Second

// Notify sends the bodies in one statement of its own (Notify). The server passes on one of two that are the same.
func (s *Store) Notify(ctx context.Context, bodies []string) error {
	if len(bodies) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.mapError("notify", s.q.Notify(ctx, s.upkeep, bodies))
}

// Listen hears on a connection of its own, outside the pools (ReadChannel). One that is dead is found within listenPing and
// the timeout of a call.
func (s *Store) Listen(ctx context.Context, ready func(), heard func(body string)) error {
	err := s.listen(ctx, ready, heard)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how it ends
	}
	return s.mapError("listen", err)
}

func (s *Store) listen(ctx context.Context, ready func(), heard func(body string)) error {
	pool, err := s.cfg.pool(1, listenSession())
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, pool.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := aftermath(ctx)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := s.subscribe(ctx, conn); err != nil {
		return err
	}
	ready()
	for {
		n, err := s.hear(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			heard(n.Payload)
		}
	}
}

func (s *Store) subscribe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	channel, err := s.q.ReadChannel(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the channel: %w", err)
	}
	_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	return err
}

// hear returns what comes next, nil when nothing came for listenPing and the connection is alive.
func (s *Store) hear(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	quiet, cancel := context.WithTimeout(ctx, listenPing)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil || conn.IsClosed() {
		return n, err
	}
	asked, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return nil, conn.Ping(asked)
}
