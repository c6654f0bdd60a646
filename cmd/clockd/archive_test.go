package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"

	"github.com/clockd/clockd/store/archive"
	"github.com/clockd/clockd/store/engine"
)

// runCommand runs a command of clockd on a database, and returns its output and whether it succeeded.
func runCommand(databaseURL string, args ...string) (string, bool) {
	out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, args...).CombinedOutput()
	return string(out), err == nil
}

func mustRun(t *testing.T, databaseURL string, args ...string) string {
	t.Helper()
	out, succeeded := runCommand(databaseURL, args...)
	if !succeeded {
		t.Fatalf("clockd %s: %s", strings.Join(args, " "), out)
	}
	return out
}

// migrated makes the tables of a new database, and returns its URL.
func migrated(t *testing.T, databaseURL string) string {
	t.Helper()
	mustRun(t, databaseURL, "migrate")
	return databaseURL
}

// mustFail demands that a command fails with a message.
func mustFail(t *testing.T, databaseURL, message string, args ...string) {
	t.Helper()
	if out, succeeded := runCommand(databaseURL, args...); succeeded || !strings.Contains(out, message) {
		t.Errorf("clockd %s: success %v, output\n%s\nwant a failure with %q", strings.Join(args, " "), succeeded, out,
			message)
	}
}

// exportedID is the id of an alarm in an export.
var exportedID = regexp.MustCompile(`"id":\d+,`)

// exportOf exports the database, and returns the lines that two equal databases have alike.
func exportOf(t *testing.T, databaseURL string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export")
	mustRun(t, databaseURL, "export", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(exportedID.ReplaceAll(content, nil)), "\n")
	return lines[1:] // the first has the time and the engine
}

// The alarms of a used database go from MariaDB to PostgreSQL, to SQLite and back. Each database exports the same
// lines, and clockd goes on with the last one.
func TestExportMovesAlarmsThroughAllEngines(t *testing.T) {
	t.Parallel()
	first := mariadb(t)
	p := start(t, "CLOCKD_DATABASE_URL="+first)
	mustRun(t, first, "application", "set", "shop", "--target", "stream", "--retry", "initial=50ms,cap=60ms,limit=2")
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for i, body := range []string{
		`{"ring_at":"` + later + `","payload":{"n":1},"priority":3}`,
		`{"ring_at":"` + later + `","text":"süß \" \\ \u0000","ack_timeout":"30s","max_rings":4}`,
		`{"ring_at":"` + later + `","base64":"AAH/","latest_ring_at":"2100-01-01T00:00:00Z"}`,
		`{"ring_at":"` + later + `","delivery":"at_most_once"}`,
	} {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("a/%d ü", i)), json.RawMessage(body))
	}
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "a/3 ü"), nil)
	p.must(http.StatusOK, http.MethodPut, alarmPath("shop", "a/0 ü"),
		json.RawMessage(`{"ring_at":"`+later+`","payload":{"n":2}}`))
	p.kill()

	want, from := exportOf(t, first), first
	if len(want) < 6 {
		t.Fatalf("the export is\n%s", strings.Join(want, "\n"))
	}
	for _, to := range []string{migrated(t, postgres(t)), migrated(t, sqliteFile(t)), migrated(t, mariadb(t))} {
		file := filepath.Join(t.TempDir(), "export")
		mustRun(t, from, "export", file)
		mustRun(t, to, "import", file)
		if got := exportOf(t, to); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", parse(t, to).Scheme, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		mustFail(t, to, "has alarms already", "import", file)
		if out := mustRun(t, to, "import", "--merge", file); !strings.Contains(out, "count=0 present=4 different=0 settings=1") {
			t.Errorf("a repeated import says %s", out)
		}
		from = to
	}
	moved := start(t, "CLOCKD_DATABASE_URL="+from)
	rings := moved.listen("shop")
	moved.must(http.StatusOK, http.MethodPut, alarmPath("shop", "a/0 ü"),
		json.RawMessage(`{"delay":0,"payload":{"n":3}}`))
	eventually(t, "a moved alarm rings", func() bool { return rings.number() == 1 })
}

