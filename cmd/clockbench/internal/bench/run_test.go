package bench

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// setting returns the URL of a service for tests. Without it the test fails.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the tests by `make test`, or after eval \"$(deploy/services env)\"", name)
	}
	return value
}

// quickConfig returns a Config for a small bench of all stages, including the distribution, without the overload.
func quickConfig(databaseURL, amqpURL string) Config {
	cfg := DefaultConfig()
	cfg.Quick()
	cfg.DatabaseURL, cfg.AMQPURL, cfg.Executable, cfg.Baseline, cfg.Version = databaseURL, amqpURL, executable, baseline, "test"
	cfg.Only = slices.DeleteFunc(Stages(),
		func(stage string) bool { return stage != stageDistribution && !cfg.runs(stage) })
	return cfg
}

// smokeStages are the stages that TestRunMeasures* run. TestSoakRunMeasures* run all of them.
var smokeStages = []string{stageSets, stageHerd, stageLateness}

// smokeConfig returns a Config for a bench of seconds.
func smokeConfig(databaseURL, amqpURL string) Config {
	cfg := quickConfig(databaseURL, amqpURL)
	cfg.Only = smokeStages
	return cfg
}

func TestRunMeasuresSQLite(t *testing.T) {
	t.Parallel()
	runOnSQLite(t, smokeConfig)
}

// TestRunMeasuresReceivers rings webhooks, calls of gRPC and workers that reserve rings.
func TestRunMeasuresReceivers(t *testing.T) {
	t.Parallel()
	runOnSQLite(t, func(databaseURL, amqpURL string) Config {
		cfg := quickConfig(databaseURL, amqpURL)
		cfg.Only = []string{stageWebhook, stageGRPC, stagePull}
		return cfg
	})
}

func TestRunMeasuresMariaDB(t *testing.T) {
	t.Parallel()
	runOnMariaDB(t, smokeConfig)
}

func TestRunMeasuresPostgreSQL(t *testing.T) {
	t.Parallel()
	runOnPostgreSQL(t, smokeConfig)
}

// configOf returns the Config of a bench on a database. amqpURL is empty without a broker.
type configOf func(databaseURL, amqpURL string) Config

