package mysql

import (
	"database/sql"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// TestSessionsBoundLockWaitsAndIdleTransactions reads the settings of every pool's sessions. MySQL has no limit for an
// idle transaction.
func TestSessionsBoundLockWaitsAndIdleTransactions(t *testing.T) {
	s := migrated(t)
	idle := "wait_timeout 8"
	if s.d.known().maria {
		idle = "idle_transaction_timeout 5"
	}
	want := []string{idle, "innodb_lock_wait_timeout 1", "net_write_timeout 5", "sql_mode STRICT_TRANS_TABLES"}
	for i, p := range s.d.pools() {
		for _, setting := range want {
			name, value, _ := strings.Cut(setting, " ")
			var got string
			ok(t, p.QueryRowContext(t.Context(), "SELECT @@SESSION."+name).Scan(&got), "read "+name)
			if got != value {
				t.Errorf("pool %d: %s is %s, want %s", i, name, got, value)
			}
		}
	}
}

// TestSessionsTurnSnapshotIsolationOff sets the variable in the URL, because it is not on by default in every version.
// Some servers do not have the variable.
func TestSessionsTurnSnapshotIsolationOff(t *testing.T) {
	u := newURL(t)
	has, err := openStore(t, u).d.variables(t.Context(), "SHOW VARIABLES LIKE '"+snapshotIsolation+"'")
	ok(t, err, "read the variable")
	if len(has) > 0 {
		u += "&" + snapshotIsolation + "=ON"
	}
	for i, p := range openStore(t, u).d.pools() {
		var name, value string
		row := p.QueryRowContext(t.Context(),
			"SHOW VARIABLES WHERE Variable_name = '"+snapshotIsolation+"' AND Value <> 'OFF'")
		err := row.Scan(&name, &value)
		if !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("pool %d: %s is %s, %v", i, name, value, err)
		}
	}
}

// isolateNext sets the isolation of the session's next transaction. The server refuses it while the session is in a
// transaction.
const isolateNext = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

// TestWriteAndRingSessionsHoldNoIdleTransaction checks sessions without autocommit between writes and claims. The
// server would end a transaction that stayed open there.
func TestWriteAndRingSessionsHoldNoIdleTransaction(t *testing.T) {
	s := migrated(t)
	look := func(when string) {
		t.Helper()
		for name, pool := range map[string]*sql.DB{"writes": s.d.writes, "rings": s.d.rings} {
			pool.SetMaxOpenConns(1)
			var autocommit int
			ok(t, pool.QueryRowContext(t.Context(), "SELECT @@autocommit").Scan(&autocommit), when)
			_, err := pool.ExecContext(t.Context(), isolateNext)
			if autocommit != 0 || err != nil {
				t.Errorf("%s, %s: autocommit %d, %v", name, when, autocommit, err)
			}
		}
	}
	look("connected")
	ids := write(t, s, clock.Create, setsOf("ring", 2, t0, nil))
	claimAndSettle(t, s, ids, clock.Returned)
	look("settled")
	c, err := s.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: t0 - 1, ClaimID: "c", MaxBytes: 1})
	ok(t, err, "claim alarms that are not due")
	if len(c.Rings) != 0 {
		t.Fatalf("%d rings", len(c.Rings))
	}
	look("nothing was due")
	write(t, s, clock.Keep, setsOf("ring", 2, t0, nil))
	look("nothing was written")
	_, err = s.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: setsOf(strings.Repeat("long", 100), 1, t0, nil)})
	if !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("a business id that the column does not hold: %v", err)
	}
	look("the server refused a statement")
}

// privateServer starts a server for one test, which may then change global settings.
func privateServer(t *testing.T) (serverURL string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "clockd-mysql-test-") //nolint:usetesting // the server's user must be able to enter it
	ok(t, err, "make a folder")
	do := func(args ...string) string {
		cmd := exec.Command(filepath.Join("..", "..", "deploy", "services"), args...)
		cmd.Env = append(os.Environ(), "CLOCKD_SERVICES_DIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("deploy/services %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		do("down", "--purge")
		_ = os.RemoveAll(dir)
	})
	do("up", "mariadb")
	match := regexp.MustCompile(`CLOCKD_TEST_MYSQL_URL='([^']+)'`).FindStringSubmatch(do("env"))
	if match == nil {
		t.Fatal("deploy/services env prints no URL of the private server")
	}
	return match[1]
}

// TestReadOnlyAndLessDurableServersAreNoticed makes a server read-only under an open store and writable again, and
// makes its commits less durable.
func TestReadOnlyAndLessDurableServersAreNoticed(t *testing.T) {
	root := privateServer(t)
	admin := openStore(t, root)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := admin.d.db.ExecContext(t.Context(), statement)
			ok(t, err, statement)
		}
	}
	exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2", // read_only does not bind admin, but it binds the user plain
		"CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'plain'", "GRANT ALL ON clockd.* TO plain@'127.0.0.1'")
	u, err := url.Parse(root)
	ok(t, err, "parse the URL")
	u.User = url.UserPassword("plain", "plain")
	s := openStore(t, u.String())
	ok(t, s.Migrate(t.Context()), "migrate")
	ok(t, s.Check(t.Context()), "check")
	found, err := s.Durability(t.Context())
	ok(t, err, "durability")
	for _, f := range found {
		if f.Safe != (f.Name != "innodb_flush_log_at_trx_commit") {
			t.Errorf("%+v", f)
		}
	}
	write(t, s, clock.Create, setsOf("before", 1, t0, nil))

	exec("SET GLOBAL read_only = 1")
	_, err = s.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: setsOf("during", 1, t0, nil)})
	if !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("write on a connection that became read-only: %v", err)
	}
	_, err = s.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: setsOf("during", 1, t0, nil)})
	if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("write on a new connection: %v", err)
	}
	for _, late := range []*opened{openStore(t, u.String()), openStore(t, root)} {
		err := late.Check(t.Context())
		if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, engine.ErrReadOnly) ||
			!strings.Contains(err.Error(), "read-only") {
			t.Errorf("check of a replica: %v", err)
		}
	}
	exec("SET GLOBAL read_only = 0")
	write(t, s, clock.Create, setsOf("after", 1, t0, nil))
}

// TestUnsafeVariablesAreFound judges values that cannot be set on a test server.
func TestUnsafeVariablesAreFound(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		unsafe    string
	}{
		{map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1", "innodb_doublewrite": "ON", "transaction_isolation": "READ-COMMITTED"}, ""},
		{map[string]string{"innodb_flush_log_at_trx_commit": "0", "tx_isolation": "READ-COMMITTED"},
			"innodb_flush_log_at_trx_commit"},
		{map[string]string{"log_bin": "ON", "sync_binlog": "1000", "tx_isolation": "READ-COMMITTED"}, "sync_binlog"},
		{map[string]string{"innodb_doublewrite": "OFF", "tx_isolation": "READ-COMMITTED"}, "innodb_doublewrite"},
		{map[string]string{"tx_isolation": "REPEATABLE-READ"}, "isolation"},
	} {
		var unsafe []string
		for _, f := range judgeVariables(c.variables) {
			if !f.Safe {
				unsafe = append(unsafe, f.Name)
			}
		}
		if strings.Join(unsafe, " ") != c.unsafe {
			t.Errorf("%v: unsafe are %v", c.variables, unsafe)
		}
	}
}
