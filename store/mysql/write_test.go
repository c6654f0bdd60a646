package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

const t0 clock.Instant = 1_795_000_000_123

func setOf(id string, at clock.Instant, payload []byte) clock.Op {
	return clock.Op{Set: &clock.Set{Key: clock.Key{Application: "shop", BusinessID: id}, Content: clock.Content{
		RingAt: at, LatestRingAt: clock.NoInstant, Payload: payload, PayloadKind: clock.Binary,
		ContentType: "application/octet-stream",
		Retry:       clock.DefaultRetryPolicy(), MaxRings: 10,
	}}}
}

func setsOf(prefix string, n int, at clock.Instant, payload []byte) []clock.Op {
	ops := make([]clock.Op, n)
	for i := range ops {
		ops[i] = setOf(fmt.Sprintf("%s-%05d", prefix, i), at, payload)
	}
	return ops
}

func cancelsOf(ops []clock.Op) []clock.Op {
	cancels := make([]clock.Op, len(ops))
	for i := range ops {
		cancels[i].Cancel = &clock.Cancel{Key: ops[i].Key()}
	}
	return cancels
}

// write writes the ops, requires the verdict want of each, and returns the alarm ids.
func write(tb testing.TB, s *opened, want clock.Verdict, ops []clock.Op) []int64 {
	tb.Helper()
	decisions, err := s.Write(context.Background(), clock.WriteRequest{Now: t0, Ops: ops})
	ok(tb, err, "write")
	ids := make([]int64, len(ops))
	for i, d := range decisions {
		if d.Verdict != want {
			tb.Fatalf("op %d: %s, %v; want %s", i, d.Verdict, d.Err, want)
		}
		ids[i] = d.Alarm.ID
	}
	return ids
}

// TestInsertDoesNotWaitForAnUncommittedKey holds a key, not just its row, as a write does that waits for a ring.
// Another group neither waits for the key nor loses its other sets.
func TestInsertDoesNotWaitForAnUncommittedKey(t *testing.T) {
	s := migrated(t)
	write(t, s, clock.Create, setsOf("held", 1, t0, nil))
	ctx := t.Context()
	holder, err := s.d.begin(ctx, s.d.rings)
	ok(t, err, "begin")
	defer holder.rollback(ctx)
	_, err = holder.ExecContext(ctx,
		"SELECT id FROM alarm WHERE application = 'shop' AND business_id = 'held-00000' FOR UPDATE")
	ok(t, err, "hold")
	ops := append(setsOf("new", 499, t0, nil), setOf("held-00000", t0+1, nil))
	waits := watchLockWaits(t, s)
	decisions, err := s.Write(ctx, clock.WriteRequest{Now: t0, Ops: ops})
	ok(t, err, "write beside an uncommitted key")
	if decisions[498].Verdict != clock.Create || decisions[499].Verdict != clock.Locked {
		t.Fatalf("verdicts %s and %s", decisions[498].Verdict, decisions[499].Verdict)
	}
	if n := waits(); n > 0 {
		t.Errorf("a group waited for an uncommitted key: %d looks found it waiting", n)
	}
}

