package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// restricted is a database account for one test. Its functions revoke a privilege on the table alarm and grant it
// again.
type restricted struct {
	url          string
	revoke, give func(t *testing.T, privilege string)
}

func restrictedMariaDB(t *testing.T, databaseURL string) restricted {
	t.Helper()
	u := parse(t, databaseURL)
	name, schema := "r_"+randomName(), strings.TrimPrefix(u.Path, "/")
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", u.User.Username(), password, u.Host, schema))
	if err != nil {
		t.Fatal(err)
	}
	run := executor(t, db)
	run(t, "CREATE USER '%s'@'%%' IDENTIFIED BY 'secret-word'", name)
	t.Cleanup(func() {
		run(t, "DROP USER '%s'@'%%'", name)
		_ = db.Close()
	})
	for _, table := range strings.Fields(queryOne(t, db, "SELECT GROUP_CONCAT(table_name SEPARATOR ' ') FROM information_schema.tables WHERE table_schema = DATABASE()")) {
		run(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s` TO '%s'@'%%'", table, name)
	}
	u.User = url.UserPassword(name, "secret-word")
	return restricted{
		url:    u.String(),
		revoke: func(t *testing.T, privilege string) { run(t, "REVOKE %s ON alarm FROM '%s'@'%%'", privilege, name) },
		give:   func(t *testing.T, privilege string) { run(t, "GRANT %s ON alarm TO '%s'@'%%'", privilege, name) },
	}
}

func restrictedPostgres(t *testing.T, databaseURL string) restricted {
	t.Helper()
	u := parse(t, databaseURL)
	name := "r_" + randomName()
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	run := executor(t, db)
	run(t, "CREATE ROLE %s LOGIN PASSWORD 'secret-word'", name)
	t.Cleanup(func() {
		run(t, "DROP OWNED BY %s", name)
		run(t, "DROP ROLE %s", name)
		_ = db.Close()
	})
	run(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %s", name)
	run(t, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO %s", name)
	u.User = url.UserPassword(name, "secret-word")
	return restricted{
		url:    u.String(),
		revoke: func(t *testing.T, privilege string) { run(t, "REVOKE %s ON alarm FROM %s", privilege, name) },
		give:   func(t *testing.T, privilege string) { run(t, "GRANT %s ON alarm TO %s", privilege, name) },
	}
}

// executor returns a function that runs one statement.
func executor(t *testing.T, db *sql.DB) func(t *testing.T, statement string, args ...any) {
	t.Helper()
	return func(t *testing.T, statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(context.Background(), fmt.Sprintf(statement, args...)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func queryOne(t *testing.T, db *sql.DB, query string) (s string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The account loses INSERT on alarm. The log and /readyz report that with the cause. When the account has the privilege
// again, the node becomes ready without any request.
func TestFailingWritesAreReported(t *testing.T) {
	t.Parallel()
	forRestricted(t, func(t *testing.T, r restricted, p *process) {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "before"), map[string]any{"delay": "1h"})
		r.revoke(t, "INSERT")
		p.must(http.StatusServiceUnavailable, http.MethodPut, alarmPath("shop", "meanwhile"),
			map[string]any{"delay": "1h"})
		eventually(t, "the node is not ready and names the cause", func() bool {
			_, detail, ready := p.check("writes")
			return !ready && strings.Contains(strings.ToLower(detail), "alarm") &&
				!strings.Contains(detail, "secret-word")
		})
		if _, detail, _ := p.check("writes"); detail != "" {
			t.Logf("/readyz: %s", detail)
		}
		if n := strings.Count(p.log.String(), "could not write"); n == 0 {
			t.Errorf("the log does not report failing writes:\n%s", p.log)
		}
		r.give(t, "INSERT")
		eventually(t, "the node is ready again by itself",
			func() bool { _, _, ready := p.check("writes"); return ready })
		if !strings.Contains(p.log.String(), "writes work again") {
			t.Errorf("the log does not report that writes work again:\n%s", p.log)
		}
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "after"), map[string]any{"delay": "1h"})
		if n := p.inState("shop", clock.Scheduled); n != 2 {
			t.Errorf("the table has %d alarms, want 2: a probe left a row", n)
		}
	})
}

// forRestricted runs test on each server, with clockd on a restricted account.
func forRestricted(t *testing.T, test func(t *testing.T, r restricted, p *process)) {
	for _, e := range []struct {
		name     string
		open     func(t *testing.T) string
		restrict func(t *testing.T, databaseURL string) restricted
	}{{"mariadb", mariadb, restrictedMariaDB}, {"postgresql", postgres, restrictedPostgres}} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := migrated(t, e.open(t))
			r := e.restrict(t, databaseURL)
			test(t, r, start(t, "CLOCKD_DATABASE_URL="+r.url, "CLOCKD_NO_MIGRATE=true"))
		})
	}
}

// The account loses UPDATE on alarm, so that every claim fails while sets go on. /readyz names the cause. All alarms
// ring once the account has the privilege again.
func TestFailingClaimsAreReported(t *testing.T) {
	t.Parallel()
	forRestricted(t, func(t *testing.T, r restricted, p *process) {
		got := p.listen("shop")
		r.revoke(t, "UPDATE")
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "due"), map[string]any{"delay": "0s"})
		eventually(t, "readiness names the failing claims and stays ready", func() bool {
			status, detail, ready := p.check("claims")
			return ready && status == statusFailing && strings.Contains(strings.ToLower(detail), "alarm") &&
				!strings.Contains(detail, "secret-word")
		})
		r.give(t, "UPDATE")
		eventually(t, "the alarm rings", func() bool { return got.number() >= 1 })
		p.requireOnce("shop", copiesOf(got))
		eventually(t, "the check of claims is ok",
			func() bool { status, _, _ := p.check("claims"); return status == statusOK })
	})
}
