package mysql

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
	"github.com/clockd/clockd/store/storetest"
)

// TestStoreAsTiDB runs the suite's tests of locks as if the server were TiDB (asTiDB).
func TestStoreAsTiDB(t *testing.T) {
	e := engineAsTiDB(t)
	e.Scope = storetest.Locks
	storetest.Run(t, e)
}

// engineAsTiDB returns the engine on servers that say that they are TiDB. The test fails if no store was told so.
func engineAsTiDB(t *testing.T) storetest.Engine {
	e := testedEngine()
	var versions atomic.Int64
	e.New = func(tb testing.TB) *storetest.Database {
		u := newURL(tb)
		p := newAsTiDB(tb, storetest.ServerAddress(tb, u), &versions)
		return databaseAt(tb, u, storetest.WithAddress(tb, u, p.address))
	}
	e.Plans = nil // TestStoreApart has checked the plans
	t.Cleanup(func() {
		if versions.Load() == 0 {
			t.Error("no store was told that the server is TiDB")
		}
	})
	return e
}

// TestClaimsOnTiDBAreTwoPhase: Check finds out that the server is TiDB, and then no claim may hold its transaction.
func TestClaimsOnTiDBAreTwoPhase(t *testing.T) {
	u := newURL(t)
	p := newAsTiDB(t, storetest.ServerAddress(t, u), new(atomic.Int64))
	s := openStore(t, storetest.WithAddress(t, u, p.address))
	s.prepare(t)
	if s.HoldsClaims() || s.Engine() != "tidb 8.5.0" {
		t.Errorf("%s holds claims: %t", s.Engine(), s.HoldsClaims())
	}
	request := store.ClaimRequest{IDs: write(t, s, clock.Create, setsOf("due", 2, t0, nil)), Now: t0, ClaimID: "c",
		MaxBytes: 1 << 20}
	if _, err := s.Claim(t.Context(), request); err == nil {
		t.Error("a claim holds its transaction")
	}
	request.Timeout = time.Minute
	c, err := s.Claim(t.Context(), request)
	ok(t, err, "claim")
	if len(c.Rings) != 2 {
		t.Errorf("%d rings", len(c.Rings))
	}
}

// asTiDB is a proxy between a store and its server. It changes the statements of the store so that the server runs them
// as TiDB would: the version is TiDB's, SKIP LOCKED locks nothing, and COMMIT AND CHAIN begins no transaction. The
// store must not send such a locking or chained statement to TiDB: each is a failure of the test.
type asTiDB struct {
	address  string
	server   string
	serving  sync.WaitGroup
	versions *atomic.Int64 // number of answers with TiDB's version

	mu      sync.Mutex
	misread []string // statements that TiDB runs in another way than MySQL
}

// newAsTiDB returns a proxy for the server at the address. It is closed when the test ends.
func newAsTiDB(tb testing.TB, server string, versions *atomic.Int64) *asTiDB {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	p := &asTiDB{address: listener.Addr().String(), server: server, versions: versions}
	p.serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.serve(client)
		}
	})
	tb.Cleanup(func() { // runs after the stores are closed
		_ = listener.Close()
		p.serving.Wait()
		for _, statement := range p.misread {
			tb.Errorf("TiDB would run this statement in another way: %s", statement)
		}
	})
	return p
}

// serve connects the client to the server, and copies until one side closes its connection.
func (p *asTiDB) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.serving.Go(func() {
		defer func() { _, _ = client.Close(), server.Close() }()
		_, _ = io.Copy(client, server)
	})
	p.serving.Go(func() {
		defer func() { _, _ = client.Close(), server.Close() }()
		p.copyPackets(server, client)
	})
}

// copyPackets copies packets of the client until one side closes its connection.
func (p *asTiDB) copyPackets(server io.Writer, client io.Reader) {
	for {
		if p.copyPacket(server, client) != nil {
			return
		}
	}
}

