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
)

// TestSessions looks at every pool: whatever holds locks is ended by the server, and waits for none for long.
func TestSessions(t *testing.T) {
	s := migrated(t)
	for i, p := range s.pools() {
		var idle, write, lock int
		var mode string
		ok(t, p.QueryRowContext(t.Context(), "SELECT @@idle_transaction_timeout, @@net_write_timeout, @@innodb_lock_wait_timeout, @@sql_mode").
			Scan(&idle, &write, &lock, &mode), "read the settings")
		if idle != 5 || write != 5 || lock != 1 || mode != "STRICT_TRANS_TABLES" {
			t.Errorf("pool %d: %d %d %d %s", i, idle, write, lock, mode)
		}
	}
}

// TestSessionsWithoutAutocommit commit nothing by themselves, and hold no transaction between writes and claims, which the server
// would end.
func TestSessionsWithoutAutocommit(t *testing.T) {
	s := migrated(t)
	look := func(when string) {
		t.Helper()
		for name, pool := range map[string]*sql.DB{"writes": s.writes, "rings": s.rings} {
			pool.SetMaxOpenConns(1)
			var autocommit, open int
			ok(t, pool.QueryRowContext(t.Context(), "SELECT @@autocommit, @@in_transaction").Scan(&autocommit, &open), when)
			if autocommit != 0 || open != 0 {
				t.Errorf("%s, %s: autocommit %d, in a transaction %d", name, when, autocommit, open)
			}
		}
	}
	look("connected")
	ids := write(t, s, clock.Create, setsOf("ring", 2, t0, nil))
	claimAndSettle(t, s, ids, clock.Returned)
	look("settled")
	c, err := s.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: t0 - 1, ClaimID: "c", MaxBytes: 1})
	ok(t, err, "claim what is not due")
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

// private starts a server of the test's own, so that it may change settings that are everybody's.
func private(t *testing.T) (serverURL string) {
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
		t.Fatal("where is the private server?")
	}
	return match[1]
}

// TestServerChanges makes a server read-only under a store and again writable, and its commits less durable.
func TestServerChanges(t *testing.T) {
	root := private(t)
	admin := openStore(t, root)
	exec := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := admin.db.ExecContext(t.Context(), statement)
			ok(t, err, statement)
		}
	}
	exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2", // admin's privileges are beyond read_only, this user's are not
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
	if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("write on a new connection: %v", err)
	}
	for _, late := range []*Store{openStore(t, u.String()), openStore(t, root)} {
		err := late.Check(t.Context())
		if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("check of a replica: %v", err)
		}
	}
	exec("SET GLOBAL read_only = 0")
	write(t, s, clock.Create, setsOf("after", 1, t0, nil))
}

// TestJudgeVariables judges what cannot be set on a server of the tests.
func TestJudgeVariables(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		unsafe    string
	}{
		{map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1", "innodb_doublewrite": "ON", "transaction_isolation": "READ-COMMITTED"}, ""},
		{map[string]string{"innodb_flush_log_at_trx_commit": "0", "tx_isolation": "READ-COMMITTED"}, "innodb_flush_log_at_trx_commit"},
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
