package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
)

// lockAlarmTable locks the table alarm until unlock is called.
func (f *fixture) lockAlarmTable() (unlock func()) {
	f.t.Helper()
	conn, err := f.db.SQL.Conn(f.t.Context())
	ok(f.t, err, "connect")
	lock, end := []string{"BEGIN", "LOCK TABLE alarm IN ACCESS EXCLUSIVE MODE"}, "ROLLBACK"
	if f.dialect == goose.DialectMySQL {
		lock, end = []string{"LOCK TABLES alarm WRITE"}, "UNLOCK TABLES"
	}
	for _, statement := range lock {
		_, err := conn.ExecContext(f.t.Context(), statement)
		ok(f.t, err, statement)
	}
	return func() {
		_, err := conn.ExecContext(context.WithoutCancel(f.t.Context()), end)
		ok(f.t, err, end)
		ok(f.t, conn.Close(), "close")
	}
}

// countWaitingSessions returns how many sessions of this database wait for a table.
func (f *fixture) countWaitingSessions() (count int) {
	f.t.Helper()
	if f.dialect == goose.DialectMySQL {
		sessions, err := MySQLSessions(f.t.Context(), f.db.SQL)
		ok(f.t, err, "list sessions")
		for _, s := range sessions {
			if strings.HasPrefix(s.State, "Waiting for table") {
				count++
			}
		}
		return count
	}
	query := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	ok(f.t, f.db.SQL.QueryRow(query).Scan(&count), "count waiting sessions")
	return count
}

// testLeasesBesideReads lets more reads of due alarms hang than there are connections for them. The calls for leases
// and time still succeed. A node that cannot read thus stays alive and can yield its shards.
func testLeasesBesideReads(t *testing.T, f *fixture) {
	unlock := sync.OnceFunc(f.lockAlarmTable())
	ctx, cancel := context.WithCancel(t.Context())
	var reads sync.WaitGroup
	defer func() {
		cancel()
		unlock()
		reads.Wait()
	}()
	for range 400 { // a call that shares their connections would wait for long
		reads.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.Due(ctx, store.DueQuery{Shards: []int{1, 2, 3}, Until: store.Position{Time: t0}, Limit: 1})
			}
		})
	}
	const connections = 6 // the default of both engines
	for deadline := time.Now().Add(time.Minute); f.countWaitingSessions() < connections; {
		if time.Now().After(deadline) {
			t.Fatal("the reads do not hang")
		}
	}
	calls := f.calls()
	for _, name := range []string{"time", "cluster", "attend", "take", "yield", "leave"} {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		if err := calls[name](ctx); err != nil {
			t.Errorf("%s while all connections for reads hang: %v", name, err)
		}
		stop()
	}
}
