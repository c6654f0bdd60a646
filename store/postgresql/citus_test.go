//go:build citus

package postgresql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// TestCitusStore runs the suite on Citus. CLOCKD_TEST_CITUS_URL is the URL of a coordinator on which the test may
// create databases.
func TestCitusStore(t *testing.T)      { storetest.Run(t, distributedEngine(citusURL)) }
func TestCitusStoreApart(t *testing.T) { storetest.RunApart(t, distributedEngine(citusURL)) }
func TestCitusStoreAlone(t *testing.T) { storetest.RunAlone(t, distributedEngine(citusURL)) }

// BenchmarkCitusStore runs the benchmarks on Citus.
func BenchmarkCitusStore(b *testing.B) { storetest.Benchmark(b, distributedEngine(citusURL)) }

// citusURL creates an empty database on the coordinator and its workers, and returns its URL. The database is dropped
// when the test ends.
func citusURL(tb testing.TB) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	raw := os.Getenv("CLOCKD_TEST_CITUS_URL")
	u, err := url.Parse(raw)
	ok(tb, err, "parse CLOCKD_TEST_CITUS_URL")
	if raw == "" {
		tb.Fatal("CLOCKD_TEST_CITUS_URL is not set: make test-citus sets it")
	}
	name := "clockd_test_" + strings.ToLower(rand.Text())
	servers := append([]string{u.Host}, citusWorkers(tb, raw)...)
	tb.Cleanup(func() {
		for _, server := range servers {
			execOn(tb, onServer(*u, server, u.Path), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
	})
	for _, server := range servers {
		execOn(tb, onServer(*u, server, u.Path), "SET citus.enable_create_database_propagation = off",
			"CREATE DATABASE "+name)
		execOn(tb, onServer(*u, server, "/"+name), "CREATE EXTENSION citus")
	}
	coordinator, err := pgx.Connect(ctx, onServer(*u, u.Host, "/"+name))
	ok(tb, err, "connect")
	defer func() { _ = coordinator.Close(ctx) }()
	_, err = coordinator.Exec(ctx, "SELECT citus_set_coordinator_host($1, $2::text::int)", u.Hostname(), u.Port())
	ok(tb, err, "set the coordinator")
	for _, worker := range servers[1:] {
		host, port, _ := strings.Cut(worker, ":")
		_, err := coordinator.Exec(ctx, "SELECT citus_add_node($1, $2::text::int)", host, port)
		ok(tb, err, "add "+worker)
	}
	// sessions in California's time zone, so that a wrong conversion through the session's time zone shows
	return onServer(*u, u.Host, "/"+name) + "&timezone=America/Los_Angeles"
}

// citusWorkers returns the addresses of the workers.
func citusWorkers(tb testing.TB, coordinatorURL string) []string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, coordinatorURL)
	ok(tb, err, "connect to the coordinator: start it with deploy/citus")
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx,
		"SELECT concat(nodename, ':', nodeport) FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid")
	ok(tb, err, "list the workers")
	workers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(tb, err, "list the workers")
	if len(workers) < 2 {
		tb.Fatalf("the cluster has %d workers, and the test needs two", len(workers))
	}
	return workers
}

// onServer returns the URL with another server and another database.
func onServer(u url.URL, server, path string) string {
	u.Host, u.Path = server, path
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// execOn runs statements on a connection of their own.
func execOn(tb testing.TB, u string, statements ...string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, u)
	ok(tb, err, "connect")
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		ok(tb, err, fmt.Sprintf("run %s", statement))
	}
}

// counted is what a store sends to the workers.
type counted struct {
	mu       sync.Mutex
	commands []string
}

// take returns the commands since the last call.
func (c *counted) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.commands
	c.commands = nil
	return taken
}

// openCounted returns a store on a new distributed database, and the counts of its commands to the workers.
func openCounted(t *testing.T) (*opened, *counted) {
	t.Helper()
	s := openDistributed(t, citusURL(t)+"&citus.log_remote_commands=on&client_min_messages=notice", nil)
	ok(t, s.Migrate(t.Context()), "migrate")
	seen := &counted{}
	for _, pool := range []**pgxpool.Pool{&s.d.pool, &s.d.reads, &s.d.rings, &s.d.upkeep} {
		cfg := (*pool).Config()
		(*pool).Close()
		cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if command, is := strings.CutPrefix(n.Message, "issuing "); is {
				seen.mu.Lock()
				seen.commands = append(seen.commands, command)
				seen.mu.Unlock()
			}
		}
		var err error
		*pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
		ok(t, err, "open a pool")
	}
	ok(t, s.Check(t.Context()), "check")
	seen.take()
	return s, seen
}

