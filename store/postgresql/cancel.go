package postgresql

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/store/engine"
)

// How long a read waits for its cancellation.
const (
	// cancelGrace is how long a read waits for the server to end its statement, after the context and its deadline have
	// ended. It is also how long an ended read waits for the reply to its cancel request.
	cancelGrace = 2 * time.Second
	// cancelArrival is how long after the reply the server may still interrupt a statement. The reply comes when the
	// signal has been sent.
	cancelArrival = 100 * time.Millisecond
)

// cancelAtServer makes connections cancel a statement at the server when its context ends. The connection is then kept:
// reads are cancelled often, and a new connection costs the server a process.
func cancelAtServer(p *pgxpool.Config) {
	p.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &readCanceller{conn: conn}
	}
}

// readCanceller cancels the statement of a read at the server. A server that is short of processor time responds late,
// and runs the statement until then. So the read keeps its connection, and with it its place among the reads, until the
// server responds. The connection is closed when the server has ended the statement by itself, at engine.ReadLimit.
//
// The handler of pgconn closes the connection of its cancel request as soon as the statement has ended. PgBouncer 1.18
// exits if it has not passed the request on by then. So this handler waits for the reply.
type readCanceller struct {
	conn    *pgconn.PgConn
	abandon context.CancelFunc // gives the cancel request up
	served  chan bool          // receives whether the server has taken the cancel request, when it can interrupt no later statement
}

// HandleCancel is called when the context of a read has ended. It bounds the wait for the server: until cancelGrace
// after now or after the deadline of that context, whichever is later, and never longer than engine.ReadLimit. Without
// a deadline the bound is engine.ReadLimit.
func (r *readCanceller) HandleCancel(ctx context.Context) {
	limit := engine.ReadLimit
	if end, given := ctx.Deadline(); given {
		limit = min(limit, max(0, time.Until(end))+cancelGrace)
	}
	deadline := time.Now().Add(limit)
	_ = r.conn.Conn().SetDeadline(deadline)
	ctx, r.abandon = context.WithDeadline(context.WithoutCancel(ctx), deadline)
	r.served = make(chan bool, 1)
	go func() {
		err := r.conn.CancelRequest(ctx)
		<-time.After(cancelArrival)
		r.served <- err == nil
	}()
}

// HandleUnwatchAfterCancel is called when the statement of a cancelled read has ended. If the server has not taken the
// cancel request within cancelGrace, the request may interrupt a later statement, so the connection is closed.
func (r *readCanceller) HandleUnwatchAfterCancel() {
	served := false
	select {
	case served = <-r.served:
		r.abandon()
	case <-time.After(cancelGrace):
		r.abandon()
		<-r.served
	}
	if served {
		_ = r.conn.Conn().SetDeadline(time.Time{})
	} else {
		_ = r.conn.Close(context.Background()) // with another context it would wait for this handler
	}
}
