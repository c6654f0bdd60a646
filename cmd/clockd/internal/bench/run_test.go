package bench

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// setting returns a URL of the services that tests run on; without them the test fails.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the tests by `make test`, or after eval \"$(deploy/services env)\"", name)
	}
	return value
}

// quick returns a small bench.
func quick(databaseURL, amqpURL string) Config {
	cfg := DefaultConfig()
	cfg.Quick()
	cfg.DatabaseURL, cfg.AMQPURL, cfg.Executable, cfg.Version = databaseURL, amqpURL, executable, "test"
	return cfg
}

func TestRunSQLite(t *testing.T) {
	directory := t.TempDir()
	testRun(t, quick("sqlite:"+filepath.Join(directory, "some.db"), ""))
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunMariaDB(t *testing.T) {
	url := setting(t, "CLOCKD_TEST_MYSQL_URL")
	cfg := quick(url, setting(t, "CLOCKD_TEST_AMQP_URL"))
	cfg.Queue = Classic
	testRun(t, cfg)
	base, err := mysqlConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", base.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	noneLeft(t, func() (names []string, err error) {
		rows, err := db.QueryContext(t.Context(), "SHOW DATABASES")
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
		return names, rows.Err()
	})
}

func TestRunPostgreSQL(t *testing.T) {
	url := setting(t, "CLOCKD_TEST_POSTGRES_URL")
	testRun(t, quick(url, setting(t, "CLOCKD_TEST_AMQP_URL")))
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	noneLeft(t, func() ([]string, error) {
		rows, err := conn.Query(t.Context(), "SELECT datname FROM pg_database")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	})
}

// made are the names that the benches of this process have made.
var made []string

// noneLeft fails when a database that this process made still exists; others' benches may run beside.
func noneLeft(t *testing.T, list func() ([]string, error)) {
	t.Helper()
	names, err := list()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if slices.Contains(made, name) {
			t.Errorf("left behind: %s", name)
		}
	}
}

// testRun runs every stage and looks at what is reported: that it is there and right, not how fast.
func testRun(t *testing.T, cfg Config) {
	t.Helper()
	nameMade = func(name string) { made = append(made, name) }
	t.Cleanup(func() { nameMade = func(string) {} })
	var progress bytes.Buffer
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	if len(made) == 0 {
		t.Error("nothing was made")
	}
	if err := report.Bad(); err != nil {
		t.Error(err)
	}
	expectRings(t, report)
	for _, stage := range Stages() {
		if !slices.ContainsFunc(report.Figures, func(f Figure) bool { return f.Stage == stage && f.Value > 0 && f.Unit == perSecond || f.Unit == millis }) {
			t.Errorf("no figure of %s", stage)
		}
	}
	expectTexts(t, report)
}

func expectRings(t *testing.T, report *Report) {
	t.Helper()
	expected := map[string]int{stageHerd: report.Plan.Herd, stageLateness: report.Plan.Rate, stagePending: report.Plan.Rate}
	for _, c := range report.Rings {
		if c.Expected != expected[c.Stage] || c.Rung != c.Expected {
			t.Errorf("rings: %+v, want %d", c, expected[c.Stage])
		}
		delete(expected, c.Stage)
	}
	if len(expected) > 0 {
		t.Errorf("no rings of %v", expected)
	}
}

func expectTexts(t *testing.T, report *Report) {
	t.Helper()
	var table bytes.Buffer
	if err := report.Write(&table); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{report.Database, report.Target, "herd, 2,000 due at once", "CEILING", "EARLY"} {
		if text == "" || !strings.Contains(table.String(), text) {
			t.Errorf("no %q in\n%s", text, &table)
		}
	}
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(b, &again); err != nil || len(again.Figures) != len(report.Figures) {
		t.Errorf("the JSON cannot be read again: %v", err)
	}
}

// An interrupt ends the bench soon, and all is removed.
func TestRunInterrupted(t *testing.T) {
	directory := t.TempDir()
	cfg := quick("sqlite:"+filepath.Join(directory, "some.db"), "")
	cfg.Only, cfg.For = []string{stageLateness}, time.Minute
	stopped := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := time.Now()
	cfg.Progress = writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("alarms a second for")) {
			cancel(stopped)
		}
		return len(p), nil
	})
	_, err := Run(ctx, cfg)
	if !errors.Is(err, stopped) {
		t.Errorf("error %v, want the interrupt", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A service that does not start is told with what it said.
func TestRunChildFails(t *testing.T) {
	t.Setenv("CLOCKD_RING_BATCH", "-1")
	cfg := quick("sqlite:"+filepath.Join(t.TempDir(), "some.db"), "")
	_, err := Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "ring batch rows") {
		t.Errorf("error %v, want what clockd said", err)
	}
}
