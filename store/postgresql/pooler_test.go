package postgresql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// pgBouncer is a PgBouncer in front of a PostgreSQL, both for one test.
type pgBouncer struct {
	url string // with session pooling
}

// startPgBouncer starts both servers.
func startPgBouncer(t *testing.T) *pgBouncer {
	t.Helper()
	dir, err := os.MkdirTemp("", "clockd-pgbouncer-test-") //nolint:usetesting // the servers' user must be able to enter it
	ok(t, err, "make a folder")
	ok(t, os.Chmod(dir, 0o755), "let the servers' user in")
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
	do("up", "postgresql", "pgbouncer")
	match := regexp.MustCompile(`CLOCKD_TEST_PGBOUNCER_URL='([^']+)'`).FindStringSubmatch(do("env"))
	if match == nil {
		t.Fatal("deploy/services env prints no URL of PgBouncer")
	}
	return &pgBouncer{url: match[1]}
}

// database returns the URL of another of PgBouncer's databases.
func (b *pgBouncer) database(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(b.url)
	ok(t, err, "parse the URL of PgBouncer")
	u.Path = "/" + name
	return u.String()
}

// configure changes a setting of the running PgBouncer.
func (b *pgBouncer) configure(t *testing.T, setting string) {
	t.Helper()
	admin, err := pgconn.Connect(t.Context(), b.database(t, "pgbouncer"))
	ok(t, err, "connect to the administration console")
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	_, err = admin.Exec(t.Context(), "SET "+setting).ReadAll()
	ok(t, err, "set "+setting)
}

// occupy lets clients use a database until the returned function is called.
func (b *pgBouncer) occupy(t *testing.T, name string, clients int) (release func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range clients {
		c, err := pgconn.Connect(ctx, b.database(t, name))
		ok(t, err, "connect another client")
		running.Go(func() {
			defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
			for ctx.Err() == nil {
				_, _ = c.Exec(context.WithoutCancel(ctx), "SELECT count(*) FROM generate_series(1, 1000)").ReadAll()
			}
		})
	}
	return func() {
		stop()
		running.Wait()
	}
}

func TestPoolersThatShareSessionsAreRefused(t *testing.T) {
	t.Parallel()
	b := startPgBouncer(t)
	t.Run("session pooling serves the store", b.testSessionPooling)
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode+" pooling is refused", func(t *testing.T) { b.requireRefusals(t, mode) })
		t.Run(mode+" pooling is refused beside other clients", func(t *testing.T) {
			defer b.occupy(t, mode, 6)()
			b.requireRefusals(t, mode)
		})
	}
	t.Run("transaction pooling behind a balancer is refused",
		func(t *testing.T) { (&pgBouncer{url: b.balance(t, 4)}).requireRefusals(t, "transaction") })
	t.Run("settings of clockd's own may stand in the URL", b.testSettingsInURL)
	t.Run("statement pooling is known by its refusal of BEGIN", b.testBegin)
	b.configure(t, "server_round_robin = 1")
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode+" pooling with server_round_robin is refused", func(t *testing.T) { b.requireRefusals(t, mode) })
		t.Run(mode+" pooling with server_round_robin is refused beside other clients", func(t *testing.T) {
			defer b.occupy(t, mode, 6)()
			b.requireRefusals(t, mode)
		})
	}
}

// requireRefusals opens 20 stores on a database. Each of them must find the shared sessions.
func (b *pgBouncer) requireRefusals(t *testing.T, database string) {
	for range 20 {
		s := openStore(t, b.database(t, database))
		for what, err := range map[string]error{"check": s.Check(t.Context()), "migrate": s.Migrate(t.Context())} {
			if !errors.Is(err, errSharedSessions) || errors.Is(err, clock.ErrUnavailable) ||
				!strings.Contains(err.Error(), "use session pooling") {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// balance returns the URL of a balancer before several poolers. Each new connection gets the next pooler: its database
// transaction is one of the databases transaction1 to transaction4, which share no session.
func (b *pgBouncer) balance(t *testing.T, poolers int) string {
	t.Helper()
	u, err := url.Parse(b.url)
	ok(t, err, "parse the URL of PgBouncer")
	server := u.Host
	front, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err, "listen")
	u.Host = front.Addr().String()
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = front.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for turn := 0; ; turn++ {
			client, err := front.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { forward(client, server, fmt.Sprintf("transaction%d", turn%poolers+1)) })
		}
	})
	return u.String()
}

// forward connects a client to the server, and names another database than transaction in the client's startup message.
func forward(client net.Conn, address, database string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	startup := make([]byte, 4096)
	n, err := client.Read(startup)
	if err != nil {
		return
	}
	startup = bytes.Replace(startup[:n], []byte("database\x00transaction\x00"), []byte("database\x00"+database+"\x00"),
		1)
	binary.BigEndian.PutUint32(startup, uint32(len(startup)))
	_, _ = server.Write(startup)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	both.Wait()
}

// testSettingsInURL checks a store whose URL has settings that PgBouncer does not know as startup parameters.
func (b *pgBouncer) testSettingsInURL(t *testing.T) {
	for _, setting := range []string{"statement_timeout=60000", "idle_in_transaction_session_timeout=7000", "enable_seqscan=on"} {
		s := openStore(t, b.url+"&"+setting)
		ok(t, s.Migrate(t.Context()), "migrate with "+setting)
		ok(t, s.Check(t.Context()), "check with "+setting)
	}
}

// testBegin begins a transaction in each pool mode.
func (b *pgBouncer) testBegin(t *testing.T) {
	for database, want := range map[string]error{"clockd": nil, "transaction": nil, "statement": errSharedSessions} {
		c, err := pgconn.Connect(t.Context(), b.database(t, database))
		ok(t, err, "connect")
		if err := refuseStatementPooling(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", database, err, want)
		}
		_ = c.Close(t.Context())
	}
}

// testSessionPooling takes each way of a store to its sessions: migration, writes, a held claim, notices, and a
// cancelled read.
func (b *pgBouncer) testSessionPooling(t *testing.T) {
	ok(t, openStore(t, b.url).Migrate(t.Context()), "migrate")
	one, two := openChecked(t, b.url), openChecked(t, b.url)
	heard := listen(t, two)
	d := write(t, one, []clock.Op{setOp("a"), setOp("b")}, clock.Create, clock.Create)
	c := claimed(t, one, d[0].Alarm.ID)
	other, err := two.Claim(t.Context(),
		store.ClaimRequest{IDs: []int64{d[0].Alarm.ID}, Now: testNow, ClaimID: "d", MaxBytes: 1 << 20})
	ok(t, err, "claim an alarm that another claim holds")
	if len(other.Rings) != 0 {
		t.Error("two claims hold one alarm")
	}
	ok(t, c.Settler.Settle(t.Context(), testNow, fates(c, clock.Confirmed)), "settle")
	ok(t, one.Notify(t.Context(), []string{"set"}), "notify")
	heard.hear(t, "set")
	for range 5 {
		ctx, cut := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := two.d.reads.Exec(ctx, "SELECT pg_sleep(600)")
			ended <- err
		}()
		for readSessions(t, two, endless) == 0 {
			if len(ended) > 0 {
				t.Fatalf("the read ended by itself: %v", <-ended)
			}
		}
		cut()
		if err := <-ended; err == nil {
			t.Error("a cancelled read succeeded")
		}
		if n := readSessions(t, two, endless); n > 0 {
			t.Fatalf("the server continues %d cancelled reads", n)
		}
	}
}