// watchLockWaits looks for transactions on the store's database that wait for a lock, until the returned function is
// called. MySQL's shortest wait is a second. The function returns how many looks found one.
func watchLockWaits(t *testing.T, s *opened) func() int {
	t.Helper()
	stop, waiting := make(chan struct{}), make(chan int)
	go func() {
		found := 0
		for {
			n, err := countLockWaits(t.Context(), s.d.db)
			if err != nil {
				t.Errorf("look for lock waits: %v", err)
			}
			found += n
			select {
			case <-stop:
				waiting <- found
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int { close(stop); return <-waiting }
}

// countLockWaits counts the transactions on the pool's database that wait for a lock.
func countLockWaits(ctx context.Context, db *sql.DB) (n int, err error) {
	rows, err := db.QueryContext(ctx,
		"SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	waiting := make(map[int64]bool)
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		waiting[id] = true
	}
	sessions, err := storetest.MySQLSessions(ctx, db)
	for _, s := range sessions {
		if waiting[s.ID] {
			n++
		}
	}
	return n, errors.Join(err, rows.Err())
}

// TestGroupIsCutByItsEscapedSize writes groups in which every byte of the payloads is escaped. A group of 4 MiB, the
// service's largest, fits one statement. A group that the server would refuse as a single statement is cut in three.
// Its keys are locked and read first, because the group before it was refused. MySQL locks and reads the keys of each
// group first.
func TestGroupIsCutByItsEscapedSize(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = newURL(t)
	cfg.Timeout = time.Minute // statements of 12 MiB take more than the usual seconds on a machine that others use
	s := openWith(t, cfg, nil)
	s.prepare(t)
	body := bytes.Repeat([]byte{'\''}, clock.DefaultMaxPayload)
	s.keepOneConnection(t)
	optimistic := 2 // INSERT, COMMIT
	if !s.d.known().maria {
		optimistic = 4 // lock, read, INSERT, COMMIT
	}
	s.d.server.maxPacket = min(s.d.server.maxPacket, 16<<20) // MySQL's default is 64 MiB, which a busy machine takes too long to send
	for _, c := range []struct{ sets, statements int }{{64, optimistic}, {s.d.known().maxPacket / len(body) * 3 / 4, 6}} {
		ops := setsOf(fmt.Sprint("quotes-", c.sets), c.sets, t0, body)
		before := questions(t, s)
		ids := write(t, s, clock.Create, ops)
		if n := questions(t, s) - before - len(s.d.pools()); n != c.statements {
			t.Errorf("%d sets took %d statements, want %d", c.sets, n, c.statements)
		}
		write(t, s, clock.Replace, setsOf(fmt.Sprint("quotes-", c.sets), c.sets, t0+1, body))
		last := len(ops) - 1
		a, err := s.Get(t.Context(), ops[last].Key())
		ok(t, err, "get")
		if a.ID != ids[last] || !bytes.Equal(a.Payload, body) || a.Generation != 2 {
			t.Fatalf("alarm %d of generation %d with %d bytes; want %d", a.ID, a.Generation, len(a.Payload), ids[last])
		}
	}
}

// TestGroupOfManyStatementsMeetsAnExistingKey has an existing key in the last of several INSERTs. The sets before it
// are created once.
func TestGroupOfManyStatementsMeetsAnExistingKey(t *testing.T) {
	s := migrated(t)
	s.d.server.maxPacket = minPacket
	body := make([]byte, clock.DefaultMaxPayload)
	write(t, s, clock.Create, setsOf("last", 1, t0, body))
	ops := append(setsOf("new", 30, t0, body), setsOf("last", 1, t0, body)...)
	decisions, err := s.Write(t.Context(), clock.WriteRequest{Now: t0, Ops: ops})
	ok(t, err, "write")
	for i, d := range decisions {
		a, err := s.Get(t.Context(), ops[i].Key())
		ok(t, err, "get")
		if a.ID != d.Alarm.ID || (d.Verdict == clock.Create) != (i < 30) {
			t.Fatalf("op %d: %s of %d, stored as %d", i, d.Verdict, d.Alarm.ID, a.ID)
		}
	}
}

func TestRefusedInsertsLengthenThePause(t *testing.T) {
	var o optimisticInsert
	tries := func(n int) (tried int) {
		for range n {
			if o.allow() {
				tried++
				o.learn(true)
			}
		}
		return tried
	}
	if n := tries(1 + 1 + 1 + 2 + 1 + 4 + 1 + 8 + 1 + 16 + 1 + 32 + 1 + 64 + 1 + 64); n != 8 {
		t.Errorf("%d groups were inserted before reading, want 8", n)
	}
	if !o.allow() {
		t.Error("not tried again after the largest penalty")
	}
	o.learn(false)
	for range 2 {
		if !o.allow() {
			t.Error("a success is not remembered")
		}
	}
}

// TestCommonCallsTakeFewRoundTrips counts the statements of the common calls. Sets on MySQL lock and read the keys of
// each group first. On MariaDB a group is read first only after a refused INSERT.
func TestCommonCallsTakeFewRoundTrips(t *testing.T) {
	s := migrated(t)
	s.keepOneConnection(t)
	new500 := setsOf("s", 500, t0, []byte("x"))
	moved := setsOf("s", 500, t0+1, []byte("x"))
	var ids []int64
	ring := func(kind clock.OutcomeKind) func() {
		return func() { claimAndSettle(t, s, ids[:300], kind) }
	}
	create, repeat, move := 2, 3, 4
	if !s.d.known().maria {
		create, repeat, move = 4, 2, 3
	}
	for _, c := range []struct {
		name string
		want int
		do   func()
	}{
		{"500 new sets", create, func() { ids = write(t, s, clock.Create, new500) }},
		{"500 repeated sets", repeat, func() { write(t, s, clock.Keep, new500) }},
		{"500 repeated sets, read first", 2, func() { write(t, s, clock.Keep, new500) }},
		{"500 moved sets", move, func() { write(t, s, clock.Replace, moved) }},
		{"300 rings returned", 6, ring(clock.Returned)},
		{"300 rings confirmed", 3, ring(clock.Confirmed)},
		{"200 cancels", 3, func() { write(t, s, clock.Disarm, cancelsOf(moved[300:])) }},
		{"purge of 500", 9, func() { // one for time zones, one for rules, one for alarms that wait for a person
			n, err := s.Purge(t.Context(), clock.MaxInstant, clock.MaxInstant, 500)
			if ok(t, err, "purge"); n != 500 {
				t.Errorf("%d purged", n)
			}
		}},
	} {
		before := questions(t, s)
		c.do()
		if n := questions(t, s) - before - len(s.d.pools()); n != c.want { // reading the counters takes one statement in each pool
			t.Errorf("%s take %d statements, want %d", c.name, n, c.want)
		}
	}
}

// keepOneConnection lets each pool keep a single connection until the test ends. On MySQL the pools and the server
// otherwise close idle connections.
func (s *opened) keepOneConnection(t *testing.T) {
	t.Helper()
	for _, p := range s.d.pools() {
		p.SetMaxOpenConns(1)
		p.SetConnMaxIdleTime(0)
		_, err := p.ExecContext(t.Context(), "SET SESSION wait_timeout = 600")
		ok(t, err, "keep a connection")
	}
}

// questions returns how many statements the pools have sent. Each pool must have one connection (keepOneConnection).
func questions(t *testing.T, s *opened) int {
	t.Helper()
	sum := 0
	for _, p := range s.d.pools() {
		var name string
		var n int
		ok(t, p.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n),
			"count statements")
		sum += n
	}
	return sum
}

func claimAndSettle(tb testing.TB, s *opened, ids []int64, kind clock.OutcomeKind) {
	tb.Helper()
	now := t0 + 1_000_000
	c, err := s.Claim(context.Background(), store.ClaimRequest{IDs: ids, Now: now, ClaimID: "c", MaxBytes: 1 << 30})
	ok(tb, err, "claim")
	if len(c.Rings) != len(ids) {
		tb.Fatalf("%d rings of %d", len(c.Rings), len(ids))
	}
	fates := make([]clock.Fate, len(c.Rings))
	for i := range fates {
		fates[i] = clock.FateOf(&c.Rings[i], clock.Outcome{Kind: kind, Reason: "no queue is bound"}, now-30_000)
	}
	ok(tb, c.Settler.Settle(context.Background(), now, fates), "settle")
}

// TestTimeIgnoresTheSessionTimeZone fixes the server's clock at the edges of daylight saving time and of a second, in
// sessions of several time zones.
func TestTimeIgnoresTheSessionTimeZone(t *testing.T) {
	s := migrated(t)
	s.d.leases.SetMaxOpenConns(1)
	for _, zone := range []string{"SYSTEM", "+02:00", "-08:00"} {
		for _, at := range []string{"1774746000.000000", "1792890000.000001", "1792893599.999999", "1792893600.000000", "2147483647.0"} {
			for _, statement := range []string{"SET time_zone = '" + zone + "'", "SET timestamp = " + at} {
				_, err := s.d.leases.ExecContext(t.Context(), statement)
				ok(t, err, statement)
			}
			var want float64
			_, err := fmt.Sscan(at, &want)
			ok(t, err, "read "+at)
			got, err := s.Time(t.Context())
			ok(t, err, "time")
			if d := got - int64(want*1e6); d < -1 || d > 1 {
				t.Errorf("zone %s at %s: %d", zone, at, got)
			}
		}
	}
}

// TestSmallTableDoesNotWaitForAHeldClaim settles claims, and moves and purges alarms, while another claim holds a row.
// The tables have few rows, so reading them whole would be the cheapest plan. No call waits for the held row.
func TestSmallTableDoesNotWaitForAHeldClaim(t *testing.T) {
	s := migrated(t)
	for n := 2; n <= 9; n++ {
		for _, table := range []string{"alarm", "ring_attempt"} {
			for _, statement := range []string{"DELETE FROM ", "ANALYZE TABLE "} {
				_, err := s.d.db.ExecContext(t.Context(), statement+table)
				ok(t, err, statement)
			}
		}
		ops := setsOf("few", n+4, t0, []byte("x"))
		ids := write(t, s, clock.Create, ops)
		write(t, s, clock.Disarm, cancelsOf(ops[n+2:]))
		held, err := s.Claim(t.Context(), store.ClaimRequest{IDs: ids[:1], Now: t0, ClaimID: "held", MaxBytes: 1})
		ok(t, err, "claim")
		waits := watchLockWaits(t, s)
		claimAndSettle(t, s, ids[1:n], clock.Returned)
		write(t, s, clock.Replace, setsOf("few", n, t0+1, []byte("y"))[1:])
		write(t, s, clock.Disarm, cancelsOf(ops[1:n]))
		purged, err := s.Purge(t.Context(), clock.MaxInstant, clock.MaxInstant, 100)
		ok(t, err, "purge")
		if waited := waits(); purged != n+1 || waited > 0 {
			t.Errorf("%d rows: %d purged, %d looks found a call waiting for a lock", n, purged, waited)
		}
		ok(t, held.Settler.Release(t.Context()), "release")
	}
}
