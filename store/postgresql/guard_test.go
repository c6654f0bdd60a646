package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// TestSessionsBoundLockWaitsAndIdleTransactions reads the settings of every pool's sessions.
func TestSessionsBoundLockWaitsAndIdleTransactions(t *testing.T) {
	s := migrated(t)
	for i, want := range []string{ // in the order of pools
		"5s 8000 4 2 2 5s 1s read committed", "5s 8000 4 2 2 30s 1s read committed",
		"5s 8000 4 2 2 30s 1s read committed",
		"5s 8000 4 2 2 30s 0 read committed", "5s 8000 4 2 2 16s 0 read committed",
	} {
		var got string
		ok(t, s.d.pools()[i].QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('idle_in_transaction_session_timeout'),
			current_setting('tcp_user_timeout'), current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'),
			current_setting('tcp_keepalives_count'), current_setting('statement_timeout'), current_setting('lock_timeout'),
			current_setting('transaction_isolation'))`).Scan(&got), "read the settings")
		if got != want {
			t.Errorf("pool %d: %s, want %s", i, got, want)
		}
	}
}

// alterDatabase changes a default setting of new sessions in the store's database.
func alterDatabase(t *testing.T, s *opened, setting string) {
	t.Helper()
	var name string
	ok(t, s.d.pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name), "read the name")
	_, err := s.d.pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET "+setting)
	ok(t, err, "alter the database")
}

// TestReadOnlyServerIsRefused opens a store on a server that refuses writes.
func TestReadOnlyServerIsRefused(t *testing.T) {
	u := migratedURL(t)
	admin := openChecked(t, u)
	alterDatabase(t, admin, "default_transaction_read_only = on")
	s := openStore(t, u)
	for what, err := range map[string]error{"check": s.Check(t.Context()), "migrate": s.Migrate(t.Context())} {
		if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, engine.ErrReadOnly) ||
			!strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReadOnlyConnectionsAreReplaced makes pooled connections read-only. The write fails and says so, and the store
// replaces the connections.
func TestReadOnlyConnectionsAreReplaced(t *testing.T) {
	s := migrated(t)
	for range 2 { // the second round meets new connections
		for _, p := range s.d.pools() {
			conn, err := p.Acquire(t.Context())
			ok(t, err, "acquire")
			_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = on")
			ok(t, err, "make it read-only")
			conn.Release()
		}
		_, err := s.Write(t.Context(), clock.WriteRequest{Now: testNow, Ops: []clock.Op{setOp("a")}})
		if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, engine.ErrReadOnly) {
			t.Fatalf("write: %v", err)
		}
		ok(t, s.Attend(t.Context(), store.Node{Incarnation: "i", Expires: testNow}, 0), "attend on a new connection")
		write(t, s, []clock.Op{setOp(fmt.Sprint(testNow))})
	}
}

// TestUnsafeSettingsAreFound: Durability reports settings that may lose commits.
func TestUnsafeSettingsAreFound(t *testing.T) {
	s := migrated(t)
	alterDatabase(t, s, "synchronous_commit = off")
	s.d.pool.Reset()
	found, err := s.Durability(t.Context())
	ok(t, err, "durability")
	for _, f := range found {
		if f.Safe != (f.Name != "synchronous_commit") {
			t.Errorf("%+v", f)
		}
	}
	if f := synchronousCommitFinding("local"); !f.Safe {
		t.Errorf("%+v", f)
	}
	for _, names := range []string{"", "one"} {
		for _, commit := range []string{"on", "local"} {
			f := standbyFinding(names, commit)
			if lossy := strings.Contains(f.Detail, "may lose"); !f.Safe || lossy != (names == "" || commit == "local") {
				t.Errorf("standbys %q, %s: %+v", names, commit, f)
			}
		}
	}
}

// TestReplaysAreCounted meets a key that stays locked, and a deadline that has already passed.
func TestReplaysAreCounted(t *testing.T) {
	u := migratedURL(t)
	reg := prometheus.NewRegistry()
	cfg := DefaultConfig()
	cfg.URL = u
	s := openWith(t, cfg, Deps{Registerer: reg})
	ok(t, s.Check(t.Context()), "check")
	other, err := begin(t.Context(), s.d.pool, 0)
	ok(t, err, "begin")
	defer other.close(t.Context())
	row := setOp("a").Decide(nil, testNow).Alarm
	_, err = (&writeTx{tx: other, q: s.d.q}).Insert(t.Context(), []*clock.Alarm{&row}, false)
	ok(t, err, "insert")
	write(t, s, []clock.Op{setOp("a")}, clock.Locked)
	ended, end := context.WithTimeout(t.Context(), 0)
	defer end()
	if _, err := s.Write(ended, clock.WriteRequest{Now: testNow, Ops: []clock.Op{setOp("b")}}); err == nil {
		t.Fatal("no error")
	}
	counted := map[string]float64{}
	families, err := reg.Gather()
	ok(t, err, "gather")
	for _, f := range families {
		for _, m := range f.GetMetric() {
			counted[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	if counted["clockd_store_replays_total lock_timeout"] == 0 || counted["clockd_store_errors_total timeout"] != 1 {
		t.Errorf("counted %v", counted)
	}
}
