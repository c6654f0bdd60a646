package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// After a restore no message id names another ring than before, alarms that may have rung ring again under the same
// message id, and alarms that ring at most once do not.
func TestRestoredDatabaseRepeatsNoMessageID(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			original, restored := e.open(t), e.open(t)
			setUpBackup(t, original)
			copyDatabase(t, original, restored)

			p := startOn(t, original, nil)
			lost := p.listen("shop")
			p.setAtOnce("lost", "waiting", "over", "new")
			eventually(t, "the alarms ring after the backup", func() bool { return lost.number() == 5 })
			mustFail(t, original, "stop all nodes first", "restore-finish")
			p.kill()

			out := mustRun(t, restored, "restore-finish")
			for _, count := range []string{"in_doubt=2", "at_most_once=1", "raised=2"} {
				if !strings.Contains(out, count) {
					t.Errorf("want %s in: %s", count, out)
				}
			}
			p = startOn(t, restored, nil)
			again := p.listen("shop")
			p.setAtOnce("restored", "waiting", "over", "newer")
			eventually(t, "the alarms ring after the restore", func() bool { return again.number() >= 4 })
			wantOnlyDueAgain(t, lost.all(), again.all())
			if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "once"), nil); a.State != "rung" ||
				!a.InDoubt {
				t.Errorf("the alarm that rings at most once: %+v", a)
			}
			if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "due"), nil); a.State != "rung" ||
				a.InDoubt {
				t.Errorf("the alarm that was due: %+v", a)
			}
		})
	}
}

// setUpBackup leaves a database with a due alarm, a due at-most-once alarm, a waiting alarm and a cancelled one.
func setUpBackup(t *testing.T, databaseURL string) {
	t.Helper()
	p := startOn(t, databaseURL, nil)
	for _, id := range []string{"due", "once", "waiting", "over"} {
		alarm := map[string]any{"delay": "1h", "payload": "before the backup"}
		if id == "once" {
			alarm["delivery"] = "at_most_once"
		}
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), alarm)
	}
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "over"), nil)
	if err := p.terminate(); err != nil {
		t.Fatal(err)
	}
	db := openDatabase(t, databaseURL)
	mustExec(t, db,
		fmt.Sprintf("UPDATE alarm SET next_try_time = %d WHERE business_id IN ('due', 'once')", time.Now().UnixMilli()))
	_ = db.Close() // PostgreSQL copies only a database without connections
}

// copyDatabase copies a database to an empty one, as a backup and its restore do.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	source, target := strings.TrimPrefix(parse(t, from).Path, "/"), strings.TrimPrefix(parse(t, to).Path, "/")
	switch parse(t, from).Scheme {
	case "sqlite":
		backup := filepath.Join(t.TempDir(), "backup")
		mustRun(t, from, "backup", backup)
		if err := os.Rename(backup, strings.TrimPrefix(to, "sqlite:")); err != nil {
			t.Fatal(err)
		}
	case "mysql":
		db := openDatabase(t, from)
		for _, table := range baseTables(t, from) {
			mustExec(t, db, fmt.Sprintf("CREATE TABLE %s.%s LIKE %s", target, table, table))
			mustExec(t, db, fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s", target, table, table))
		}
	default:
		server := *parse(t, from)
		server.Path = "/postgres"
		db := openDatabase(t, server.String())
		mustExec(t, db, "DROP DATABASE "+target)
		mustExec(t, db, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", target, source))
	}
}

func baseTables(t *testing.T, databaseURL string) (tables []string) {
	t.Helper()
	const query = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
	rows, err := openDatabase(t, databaseURL).QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tables
}

// setAtOnce sets alarms of the shop that are due at once.
func (p *process) setAtOnce(payload string, ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		a, err := p.doWithRoom(http.MethodPut, alarmPath("shop", id), map[string]any{"delay": 0, "payload": payload})
		if err != nil || a.Status != http.StatusOK && a.Status != http.StatusCreated {
			p.t.Fatalf("set %s: %+v, %v", id, a, err)
		}
	}
}

// wantOnlyDueAgain checks that only the due alarm has its message id again, with the same body, and that the
// at-most-once alarm has not rung.
func wantOnlyDueAgain(t *testing.T, lost, again []receivedRing) {
	t.Helper()
	bodies := map[string]string{}
	for _, r := range lost {
		bodies[r.messageID] = r.body
	}
	for _, r := range again {
		if body, known := bodies[r.messageID]; known != (r.businessID == "due") || known && body != r.body {
			t.Errorf("%s rang as %s with %s; before the restore that was %q", r.businessID, r.messageID, r.body, body)
		}
		if r.businessID == "once" {
			t.Error("an alarm that rings at most once may have rung twice")
		}
	}
}
