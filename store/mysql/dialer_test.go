package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// slowServer is a driver.Connector whose connects take a time, and then succeed or fail.
type slowServer struct {
	driver.Connector
	mu     sync.Mutex
	takes  time.Duration
	fails  error
	begun  int
	closed atomic.Int64 // connections that were closed
	broken atomic.Bool  // connections do not work any more
	now    atomic.Int64 // connects under way
	most   atomic.Int64 // most connects at once
}

func (s *slowServer) set(takes time.Duration, fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.fails = takes, fails
}

func (s *slowServer) connects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *slowServer) Connect(ctx context.Context) (driver.Conn, error) {
	s.mu.Lock()
	s.begun++
	takes, fails := s.takes, s.fails
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	s.mu.Unlock()
	defer s.now.Add(-1)
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fails != nil {
		return nil, fails
	}
	return &countedConn{server: s}, nil
}

type countedConn struct {
	driver.Conn
	server *slowServer
}

func (c *countedConn) Close() error {
	c.server.closed.Add(1)
	return nil
}

func (c *countedConn) ResetSession(context.Context) error {
	if c.server.broken.Load() {
		return driver.ErrBadConn
	}
	return nil
}

// inDialer runs f in a synctest bubble with a dialer for 4 connections, whose patience is 3 s.
func inDialer(t *testing.T, f func(t *testing.T, s *slowServer, connect func(limit time.Duration) error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{}
		d := newDialer(s, 4, 3*time.Second)
		f(t, s, func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			conn, err := d.Connect(ctx)
			if (conn == nil) == (err == nil) {
				t.Errorf("a connection %v, and the error %v", conn, err)
			}
			return err
		})
		begun := time.Now()
		ok(t, d.Close(), "close")
		if took := time.Since(begun); took > 0 {
			t.Errorf("close waited for %s", took)
		}
		if _, err := d.Connect(t.Context()); err == nil {
			t.Error("a closed dialer connects")
		}
	})
}

// A connect that takes longer than any caller waits succeeds for a later caller.
func TestConnectGoesOnWhenItsCallerLeaves(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(4*time.Second, nil)
		for i, want := range []bool{false, true, false, true} {
			if err := connect(2500 * time.Millisecond); (err == nil) != want ||
				err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if n := s.connects(); n != 2 {
			t.Errorf("%d connects for two connections", n)
		}
	})
}

// A connect that hangs holds up callers for the dialer's patience alone.
func TestHungConnectIsOvertaken(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(time.Hour, nil)
		for range 2 { // 3 s
			if err := connect(1500 * time.Millisecond); err == nil {
				t.Error("connected to a server that hangs")
			}
		}
		s.set(0, nil)
		ok(t, connect(time.Second), "connect to the server that took over")
		if n := s.connects(); n != 2 {
			t.Errorf("%d connects", n)
		}
	})
}

// Concurrent callers have a connect each, up to a bound. The others follow.
func TestCallersConnectAtOnce(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(time.Second, nil)
		for _, n := range []int{4, 12} {
			before := s.connects()
			s.most.Store(0)
			var callers sync.WaitGroup
			for range n {
				callers.Go(func() { ok(t, connect(2100*time.Millisecond), "connect") })
			}
			callers.Wait()
			if got := s.connects() - before; got != n || s.most.Load() != int64(min(n, 4+spareConnects)) {
				t.Errorf("%d connects for %d callers, %d at once", got, n, s.most.Load())
			}
		}
	})
}

// A connection that comes in the moment in which its caller leaves is kept.
func TestNoConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{takes: time.Second}
		d := newDialer(s, 4, 3*time.Second)
		taken := 0
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := d.Connect(ctx); err == nil {
				taken++
			}
			cancel()
			time.Sleep(time.Duration(taken%2) * time.Second)
		}
		synctest.Wait()
		ok(t, d.Close(), "close")
		if closed := int(s.closed.Load()); taken+closed != s.connects() {
			t.Errorf("%d connects, %d connections taken and %d closed", s.connects(), taken, closed)
		}
	})
}

