package postgresql

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// endless selects the read sessions that run the statement of these tests.
const endless = "state = 'active' AND query LIKE 'SELECT pg_sleep%'"

// readSessions counts the read sessions that a condition selects.
func readSessions(t *testing.T, s *opened, where string) (n int) {
	t.Helper()
	ok(t, s.d.pool.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'clockd read' AND "+where).
		Scan(&n), "count sessions")
	return n
}

// TestCancelledReadEndsAtTheServer cancels reads in the middle of a statement that would last until the limit. When a
// read returns, the server has ended its statement, and the connection serves the next reads.
func TestCancelledReadEndsAtTheServer(t *testing.T) {
	s := migrated(t)
	for range 2 * s.d.cfg.ReadConns {
		ctx, cut := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.d.reads.Exec(ctx, "SELECT pg_sleep(600)")
			ended <- err
		}()
		for readSessions(t, s, endless) == 0 {
			if len(ended) > 0 {
				t.Fatalf("the read ended by itself: %v", <-ended)
			}
		}
		cut()
		if err := <-ended; err == nil {
			t.Error("a cancelled read succeeded")
		}
		if n := readSessions(t, s, endless); n > 0 {
			t.Fatalf("the server continues %d cancelled reads", n)
		}
	}
	if n := readSessions(t, s, "true"); n != 1 {
		t.Errorf("%d read sessions, want only the first session", n)
	}
	var limit string
	ok(t, s.d.reads.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit), "read the limit")
	if limit != "16s" {
		t.Errorf("a statement of a read may last %s, want 16s", limit)
	}
}

// TestStatementsTakeOneProcess checks that no session has statements with parallel workers. A list of 400,000 alarms
// would have two, and the bound on the reads at the server would be three times as high.
func TestStatementsTakeOneProcess(t *testing.T) {
	s := migrated(t)
	for _, pool := range s.d.pools() {
		var workers string
		ok(t, pool.QueryRow(t.Context(), "SHOW max_parallel_workers_per_gather").Scan(&workers), "read the setting")
		if workers != "0" {
			t.Errorf("%s: a statement may have %s parallel workers",
				pool.Config().ConnConfig.RuntimeParams["application_name"], workers)
		}
	}
}

// TestCancelledReadWaitsForItsServer cancels a read while no request to cancel reaches the server. The read returns
// after the server has ended its statement, because a place that is given back before lets one more statement run at
// the server.
func TestCancelledReadWaitsForItsServer(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	p.keepsCancels = true
	s := openChecked(t, p.url)
	ctx, cut := context.WithTimeout(t.Context(), time.Minute)
	defer cut()
	ended := make(chan error, 1)
	go func() {
		_, err := s.d.reads.Exec(ctx, fmt.Sprintf("SELECT pg_sleep(%f)", (2*cancelGrace).Seconds()))
		ended <- err
	}()
	for readSessions(t, s, endless) == 0 {
		if len(ended) > 0 {
			t.Fatalf("the read ended by itself: %v", <-ended)
		}
	}
	cut()
	err := <-ended
	if n := readSessions(t, s, endless); n > 0 {
		t.Errorf("the read returned (%v) while the server ran its statement", err)
	}
}

// TestReadReturnsSoonAfterItsDeadline lets a read meet the deadline of its context while no request to cancel reaches
// the server. The read closes its connection before the statement ends.
func TestReadReturnsSoonAfterItsDeadline(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	p.keepsCancels = true
	s := openChecked(t, p.url)
	ctx, cut := context.WithTimeout(t.Context(), time.Second)
	defer cut()
	_, err := s.d.reads.Exec(ctx, fmt.Sprintf("SELECT pg_sleep(%f)", (cancelGrace+4*time.Second).Seconds()))
	if err == nil {
		t.Error("a read past its deadline succeeded")
	}
	if n := readSessions(t, s, endless); n != 1 {
		t.Errorf("%d statements at the server, want the one that is still not cancelled", n)
	}
}

// TestLateCancelInterruptsNoLaterRead cancels a read whose statement ends by itself, while the cancel request waits on
// its way to the server.
func TestLateCancelInterruptsNoLaterRead(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	p.stallsCancels = true
	s := openChecked(t, p.url)
	conn, err := s.d.reads.Acquire(t.Context())
	ok(t, err, "take a connection")
	defer conn.Release()
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(2)")
		ended <- err
	}()
	for readSessions(t, s, endless) == 0 {
		if len(ended) > 0 {
			t.Fatalf("the read ended by itself: %v", <-ended)
		}
	}
	cut()
	err = <-ended // nil if the statement has ended before the cancellation
	t.Logf("cancelled read: %v", err)
	if !conn.Conn().IsClosed() {
		t.Error("the connection is open, and the cancel request may still interrupt its next read")
	}
}