func runOnSQLite(t *testing.T, config configOf) {
	t.Helper()
	directory := t.TempDir()
	testRun(t, config("sqlite:"+filepath.Join(directory, "some.db"), ""))
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func runOnMariaDB(t *testing.T, config configOf) {
	t.Helper()
	url := setting(t, "CLOCKD_TEST_MYSQL_URL")
	cfg := config(url, setting(t, "CLOCKD_TEST_AMQP_URL"))
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

func runOnPostgreSQL(t *testing.T, config configOf) {
	t.Helper()
	url := setting(t, "CLOCKD_TEST_POSTGRES_URL")
	testRun(t, config(url, setting(t, "CLOCKD_TEST_AMQP_URL")))
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

// createdNames holds the names that the benches of this process have used.
var createdNames sync.Map

// noneLeft fails if a database of this process still exists. Benches of other processes may run at the same time.
func noneLeft(t *testing.T, list func() ([]string, error)) {
	t.Helper()
	names, err := list()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, ours := createdNames.Load(name); ours {
			t.Errorf("left behind: %s", name)
		}
	}
}

// testRun runs the stages of cfg and checks that the report is complete and correct. It does not check speed.
func testRun(t *testing.T, cfg Config) {
	t.Helper()
	var progress bytes.Buffer
	cfg.Progress = &progress
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	some := false
	if createdNames.Range(func(any, any) bool { some = true; return false }); !some {
		t.Error("no database was made")
	}
	if err := report.Bad(); err != nil {
		t.Error(err)
	}
	expectRings(t, &cfg, report)
	expectDistribution(t, &cfg, report)
	if cfg.runs(stageCost) {
		expectCosts(t, report, cfg.AMQPURL != "")
	}
	for _, stage := range Stages() {
		measured := slices.ContainsFunc(report.Figures, func(f Figure) bool { return f.Stage == stage && f.Value > 0 })
		if measured != cfg.runs(stage) {
			t.Errorf("figures of %s: %t", stage, measured)
		}
	}
	expectTexts(t, report)
}

func expectRings(t *testing.T, cfg *Config, report *Report) {
	t.Helper()
	p, rung := &report.Plan, map[string]int{}
	for _, c := range report.Rings {
		if c.Rung != c.Expected {
			t.Errorf("rings: %+v", c)
		}
		rung[c.Stage] += c.Expected
	}
	expected := map[string]int{stageHerd: p.Herd, stageLateness: p.Rate, stageMemory: p.Crowd,
		stageCost: p.Herd + p.Rate, stageWebhook: p.Herd + p.Herd/busyPart + p.Rate,
		stageGRPC:  p.Herd + p.Herd/busyPart + p.Rate,
		stageKafka: p.Herd + p.Rate, stagePull: 3*p.Herd + 2*p.Rate}
	if strings.HasPrefix(report.Target, "RabbitMQ") {
		expected[stageStream] = p.Herd
		expected[stageNodes] = len(nodeCounts) * (p.Herd/2 + p.Rate)
		expected[stageIntake] = p.Herd + p.Rate
	}
	for stage, n := range expected {
		if cfg.runs(stage) && rung[stage] != n {
			t.Errorf("%s: %d rings, want %d", stage, rung[stage], n)
		}
	}
	// the rate of the herd among pending alarms decides how many alarms ring at half that rate
	if least := 2*p.Rate + p.Herd + 2*p.Overdue; cfg.runs(stagePending) && rung[stagePending] <= least {
		t.Errorf("%s: %d rings, want more than %d", stagePending, rung[stagePending], least)
	}
}

// expectDistribution expects all bursts among each number of pending alarms, in order. With a broker it also expects
// bursts with a killed node.
func expectDistribution(t *testing.T, cfg *Config, report *Report) {
	t.Helper()
	var want []Burst
	for _, pending := range cfg.DistributionPending {
		if !cfg.runs(stageDistribution) {
			break
		}
		want = append(want, Burst{Pending: pending, Alarms: 1})
		for _, killed := range []bool{false, true}[:1+min(len(cfg.AMQPURL), 1)] {
			for _, n := range cfg.bursts {
				want = append(want, Burst{Pending: pending, Alarms: n, Killed: killed})
			}
		}
	}
	got := slices.Clone(report.Distribution)
	for i := range got {
		if n := got[i].Lateness.count(); n != max(got[i].Alarms, 10) || got[i].Lateness.Max == 0 {
			t.Errorf("%s: %d rings, the last after %d us", got[i].name(), n, got[i].Lateness.Max)
		}
		// the killed node's alarms wait for the end of its lease, which is longer than 300 ms
		if got[i].Killed && got[i].Lateness.percentile(1) < 300*time.Millisecond {
			t.Errorf("%s: the last ring came after %d us, as if no node was killed", got[i].name(), got[i].Lateness.Max)
		}
		got[i].Lateness = Histogram{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// expectCosts checks that the rings of a herd share statements and transactions, and that each ring is one message. On
// SQLite these are not counted. Other costs show that counting works at all, because so small a herd may use less than
// the variation of an idle node. The bytes of the server's log say little here, because other tests write at the same
// time.
func expectCosts(t *testing.T, report *Report, broker bool) {
	t.Helper()
	costOf := func(what string) Cost {
		i := slices.IndexFunc(report.Costs, func(c Cost) bool { return c.What == what })
		if i < 0 {
			t.Fatalf("no cost of %s", what)
		}
		return report.Costs[i]
	}
	var table bytes.Buffer
	if err := report.Write(&table); err != nil || !strings.Contains(table.String(), "WHAT ONE TAKES") ||
		!strings.Contains(table.String(), "ALLOCATIONS") {
		t.Errorf("%v, costs are missing in\n%s", err, &table)
	}
	herd, nothing, set := costOf("ring, herd"), costOf("nothing, for a second"), costOf("set, NDJSON")
	for col, most := range map[column]float64{colStatements: 0.5, colRoundTrips: 0.5, colTransactions: 0.2} {
		if n, counted := herd.value(col); counted != broker || n > most {
			t.Errorf("%s of a ring: %g, want at most %g", columnText(col), n, most)
		}
		if n, counted := nothing.value(col); counted != broker || counted && n <= 0 {
			t.Errorf("%s of an idle node: %g", columnText(col), n)
		}
	}
	if n, counted := herd.value(colBodiesOut); counted != broker || counted && math.Abs(n-1) > 0.1 {
		t.Errorf("bodies of a ring: %g", n)
	}
	for _, col := range []column{colLogBytes, colAllocations, colAllocated} {
		if _, counted := herd.value(col); !counted {
			t.Errorf("%s of a ring are not counted", columnText(col))
		}
		if n, counted := set.value(col); !counted || n < 1 && col != colLogBytes {
			t.Errorf("%s of a set: %g", columnText(col), n)
		}
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

// An interrupt ends the bench soon, and the bench removes everything that it has made.
func TestInterruptEndsTheRunAndCleansUp(t *testing.T) {
	directory := t.TempDir()
	cfg := quickConfig("sqlite:"+filepath.Join(directory, "some.db"), "")
	cfg.Only, cfg.For = []string{stageLateness}, time.Hour
	stopped := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
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
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The error about a service that does not start contains the end of its log.
func TestFailedStartShowsTheLog(t *testing.T) {
	t.Setenv("CLOCKD_RING_BATCH", "-1")
	cfg := quickConfig("sqlite:"+filepath.Join(t.TempDir(), "some.db"), "")
	_, err := Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "ring batch rows") {
		t.Errorf("error %v, want the end of clockd's log", err)
	}
}
