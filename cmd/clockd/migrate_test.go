package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/store/storetest"
)

// openDatabase opens a database without clockd, as a person does.
func openDatabase(t *testing.T, databaseURL string) *sql.DB {
	t.Helper()
	driver, source := "pgx", databaseURL
	switch u := parse(t, databaseURL); u.Scheme {
	case "mysql":
		password, _ := u.User.Password()
		driver, source = "mysql", fmt.Sprintf("%s:%s@tcp(%s)%s?parseTime=true", u.User.Username(), password, u.Host,
			u.Path)
	case "sqlite":
		driver, source = "sqlite", "file:"+strings.TrimPrefix(databaseURL, "sqlite:")+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A failed migration ends the start at once, with an error that names the migration. clockd does not repeat it as if
// the database were unavailable.
func TestFailedMigrationEndsTheStartAtOnce(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			mustExec(t, openDatabase(t, databaseURL), "CREATE TABLE node (id INTEGER)")
			for _, c := range []string{"serve", "migrate"} {
				out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_LISTEN=127.0.0.1:0"},
					c).CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
					t.Errorf("%s: %v\n%s", c, err, out)
				}
				if said := string(out); strings.Contains(said, "does not answer") ||
					strings.Contains(said, "not available") ||
					!strings.Contains(said, "_clockd.sql, statement") {
					t.Errorf("%s says\n%s", c, said)
				}
			}
		})
	}
}

// SIGTERM ends a migration after its running statement, which waits for a person's lock in this test. The next start
// continues the migration.
func TestSignalEndsMigrationAfterItsStatement(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t, mariadb(t))
	db := openDatabase(t, databaseURL)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := tx.QueryRow("SELECT COUNT(*) FROM alarm").Scan(&rows); err != nil { // holds a lock on the table's definition
		t.Fatal(err)
	}
	cmd := programCommand(builtLater(), []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_LOG_LEVEL=debug"},
		"migrate")
	log := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change of the table waits", func() bool {
		sessions, err := storetest.MySQLSessions(t.Context(), db)
		return err == nil && slices.ContainsFunc(sessions, func(s storetest.MySQLSession) bool {
			return strings.HasPrefix(s.State, "Waiting for table metadata lock")
		})
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("ended while its statement ran: %v\n%s", err, log)
	case <-time.After(500 * time.Millisecond): // by now a faulty migration would have ended
	}
	_ = tx.Rollback()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatalf("does not end\n%s", log)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure ||
		!strings.Contains(log.String(), "migration "+laterMigration) {
		t.Errorf("ended with %v:\n%s", err, log)
	}
	var format string
	err = db.QueryRow("SELECT row_format FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'alarm'").Scan(&format)
	if err != nil || !strings.EqualFold(format, "dynamic") {
		t.Errorf("the running statement was cancelled: the table's format is %q, %v", format, err)
	}
	startProgram(t, builtLater(), "CLOCKD_DATABASE_URL="+databaseURL)
}

// The server dies during a migration and comes back. The process waits for the server and continues the migration.
func TestMigrationContinuesAfterTheServerDied(t *testing.T) {
	t.Parallel()
	s := startPrivateServers(t, "mariadb")
	databaseURL := migrated(t, s.env["CLOCKD_TEST_MYSQL_URL"])
	db := openDatabase(t, databaseURL)
	const digits = "(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
	mustExec(t, db, `INSERT INTO alarm (application, business_id, shard, state, generation, payload, payload_kind, content_type,
		target_ring_at, next_try_time, max_rings, priority, create_time, update_time)
		SELECT 'shop', CONCAT(a.d, b.d, c.d, e.d, f.d), a.d, 1, 1, 'paid', 0, 'text/plain', 4102444800000, 4102444800000, 1, 0, 1, 1
		FROM `+digits+" a, "+digits+" b, "+digits+" c, "+digits+" e, "+digits+" f")
	p := startingProgram(t, builtLater(), "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_LOG_LEVEL=debug")
	eventually(t, "the table is rebuilt", func() bool {
		return strings.Contains(p.log.String(), "migration="+laterMigration+" statement=1")
	})
	s.do("kill", "mariadb")
	s.do("start", "mariadb")
	p.awaitListening()
	if said := p.log.String(); strings.Contains(said, "version=99") &&
		!strings.Contains(said, "a migration was interrupted and goes on") {
		t.Log("the table was rebuilt before the server died")
	}
	if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "01234"), nil); a.State != "scheduled" {
		t.Errorf("an alarm from before: %+v", a)
	}
	clean := parse(t, databaseURL)
	clean.Path = "/clockd_clean"
	mustExec(t, db, "CREATE DATABASE clockd_clean")
	startProgram(t, builtLater(), "CLOCKD_DATABASE_URL="+clean.String()).kill()
	if got, want := definition(t, db), definition(t, openDatabase(t, clean.String())); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

// definition returns the definition of the table alarm, without the next id.
func definition(t *testing.T, db *sql.DB) string {
	t.Helper()
	var name, text string
	if err := db.QueryRowContext(t.Context(), "SHOW CREATE TABLE alarm").Scan(&name, &text); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(text, "AUTO_INCREMENT=")
	return head + strings.TrimLeft(rest, "0123456789 ")
}

// laterMigration is the migration that a later build has, and this one not. Its first statement rebuilds a table.
const laterMigration = "00099_later.sql"

const laterStatements = `-- +goose Up
-- side by side: yes, because this build does not look at the index.
ALTER TABLE alarm
    MODIFY COLUMN claim_id VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    ROW_FORMAT = DYNAMIC;
ALTER TABLE alarm
    ADD COLUMN later BIGINT NOT NULL DEFAULT 0,
    ADD KEY alarm_later (later, id);
`

// builtLater builds the later build once.
var builtLater = sync.OnceValue(func() string {
	program := filepath.Join(filepath.Dir(release()), "later") // TestMain removes the folder
	statements := program + ".sql"
	err := os.WriteFile(statements, []byte(laterStatements), 0o600)
	if err == nil {
		err = buildOverlaid(program, map[string]string{"schema/mysql/" + laterMigration: statements})
	}
	if err != nil {
		panic(err)
	}
	return program
})