// TestCitusSendsEachStatementToOneWorker counts the commands between the coordinator and the workers. No transaction
// has a second phase.
func TestCitusSendsEachStatementToOneWorker(t *testing.T) {
	s, seen := openCounted(t)
	const placements, n = 8, 400
	now := clock.Instant(1_795_000_000_000)
	sets, cancels := make([]clock.Op, n), make([]clock.Op, n)
	for i := range sets {
		key := clock.Key{Application: "shop", BusinessID: fmt.Sprint("k", i)}
		sets[i] = clock.Op{Set: &clock.Set{Key: key, Content: clock.Content{
			RingAt: now, LatestRingAt: clock.NoInstant, ContentType: "text/plain", Retry: clock.DefaultRetryPolicy(),
			MaxRings: 1,
		}}}
		cancels[i] = clock.Op{Cancel: &clock.Cancel{Key: key, Brief: true}}
	}
	write := func(ops []clock.Op) []clock.Decision {
		decisions, err := s.Write(t.Context(), clock.WriteRequest{Now: now, Ops: ops})
		ok(t, err, "write")
		return decisions
	}
	var ids []int64
	var claim *store.Claim
	settle := func(kind clock.OutcomeKind) {
		fates := make([]clock.Fate, len(claim.Rings))
		for i := range fates {
			fates[i] = clock.FateOf(&claim.Rings[i], clock.Outcome{Kind: kind, Reason: "no queue"}, now+1)
		}
		ok(t, claim.Settler.Settle(t.Context(), now+1, fates), "settle")
	}
	take := func(ids []int64) {
		var err error
		claim, err = s.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: now, ClaimID: "c", MaxBytes: 1 << 20})
		ok(t, err, "claim")
		if len(claim.Rings) != len(ids) {
			t.Fatalf("%d rings of %d alarms", len(claim.Rings), len(ids))
		}
	}
	for _, c := range []struct {
		name string
		do   func()
		want int // BEGIN, statements and COMMIT
	}{
		{"prepare the connections", func() { write(sets[:1]) }, -1},
		{"a group of sets", func() {
			for _, d := range write(sets[1:]) {
				ids = append(ids, d.Alarm.ID)
			}
		}, 3 * placements},
		{"prepare the statements of claims", func() { take(ids[:200]); settle(clock.Confirmed) }, -1},
		{"claim of fresh alarms", func() { take(ids[200:250]) }, 2 * placements},
		{"settlement of confirmed rings", func() { settle(clock.Confirmed) }, placements},
		{"claim of fresh alarms", func() { take(ids[250:300]) }, 2 * placements},
		{"settlement of returned rings", func() { settle(clock.Returned) }, 4 * placements}, // UPDATE, INSERT, DELETE, COMMIT
		{"a group of cancels", func() { write(cancels[301:]) }, 3 * placements},
		{"read of one alarm", func() {
			_, err := s.Get(t.Context(), sets[0].Set.Key)
			ok(t, err, "get")
		}, 2},
		{"purge", func() {
			_, err := s.Purge(t.Context(), now, now, 10_000)
			ok(t, err, "purge")
		}, placements},
		{"page of due alarms", func() {
			_, err := s.Due(t.Context(),
				store.DueQuery{Shards: allShards(64), Until: store.Position{Time: now + 1}, Limit: 10})
			ok(t, err, "due")
		}, placements},
	} {
		c.do()
		commands := seen.take()
		if c.want >= 0 && len(commands) != c.want {
			t.Errorf("%s: %d commands, want %d:\n%.2000s", c.name, len(commands), c.want, strings.Join(commands, "\n"))
		}
		t.Logf("%s: %d commands", c.name, len(commands))
		for _, command := range commands {
			if strings.Contains(command, "PREPARE TRANSACTION") {
				t.Errorf("%s has a second phase: %s", c.name, command)
			}
		}
	}
}

