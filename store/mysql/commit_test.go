package mysql

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// cutter is a proxy that cuts a connection when the client sends a given text: before the text reaches the server, or
// before the reply.
type cutter struct {
	net.Listener
	server        string
	text          atomic.Pointer[string] // the text that triggers the cut; nil: no cut
	reachesServer bool                   // the text still reaches the server
	done          sync.WaitGroup
}

// openThroughCutter returns a cutter, and a store that reaches the database of s through it.
func openThroughCutter(t *testing.T, s *opened, reachesServer bool) (*cutter, *opened) {
	t.Helper()
	u, err := url.Parse(s.d.cfg.URL)
	ok(t, err, "parse the URL")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err, "listen")
	c := &cutter{Listener: l, server: u.Host, reachesServer: reachesServer}
	c.done.Go(c.serve)
	u.Host = l.Addr().String()
	through := openStore(t, u.String())
	ok(t, through.Check(t.Context()), "check")
	t.Cleanup(func() {
		_ = through.Close()
		_ = l.Close()
		c.done.Wait()
	})
	return c, through
}

func (c *cutter) serve() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		var muted atomic.Bool
		c.done.Go(func() { c.forward(client, server, &muted) })
		c.done.Go(func() { replies(client, server, &muted) })
	}
}

// forward copies the client's bytes to the server, up to the text.
func (c *cutter) forward(client, server net.Conn, muted *atomic.Bool) {
	defer func() { _ = server.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		if text := c.text.Load(); text != nil && bytes.Contains(b[:n], []byte(*text)) {
			muted.Store(true)
			if !c.reachesServer {
				return
			}
		}
		if _, err := server.Write(b[:n]); err != nil {
			return
		}
	}
}

// replies copies the server's bytes to the client. Instead of the reply to the text it closes the client's connection.
func replies(client, server net.Conn, muted *atomic.Bool) {
	defer func() { _ = client.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := server.Read(b)
		if err != nil || muted.Load() {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestCutCommitIsUnconfirmedAndNotReplayed cuts the connection in a COMMIT, before and after the server receives it.
func TestCutCommitIsUnconfirmedAndNotReplayed(t *testing.T) {
	for _, reachesServer := range []bool{true, false} {
		s := migrated(t)
		c, through := openThroughCutter(t, s, reachesServer)
		text := "COMMIT"
		ids := write(t, through, clock.Create, setsOf("ring", 2, t0, nil))
		claim, err := through.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: t0, ClaimID: "c", MaxBytes: 1 << 20})
		ok(t, err, "claim")
		c.text.Store(&text)
		_, err = through.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: setsOf("cut", 1, t0, nil)})
		if !errors.Is(err, clock.ErrUnconfirmed) || errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("a write whose COMMIT was cut: %v", err)
		}
		confirmed := make([]clock.Fate, 2)
		for i := range confirmed {
			confirmed[i] = clock.FateOf(&claim.Rings[i], clock.Outcome{Kind: clock.Confirmed}, t0)
		}
		if err := claim.Settler.Settle(t.Context(), t0, confirmed); !errors.Is(err, clock.ErrUnconfirmed) {
			t.Errorf("a settlement whose COMMIT was cut: %v", err)
		}
		c.text.Store(nil)
		_, err = s.Get(t.Context(), clock.Key{Application: "shop", BusinessID: "cut-00000"})
		if (err == nil) != reachesServer {
			t.Errorf("reachesServer %t: %v", reachesServer, err)
		}
		a, err := s.Get(t.Context(), claim.Rings[1].Key)
		ok(t, err, "get")
		if (a.State == clock.Rung) != reachesServer {
			t.Errorf("reachesServer %t: %s", reachesServer, a.State)
		}
	}
}

// TestCutBeforeCommitIsUnavailable cuts the connection before the COMMIT: certainly nothing was written.
func TestCutBeforeCommitIsUnavailable(t *testing.T) {
	s := migrated(t)
	c, through := openThroughCutter(t, s, false)
	text := "InsertAlarms"
	c.text.Store(&text)
	_, err := through.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: setsOf("cut", 1, t0, nil)})
	if !errors.Is(err, clock.ErrUnavailable) || errors.Is(err, clock.ErrUnconfirmed) {
		t.Errorf("a write whose INSERT was cut: %v", err)
	}
}

// TestOnlyNewestAttemptsAreKept counts the rows in the table, because Get shows only the newest attempts anyway.
func TestOnlyNewestAttemptsAreKept(t *testing.T) {
	s := migrated(t)
	ids := write(t, s, clock.Create, setsOf("fails", 3, t0, nil))
	for range clock.MaxAttempts + 5 {
		claimAndSettle(t, s, ids, clock.Returned)
	}
	var n int
	ok(t, s.d.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM ring_attempt").Scan(&n), "count attempts")
	if n != 3*clock.MaxAttempts {
		t.Errorf("%d attempts of 3 alarms are kept", n)
	}
}
