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

// listenPing is how long a listening connection may be silent before it is pinged.
const listenPing = 5 * time.Second

// Notify sends the bodies in one statement, which is a transaction of its own (Notify). The server merges equal bodies.
func (s *Store) Notify(ctx context.Context, bodies []string) error {
	if len(bodies) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.mapError("notify", s.q.Notify(ctx, s.upkeep, bodies))
}

// Listen receives notifications on a connection of its own, outside the pools (ReadChannel). It notices a dead connection within listenPing
// plus Config.Timeout.
func (s *Store) Listen(ctx context.Context, ready func(), heard func(body string)) error {
	err := s.listen(ctx, ready, heard)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is the normal end
	}
	return s.mapError("listen", err)
}

func (s *Store) listen(ctx context.Context, ready func(), heard func(body string)) error {
	pool, err := s.cfg.pool(1, listenSettings())
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, pool.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := cleanupContext(ctx)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := s.subscribe(ctx, conn); err != nil {
		return err
	}
	ready()
	for {
		n, err := s.nextNotification(ctx, conn)
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

// nextNotification waits for the next notification. It returns nil if none came within listenPing and the connection is alive.
func (s *Store) nextNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
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
