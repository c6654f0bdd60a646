package mysql

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync"
	"time"
)

const (
	// connectLimit is the time limit of one connect: dial, handshake and preparation of the session.
	connectLimit = 8 * time.Second
	// callerLimit is the longest wait of a caller whose own limit is longer. Its error is definite, because nothing was
	// sent.
	callerLimit = 5 * time.Second
	// spareConnects is the number of connects and unused connections that a dialer may have beyond the size of its
	// pool.
	spareConnects = 3
)

// dialer connects for a pool. A connect goes on when its caller leaves, and the next caller gets the connection. A
// server that is short of processor time takes longer to accept a connection than a claim may last. If each caller
// began again, none would ever be connected, and each attempt would take processor time from the server.
type dialer struct {
	driver.Connector
	most     int           // connects and unused connections, at most
	patience time.Duration // age of the last connect from which on another one begins: the host of the last one may be gone

	ctx     context.Context //nolint:containedctx // ends when the pool is closed
	stop    context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	callers    []chan connected // the longest waiting first; each has room for its result
	connecting int              // connects under way
	begun      time.Time        // when the last connect began
	unused     []connected      // connections that no caller waited for, the oldest first
}

// connected is the result of a connect.
type connected struct {
	conn driver.Conn
	err  error
	at   time.Time
}

// newDialer returns a dialer for a pool of so many connections.
func newDialer(c driver.Connector, size int, patience time.Duration) *dialer {
	d := &dialer{Connector: c, most: size + spareConnects, patience: patience}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Connect returns a new connection, or a connection of an earlier caller that did not wait.
func (d *dialer) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callerLimit)
	defer cancel()
	for conn := d.takeUnused(); conn != nil; conn = d.takeUnused() {
		if alive(ctx, conn) {
			return conn, nil
		}
		_ = conn.Close()
	}
	result := make(chan connected, 1)
	d.mu.Lock()
	d.callers = append(d.callers, result)
	d.begin()
	d.mu.Unlock()
	again := time.NewTicker(d.patience)
	defer again.Stop()
	for {
		select {
		case r := <-result:
			return r.conn, r.err
		case <-again.C:
			d.mu.Lock()
			d.begin()
			d.mu.Unlock()
		case <-ctx.Done():
			return nil, d.leave(result, ctx.Err())
		case <-d.ctx.Done():
			return nil, d.leave(result, driver.ErrBadConn)
		}
	}
}

// alive reports whether a connection that was not used at once still works. The pool checks only connections that it
// has used before.
func alive(ctx context.Context, conn driver.Conn) bool {
	r, checks := conn.(driver.SessionResetter)
	return !checks || r.ResetSession(ctx) == nil
}

// leave ends the wait of a caller, and returns err. It keeps a connection that has just come.
func (d *dialer) leave(result chan connected, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers = slices.DeleteFunc(d.callers, func(c chan connected) bool { return c == result })
	select {
	case r := <-result:
		d.pass(r)
	default:
	}
	return err
}

// takeUnused returns the newest unused connection; nil: there is none.
func (d *dialer) takeUnused() driver.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.unused)
	if n == 0 {
		return nil
	}
	conn := d.unused[n-1].conn
	d.unused = d.unused[:n-1]
	return conn
}

// begin begins a connect if there are fewer connects than callers, or if the last one has lasted for long. The caller
// holds mu.
func (d *dialer) begin() {
	enough := d.connecting >= len(d.callers) && time.Since(d.begun) < d.patience
	if enough || len(d.callers) == 0 || d.connecting+len(d.unused) >= d.most || d.ctx.Err() != nil {
		return
	}
	d.connecting++
	d.begun = time.Now()
	d.running.Go(d.connect)
}

func (d *dialer) connect() {
	ctx, cancel := context.WithTimeout(d.ctx, connectLimit)
	defer cancel()
	conn, err := d.Connector.Connect(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connecting--
	d.pass(connected{conn, err, time.Now()})
	d.begin()
}

// pass gives the result to the caller that has waited the longest. An error is dropped while a connect for each caller
// is under way. A connection without a caller is kept for maxIdle. The caller holds mu.
func (d *dialer) pass(r connected) {
	switch {
	case r.err != nil && d.connecting >= len(d.callers):
	case len(d.callers) > 0:
		d.callers[0] <- r
		d.callers = d.callers[1:]
	case d.ctx.Err() != nil:
		_ = r.conn.Close()
	default:
		d.unused = append(d.unused, r)
		time.AfterFunc(maxIdle, d.closeOld)
	}
}

// closeOld closes the unused connections that are older than maxIdle.
func (d *dialer) closeOld() { d.closeUnused(time.Now().Add(-maxIdle)) }

// closeUnused closes the unused connections that were made at the time or before.
func (d *dialer) closeUnused(madeUntil time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unused = slices.DeleteFunc(d.unused, func(r connected) bool {
		old := !r.at.After(madeUntil)
		if old {
			_ = r.conn.Close()
		}
		return old
	})
}

// Close ends all connects and closes the unused connections. The pool calls it.
func (d *dialer) Close() error {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.running.Wait()
	d.closeUnused(time.Now())
	return nil
}