// Destinations have other numbers in the database of an import, if it has settings already. The alarms ring at the
// destinations that they name.
func TestImportedAlarmsKeepTheirDestinations(t *testing.T) {
	t.Parallel()
	h, address := startHooks(t)
	other, otherAddress := startHooks(t)
	from, to := sqliteFile(t), migrated(t, sqliteFile(t))
	p := start(t, "CLOCKD_DATABASE_URL="+from, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1")
	refunds := []string{"application", "set", "shop", "--destination=refunds", "--webhook-url=" + address,
		"--webhook-alarm-field=url=" + address + "/*"}
	mustRun(t, from, refunds...)
	eventually(t, "the node applies the settings", func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "1"), json.RawMessage(`{"delay":"2s","target":"webhook/refunds"}`))
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "2"), map[string]any{"delay": "2s",
		"target": "webhook/refunds", "receiver": map[string]string{"url": address + "/own"}})
	p.kill()
	file := filepath.Join(t.TempDir(), "export")
	mustRun(t, from, "export", file)
	mustRun(t, to, "application", "set", "shop", "--destination=other", "--webhook-url="+otherAddress)
	mustFail(t, to, "never had the destination webhook/refunds", "import", file)
	mustRun(t, to, refunds...)
	mustFail(t, to, "imported count=2 present=0 different=1", "import", "--merge", file) // the settings differ
	moved := start(t, "CLOCKD_DATABASE_URL="+to, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1")
	eventually(t, "the moved alarms ring", func() bool { return moved.inState("shop", clock.Rung) == 2 })
	if h.number() != 2 || other.number() != 0 {
		t.Errorf("%d rings at the destination, %d at another one", h.number(), other.number())
	}
}

func TestExportResumesWhereItEnded(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	for i := range 3 {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint(i)), json.RawMessage(`{"delay":"1h"}`))
	}
	want := exportOf(t, databaseURL)
	file := filepath.Join(t.TempDir(), "export")
	mustRun(t, databaseURL, "export", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	mustFail(t, databaseURL, "exists already", "export", file)
	mustFail(t, databaseURL, "is complete", "export", "--resume", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	cut := bytes.Join(lines[:3], nil) // the header, two alarms
	if err := os.WriteFile(file, append(cut, lines[3][:20]...), 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, migrated(t, sqliteFile(t)), "not complete", "import", file)
	mustRun(t, databaseURL, "export", "--resume", file)
	into := migrated(t, sqliteFile(t))
	mustRun(t, into, "import", file)
	if got := exportOf(t, into); !slices.Equal(got, want) {
		t.Errorf("the resumed export has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestImportNamesWhatItDoesNotStore(t *testing.T) {
	t.Parallel()
	from, to := sqliteFile(t), migrated(t, sqliteFile(t))
	p := start(t, "CLOCKD_DATABASE_URL="+from)
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "4711"), json.RawMessage(`{"delay":"1h"}`))
	file := filepath.Join(t.TempDir(), "export")
	mustRun(t, from, "export", file)
	mustRun(t, to, "import", file)
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "4711"), nil)
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "4712"), json.RawMessage(`{"delay":"1h"}`))
	second := filepath.Join(t.TempDir(), "export")
	mustRun(t, from, "export", second)
	mustFail(t, to, "alarm 4711 of shop", "import", "--merge", second)
	if out, _ := runCommand(to, "import", "--merge", second); !strings.Contains(out, "count=0 present=1 different=1") {
		t.Errorf("the import after it says %s", out)
	}

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, bytes.Replace(content, []byte(`"state":1`), []byte(`"state":8`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, migrated(t, sqliteFile(t)), "line 2: alarm 4711 of shop: column state cannot be read", "import", broken)
	mustFail(t, migrated(t, sqliteFile(t)), "1 lines are passed over", "import", "--skip-invalid", broken)
	mustFail(t, migrated(t, sqliteFile(t)), "is no export of clockd", "import", "harness_test.go")
}

// A backup of SQLite has the alarms as of one moment. A database restored from it does not use ids again.
func TestBackupOfSQLiteIsADatabase(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "4711"), json.RawMessage(`{"delay":"1h"}`))
	copied := filepath.Join(t.TempDir(), "copy.db")
	mustRun(t, databaseURL, "backup", copied)
	mustFail(t, databaseURL, "exists already", "backup", copied)
	if want, got := exportOf(t, databaseURL), exportOf(t, "sqlite:"+copied); !slices.Equal(got, want) {
		t.Errorf("the copy has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	restored := start(t, "CLOCKD_DATABASE_URL=sqlite:"+copied)
	rings := restored.listen("shop")
	restored.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "4712"), json.RawMessage(`{"delay":0}`))
	eventually(t, "an alarm of the restored database rings", func() bool { return rings.number() == 1 })
	if id := rings.all()[0].messageID; len(id) < len("10000000002.1.1") {
		t.Errorf("the message id %s may have been used after the backup", id)
	}
	mustFail(t, "mysql://clockd:secret@db:3306/clockd",
		"mariadb-dump --single-transaction --host=db --port=3306 --user=clockd --password clockd >copy", "backup",
		"copy")
	mustFail(t, "postgres://clockd:secret@db/clockd",
		"pg_dump --format=custom --host=db --username=clockd --file=copy clockd", "backup", "copy")
}