// copyPacket copies one packet of the client. A packet is its length in three bytes, its number and its content; a
// content that begins with queryCommand is a statement.
func (p *asTiDB) copyPacket(server io.Writer, client io.Reader) error {
	const (
		queryCommand = 3
		longest      = 1<<24 - 1
	)
	header := make([]byte, 4)
	if _, err := io.ReadFull(client, header); err != nil {
		return err
	}
	content := make([]byte, binary.LittleEndian.Uint32(append(header[:3:3], 0)))
	if _, err := io.ReadFull(client, content); err != nil {
		return err
	}
	if number := header[3]; number == 0 && len(content) < longest && content[0] == queryCommand {
		content = p.rewrite(content)
	}
	packet := binary.LittleEndian.AppendUint32(nil, uint32(len(content))) // its last byte is 0
	packet[3] = header[3]
	_, err := server.Write(append(packet, content...))
	return err
}

// rewrite returns the statement that the server runs as TiDB would run the given one.
func (p *asTiDB) rewrite(statement []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	versioned := bytes.Replace(statement, []byte("VERSION() AS version"), []byte("'8.0.11-TiDB-v8.5.0' AS version"), 1)
	if !bytes.Equal(versioned, statement) {
		p.versions.Add(1)
	}
	rewritten := versioned
	for _, ignored := range []string{"FOR UPDATE SKIP LOCKED", " AND CHAIN"} {
		rewritten = bytes.Replace(rewritten, []byte(ignored), nil, 1)
	}
	if !bytes.Equal(rewritten, versioned) || bytes.HasPrefix(statement[1:], []byte("SET STATEMENT")) {
		p.misread = append(p.misread, string(statement[1:]))
	}
	return rewritten
}

// TestLockFreeFindsTheFreeRows refuses a statement whenever its list has a locked element. lockFree must lock all
// others, in order, with few statements.
func TestLockFreeFindsTheFreeRows(t *testing.T) {
	refusal := &mysql.MySQLError{Number: errLockNoWait}
	list := make([]int, 500)
	for i := range list {
		list[i] = len(list) - i
	}
	locked := []int{1, 250, 500}
	statements := 0
	free, err := lockFree(server{tidb: true}, nil, list, func(a, b int) int { return a - b }, func(_ dbsqlc.DBTX, part []int) ([]int, error) {
		statements++
		if slices.ContainsFunc(part, func(n int) bool { return slices.Contains(locked, n) }) {
			return nil, refusal
		}
		return part, nil
	})
	ok(t, err, "lock")
	if len(free) != len(list)-len(locked) || !slices.IsSorted(free) ||
		slices.ContainsFunc(locked, func(n int) bool { return slices.Contains(free, n) }) {
		t.Errorf("%d free rows, sorted: %t", len(free), slices.IsSorted(free))
	}
	if statements > 50 {
		t.Errorf("%d statements for %d locked rows of %d", statements, len(locked), len(list))
	}
	other := &mysql.MySQLError{Number: errDeadlock}
	_, err = lockFree(server{tidb: true}, nil, list, func(a, b int) int { return a - b },
		func(dbsqlc.DBTX, []int) ([]int, error) { return nil, other })
	if !errors.Is(err, other) {
		t.Errorf("another error: %v", err)
	}
}

// TestTiDBConflictsAreReplayed: after these errors TiDB has rolled the transaction back, also at COMMIT. After 1105 the
// transaction runs again too, but the outcome of a COMMIT that fails with it is unknown.
func TestTiDBConflictsAreReplayed(t *testing.T) {
	for _, number := range []uint16{8002, 8028, 9007} {
		err := &mysql.MySQLError{Number: number}
		if classify(err) != engine.Serialization || !definite(err) {
			t.Errorf("error %d: class %v, definite at COMMIT: %t", number, classify(err), definite(err))
		}
	}
	if err := (&mysql.MySQLError{Number: 1105}); classify(err) != engine.Serialization || definite(err) {
		t.Errorf("an error without a number: class %v, definite at COMMIT: %t", classify(err), definite(err))
	}
}

// TestTiDBIsNamedInErrors: a server that is too old is refused by its own version, not by the version of MySQL that it
// resembles.
func TestTiDBIsNamedInErrors(t *testing.T) {
	s := parseServer("8.0.11-TiDB-v7.5.6-serverless")
	s.maxPacket = minPacket
	if err := s.check(); err == nil || !strings.Contains(err.Error(), "the server is tidb 7.5.6") ||
		!strings.Contains(err.Error(), "TiDB 8.5") {
		t.Errorf("an old TiDB: %v", err)
	}
}