func allShards(count int) []int {
	shards := make([]int, count)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// TestCitusWorkerDown takes one worker away: the alarms of the other one are set, listed as due, claimed and settled.
// Once the worker is back, so are its alarms.
func TestCitusWorkerDown(t *testing.T) {
	for number, worker := range citusWorkers(t, os.Getenv("CLOCKD_TEST_CITUS_URL")) {
		t.Run(fmt.Sprint("worker ", number+1), func(t *testing.T) { workerDown(t, worker) })
	}
}

func workerDown(t *testing.T, worker string) {
	u := citusURL(t)
	s := openDistributed(t, u, nil)
	ok(t, s.Migrate(t.Context()), "migrate")
	ok(t, s.Check(t.Context()), "check")
	now := clock.Instant(1_795_000_000_000)
	groups := map[string][]clock.Op{}
	set := func(prefix string) (ids []int64, failed int) {
		ops := make([]clock.Op, 200)
		for i := range ops {
			ops[i] = clock.Op{Set: &clock.Set{Key: clock.Key{Application: "shop", BusinessID: fmt.Sprint(prefix, i)}, Content: clock.Content{
				RingAt: now, LatestRingAt: clock.NoInstant, ContentType: "text/plain",
				Retry: clock.DefaultRetryPolicy(), MaxRings: 1,
			}}}
		}
		groups[prefix] = ops
		decisions, err := s.Write(t.Context(), clock.WriteRequest{Now: now, Ops: ops})
		ok(t, err, "write "+prefix)
		for _, d := range decisions {
			switch {
			case d.Verdict == clock.Create:
				ids = append(ids, d.Alarm.ID)
			case d.Verdict == clock.Refuse &&
				(errors.Is(d.Err, clock.ErrUnavailable) || errors.Is(d.Err, clock.ErrUnconfirmed)):
				failed++
			default:
				t.Fatalf("verdict %s: %v", d.Verdict, d.Err)
			}
		}
		return ids, failed
	}
	all, _ := set("before")
	due := func() int {
		page, err := s.Due(t.Context(),
			store.DueQuery{Shards: allShards(64), Until: store.Position{Time: now + 1}, Limit: 1000})
		ok(t, err, "due")
		return len(page.Rows)
	}
	if n := due(); n != 200 {
		t.Fatalf("%d alarms are due, want 200", n)
	}
	parsed, err := url.Parse(u)
	ok(t, err, "parse")
	admin, name := onServer(*parsed, worker, "/postgres"), strings.TrimPrefix(parsed.Path, "/")
	execOn(t, admin, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")

	during, failed := set("during")
	if len(during) == 0 || failed == 0 {
		t.Fatalf("with a worker away, %d sets succeed and %d fail", len(during), failed)
	}
	if n := due(); n <= len(during) || n >= 400 {
		t.Errorf("with a worker away, %d alarms are due", n)
	}
	s.d.rings.Reset() // the claim needs new connections
	claim, err := s.Claim(t.Context(), store.ClaimRequest{IDs: all, Now: now, ClaimID: "c", MaxBytes: 1 << 20})
	ok(t, err, "claim")
	if len(claim.Rings) == 0 || len(claim.Rings) == len(all) {
		t.Fatalf("with a worker away, %d alarms of %d are claimed", len(claim.Rings), len(all))
	}
	fates := make([]clock.Fate, len(claim.Rings))
	for i := range fates {
		fates[i] = clock.FateOf(&claim.Rings[i], clock.Outcome{Kind: clock.Confirmed}, now+1)
	}
	ok(t, claim.Settler.Settle(t.Context(), now+1, fates), "settle")

	execOn(t, admin, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS true")
	repeated, err := s.Write(t.Context(), clock.WriteRequest{Now: now, Ops: groups["during"]})
	ok(t, err, "repeat the sets")
	for _, d := range repeated {
		if d.Verdict != clock.Create && d.Verdict != clock.Keep {
			t.Fatalf("the repeated set has verdict %s: %v", d.Verdict, d.Err)
		}
	}
	if n, want := due(), 400-len(claim.Rings); n != want {
		t.Errorf("with the worker back, %d alarms are due, want %d", n, want)
	}
}

// TestCitusDurabilityAsksTheWorkers demands that a worker whose commits may be lost is found.
func TestCitusDurabilityAsksTheWorkers(t *testing.T) {
	u := citusURL(t)
	s := openDistributed(t, u, nil)
	ok(t, s.Migrate(t.Context()), "migrate")
	unsafe := func() (details []string) {
		found, err := s.Durability(t.Context())
		ok(t, err, "read how durable commits are")
		for _, f := range found {
			if !f.Safe {
				details = append(details, f.Detail)
			}
		}
		return details
	}
	if details := unsafe(); len(details) > 0 {
		t.Fatalf("the cluster of deploy/citus is not safe: %q", details)
	}
	parsed, err := url.Parse(u)
	ok(t, err, "parse")
	worker := citusWorkers(t, os.Getenv("CLOCKD_TEST_CITUS_URL"))[1]
	execOn(t, onServer(*parsed, worker, "/postgres"),
		"ALTER DATABASE "+strings.TrimPrefix(parsed.Path, "/")+" SET synchronous_commit = off")
	again := openDistributed(t, u, nil)
	found, err := again.Durability(t.Context())
	ok(t, err, "read how durable commits are")
	for _, f := range found {
		if !f.Safe && strings.Contains(f.Detail, worker) && f.Name == "synchronous_commit" {
			return
		}
	}
	t.Errorf("no finding names the worker %s: %v", worker, found)
}
