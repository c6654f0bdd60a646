package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listenPing is how long a listening connection may be silent before it is pinged.
const listenPing = 5 * time.Second

// SendNotices sends the bodies in one statement, which is a transaction of its own (Notify). The server merges equal
// bodies.
func (d *Driver) SendNotices(ctx context.Context, bodies []string) error {
	return d.q.Notify(ctx, d.upkeep, bodies)
}

// ReceiveNotices receives notifications on a connection of its own, outside the pools (ReadChannel). It notices a dead
// connection within listenPing plus Config.Timeout.
func (d *Driver) ReceiveNotices(ctx context.Context, ready func(), heard func(body string)) error {
	pool, err := d.cfg.pool(1, listenSettings())
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
	if err := d.subscribe(ctx, conn); err != nil {
		return err
	}
	ready()
	for {
		n, err := d.nextNotification(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			heard(n.Payload)
		}
	}
}

func (d *Driver) subscribe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	channel, err := d.q.ReadChannel(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the channel: %w", err)
	}
	_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
	return err
}

// nextNotification waits for the next notification. It returns nil if none came within listenPing and the connection is
// alive.
func (d *Driver) nextNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	quiet, cancel := context.WithTimeout(ctx, listenPing)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil || conn.IsClosed() {
		return n, err
	}
	asked, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	return nil, conn.Ping(asked)
}