// A failure is for waiting callers. A connection without a caller is closed when it is old, and is not used when it is
// broken.
func TestOldResultsOfConnectsAreDropped(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		refused := errors.New("refused")
		s.set(time.Second, refused)
		if err := connect(2 * time.Second); !errors.Is(err, refused) {
			t.Errorf("a refused connect: %v", err)
		}
		_ = connect(time.Millisecond)
		time.Sleep(2 * time.Second) // the failure without a waiting caller
		s.set(time.Second, nil)
		ok(t, connect(2*time.Second), "connect after an old failure")
		_ = connect(time.Millisecond)
		time.Sleep(time.Second + maxIdle)
		if n := s.closed.Load(); n != 1 {
			t.Errorf("%d connections closed, want the old one that nobody took", n)
		}
		_ = connect(time.Millisecond)
		time.Sleep(2 * time.Second)
		s.broken.Store(true)
		before := s.connects()
		ok(t, connect(2*time.Second), "connect after a broken connection")
		if n := s.connects() - before; n != 1 || s.closed.Load() != 2 {
			t.Errorf("%d connects, %d connections closed, want 1 and 2", n, s.closed.Load())
		}
	})
}

// A failure of an earlier connect does not reach a caller whose own connect is under way.
func TestErrorOfAnEarlierConnectReachesNobodyElse(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(connectLimit+time.Second, nil)
		_ = connect(time.Second)
		time.Sleep(connectLimit - 1010*time.Millisecond) // 10 ms before the connect fails
		s.set(100*time.Millisecond, nil)
		ok(t, connect(time.Second), "connect beside one that fails")
	})
}

// A caller without a limit gets a definite error, although connects hang.
func TestCallerIsNotHeldByHungConnects(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(time.Hour, nil)
		begun := time.Now()
		if err := connect(time.Hour); err == nil || time.Since(begun) != callerLimit {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		for range 20 {
			_ = connect(time.Second)
		}
		if n := s.most.Load(); n > 4+spareConnects {
			t.Errorf("%d connects at once", n)
		}
		s.set(0, nil)
		ok(t, connect(3500*time.Millisecond), "connect to the server that took over")
	})
}

// Close ends the connects that are under way, and closes connections without a caller.
func TestCloseOfADialerLeavesNothing(t *testing.T) {
	inDialer(t, func(t *testing.T, s *slowServer, connect func(time.Duration) error) {
		s.set(time.Hour, nil)
		_ = connect(time.Millisecond)
		time.Sleep(3 * time.Second) // the dialer's patience: the next caller gets a connect of its own
		s.set(10*time.Millisecond, nil)
		_ = connect(time.Millisecond)
		time.Sleep(time.Second)
		t.Cleanup(func() {
			if n := s.closed.Load(); n != 1 {
				t.Errorf("%d connections closed, want the one that nobody took", n)
			}
		})
	})
}

// Each connection takes longer to open than a claim may last, as at a server that is short of processor time. Claims
// succeed all the same.
func TestClaimsSucceedWhenConnectingTakesLonger(t *testing.T) {
	const delay, limit = 150 * time.Millisecond, 700 * time.Millisecond // a connection takes more replies than a claim
	direct := migrated(t)
	ids := write(t, direct, clock.Create, setsOf("a", 1, t0, nil))
	var lag atomic.Int64
	s := openStore(t, laggingURL(t, direct.d.cfg.URL, &lag))
	ok(t, s.Check(t.Context()), "check")
	lag.Store(int64(delay))
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		c, err := s.Claim(ctx, store.ClaimRequest{IDs: ids, Now: t0 + 1000, ClaimID: "slow", MaxBytes: 1 << 20})
		cancel()
		if err == nil {
			lag.Store(0)
			fates := []clock.Fate{clock.FateOf(&c.Rings[0], clock.Outcome{Kind: clock.Confirmed}, t0+1000)}
			ok(t, c.Settler.Settle(t.Context(), t0+1000, fates), "settle")
			t.Logf("claimed at try %d", try)
			break
		}
		if try == 100 {
			t.Fatalf("no claim succeeded in %d tries: %v", try, err)
		}
	}
}

// laggingURL returns the URL of a proxy to the server of a database. The proxy holds back each piece of the server's
// bytes for lag, in nanoseconds.
func laggingURL(t *testing.T, database string, lag *atomic.Int64) string {
	t.Helper()
	u, err := url.Parse(database)
	ok(t, err, "parse the URL")
	front, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err, "listen")
	server := u.Host
	u.Host = front.Addr().String()
	var relays sync.WaitGroup
	t.Cleanup(func() {
		_ = front.Close()
		relays.Wait()
	})
	relays.Go(func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { relayLate(client, server, lag) })
		}
	})
	return u.String()
}

func relayLate(client net.Conn, address string, lag *atomic.Int64) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn, wait func()) {
		defer func() { _ = to.Close() }()
		defer func() { _ = from.Close() }()
		for buffer := make([]byte, 1<<16); ; {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			wait()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { copyTo(server, client, func() {}) })
	copyTo(client, server, func() { time.Sleep(time.Duration(lag.Load())) })
	both.Wait()
}