// The memory of an export and an import does not depend on the number of alarms.
func TestArchivesTakeBoundedMemory(t *testing.T) {
	const few, many = 2000, 20_000
	if first, second := archiveMemory(t, few), archiveMemory(t, many); second > first+24<<20 {
		t.Errorf("an export and import of %d alarms take %d MiB, of %d alarms %d MiB", few, first>>20, many, second>>20)
	}
}

// archiveMemory imports that many alarms into a SQLite file and exports them. It returns the most memory that was in
// use.
func archiveMemory(t *testing.T, count int) (most uint64) {
	t.Helper()
	st, err := newStore(databaseFlags{DatabaseURL: sqliteFile(t)}, spareRingConns, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := errors.Join(st.Migrate(t.Context()), st.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	database, is := st.(*engine.Store)
	if !is {
		t.Fatalf("%T", st)
	}
	measure := func() {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	groups := 0
	done, err := archive.Import(t.Context(), manyAlarms(count), database, archive.Options{
		Progress: func(archive.Result) {
			if groups++; groups%8 == 0 {
				measure()
			}
		},
		Different: func(what string) { t.Errorf("%s exists", what) },
	})
	if err != nil || done.Created != count {
		t.Fatalf("%+v, %v", done, err)
	}
	at, err := archive.Export(context.WithoutCancel(t.Context()), database, io.Discard, archive.Position{},
		func(archive.Position) { measure() })
	if err != nil || at.Alarms != count {
		t.Fatalf("%+v, %v", at, err)
	}
	return most
}

// alarmReader is an export with many alarms, made as it is read.
type alarmReader struct {
	bytes.Buffer
	next, count int
}

func manyAlarms(count int) *alarmReader {
	r := &alarmReader{count: count}
	r.WriteString(`{"clockd_export":{"version":1,"engine":"","taken_at":""}}` + "\n")
	return r
}

// Read makes the next lines when the ones before are read.
func (r *alarmReader) Read(p []byte) (int, error) {
	for r.Len() == 0 && r.next <= r.count {
		if r.next == r.count {
			fmt.Fprintf(r, `{"end":{"alarms":%d,"settings":0}}`+"\n", r.count)
		} else {
			fmt.Fprintf(r,
				`{"alarm":{"id":%d,"application":"shop","business_id":"%07d","state":1,"generation":1,"payload":"%s","payload_kind":3,`+
					`"content_type":"text/plain","target_ring_at":4102444800000,"next_try_time":4102444800000,"max_rings":10,`+
					`"create_time":1794000000000,"update_time":1794000000000,"due_rank":9}}`+"\n", r.next+1, r.next,
				strings.Repeat("aGVs", 64))
		}
		r.next++
	}
	return r.Buffer.Read(p)
}

// Only serve and migrate make a database. The other commands name the one that they work on.
func TestCommandsMakeNoDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"application", "set", "shop", "--max-rings=3"}, {"application", "list"}, {"application", "pause", "shop"},
		{"token", "list"},
		{"token", "create", "shop", "--role=admin"}, {"export", "-"}, {"import", "harness_test.go"},
		{"backup", "copy.db"}, {"restore-finish"},
	} {
		databaseURL := sqliteFile(t)
		path := strings.TrimPrefix(databaseURL, "sqlite:")
		mustFail(t, databaseURL, "there is no database "+databaseURL+"; clockd serve and clockd migrate make it",
			args...)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("clockd %s has made a database: %v", strings.Join(args, " "), err)
		}
		cmd := command(nil, args...) // without CLOCKD_DATABASE_URL
		cmd.Dir = filepath.Dir(path)
		if args[0] == "import" {
			cmd.Args[len(cmd.Args)-1] = "/dev/null"
		}
		if out, err := cmd.CombinedOutput(); err == nil ||
			!strings.Contains(string(out), filepath.Join(cmd.Dir, "clockd.db")+"; CLOCKD_DATABASE_URL is not set") {
			t.Errorf("clockd %s: %v, %s", strings.Join(args, " "), err, out)
		}
	}
	databaseURL := migrated(t, sqliteFile(t))
	for _, args := range [][]string{{"application", "set", "shop", "--max-rings=3"}, {"token", "list"}} {
		if out := mustRun(t, databaseURL, args...); !strings.HasPrefix(out, "database: "+databaseURL+"\n") {
			t.Errorf("clockd %s: %s", strings.Join(args, " "), out)
		}
	}
}
