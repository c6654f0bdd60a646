package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/storetest"
)

// TestCancelledReadEndsAtTheServer cancels reads in the middle of a statement that would last until the limit. When a
// read has returned, the server has been told to end its statement, and the pool serves the next reads.
func TestCancelledReadEndsAtTheServer(t *testing.T) {
	s := migrated(t)
	for range 2 * s.d.cfg.ReadConns {
		ctx, cut := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.d.reads.ExecContext(ctx, "SELECT SLEEP(600) /* endless */")
			ended <- err
		}()
		for countEndlessReads(t, s) == 0 {
			if len(ended) > 0 {
				t.Fatalf("the read ended by itself: %v", <-ended)
			}
		}
		cut()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled read: %v", err)
		}
		if n := countEndlessReads(t, s); n > 0 {
			t.Fatalf("the server continues %d cancelled reads", n)
		}
	}
	setting := "@@max_execution_time / 1000"
	if s.d.known().maria {
		setting = "@@max_statement_time"
	}
	var limit float64
	ok(t, s.d.reads.QueryRowContext(t.Context(), "SELECT "+setting).Scan(&limit), "read the limit")
	if limit != engine.ReadLimit.Seconds() {
		t.Errorf("a statement of a read may last %v s, want %v", limit, engine.ReadLimit)
	}
}

// countEndlessReads counts the sleeping statements that the server has not been told to end.
func countEndlessReads(t *testing.T, s *opened) (n int) {
	t.Helper()
	sessions, err := storetest.MySQLSessions(t.Context(), s.d.db)
	ok(t, err, "list sessions")
	for _, session := range sessions {
		if session.Command == "Query" && strings.HasSuffix(session.Statement, "/* endless */") {
			n++
		}
	}
	return n
}
