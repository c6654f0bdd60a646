package postgresql

import (
	"context"
	"testing"
)

// TestCancelledReadEndsAtTheServer cancels reads in the middle of a statement that would last until the limit. When a read returns, the
// server has ended its statement, and the connection serves the next reads.
func TestCancelledReadEndsAtTheServer(t *testing.T) {
	s := migrated(t)
	count := func(where string) (n int) {
		t.Helper()
		ok(t, s.d.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'clockd read' AND "+where).
			Scan(&n), "count sessions")
		return n
	}
	const endless = "state = 'active' AND query LIKE 'SELECT pg_sleep%'"
	for range 2 * s.d.cfg.ReadConns {
		ctx, cut := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.d.reads.Exec(ctx, "SELECT pg_sleep(600)")
			ended <- err
		}()
		for count(endless) == 0 {
			if len(ended) > 0 {
				t.Fatalf("the read ended by itself: %v", <-ended)
			}
		}
		cut()
		if err := <-ended; err == nil {
			t.Error("a cancelled read succeeded")
		}
		if n := count(endless); n > 0 {
			t.Fatalf("the server continues %d cancelled reads", n)
		}
	}
	if n := count("true"); n != 1 {
		t.Errorf("%d read sessions, want only the first session", n)
	}
	var limit string
	ok(t, s.d.reads.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit), "read the limit")
	if limit != "16s" {
		t.Errorf("a statement of a read may last %s, want 16s", limit)
	}
}
