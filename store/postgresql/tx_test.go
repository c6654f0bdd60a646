package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

const testNow clock.Instant = 1_800_000_000_000

func setOp(id string) clock.Op {
	return clock.Op{Set: &clock.Set{Key: clock.Key{Application: "shop", BusinessID: id}, Content: clock.Content{
		RingAt: testNow, LatestRingAt: clock.NoInstant, PayloadKind: clock.Text, Payload: []byte(id),
		ContentType: "text/plain",
		Retry:       clock.DefaultRetryPolicy(), MaxRings: 1,
	}}}
}

func cancelOp(id string) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: "shop", BusinessID: id}}}
}

// write applies the ops, and requires the verdicts want for the first ones.
func write(t *testing.T, s *opened, ops []clock.Op, want ...clock.Verdict) []clock.Decision {
	t.Helper()
	decisions, err := s.Write(t.Context(), clock.WriteRequest{Now: testNow, Ops: ops})
	ok(t, err, "write")
	for i, v := range want {
		if decisions[i].Verdict != v {
			t.Fatalf("op %d: %s, want %s", i, decisions[i].Verdict, v)
		}
	}
	return decisions
}

// claimed returns a held claim with a ring for each id. The end of the test releases a claim that is still open,
// because Close waits for open claims: without the release, a failed test would hang and would not print its failure.
func claimed(t *testing.T, s *opened, ids ...int64) *store.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: testNow, ClaimID: "c", MaxBytes: 1 << 20})
	ok(t, err, "claim")
	if c.Settler != nil {
		t.Cleanup(func() { _ = c.Settler.Release(context.WithoutCancel(t.Context())) }) // does nothing after Settle
	}
	if len(c.Rings) != len(ids) {
		t.Fatalf("%d rings of %d", len(c.Rings), len(ids))
	}
	return c
}

func fates(c *store.Claim, kind clock.OutcomeKind) []clock.Fate {
	f := make([]clock.Fate, len(c.Rings))
	for i := range f {
		f[i] = clock.FateOf(&c.Rings[i], clock.Outcome{Kind: kind}, testNow)
	}
	return f
}

// TestRoundTripsAreAsDocumented counts the round trips that doc.go lists.
func TestRoundTripsAreAsDocumented(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	s := openChecked(t, p.url)
	for round := range 2 {
		want := func(what string, trips int, do func()) {
			t.Helper()
			if n := p.count(do); round > 0 && n != trips { // the first round also prepares the statements
				t.Errorf("%s: %d round trips, want %d", what, n, trips)
			}
		}
		id := func(name string) string { return fmt.Sprint(name, round) }
		moved := setOp(id("a"))
		moved.Set.RingAt++
		var ids []int64
		want("new sets", 2, func() {
			for _, d := range write(t, s, []clock.Op{setOp(id("a")), setOp(id("b")), setOp(id("c"))}, clock.Create, clock.Create, clock.Create) {
				ids = append(ids, d.Alarm.ID)
			}
		})
		want("a new set beside a moved one", 5,
			func() { write(t, s, []clock.Op{moved, setOp(id("d"))}, clock.Replace, clock.Create) })
		want("cancel", 2, func() { write(t, s, []clock.Op{cancelOp(id("d"))}, clock.Disarm) })
		want("cancel of a moved one", 4, func() { write(t, s, []clock.Op{cancelOp(id("a"))}, clock.Disarm) })
		want("claim of nothing", 0, func() { claimed(t, s) })
		want("returned, as they were set", 2, func() {
			c := claimed(t, s, ids[1:]...)
			ok(t, c.Settler.Settle(t.Context(), testNow-5000, fates(c, clock.Doubtful)), "settle")
		})
		want("confirmed, tried before", 4, func() {
			c := claimed(t, s, ids[1:]...)
			ok(t, c.Settler.Settle(t.Context(), testNow, fates(c, clock.Confirmed)), "settle")
		})
		again := write(t, s, []clock.Op{setOp(id("e")), setOp(id("f"))}, clock.Create, clock.Create)
		want("two-phase, confirmed", 3, func() {
			c, err := s.Claim(t.Context(), store.ClaimRequest{
				IDs: []int64{again[0].Alarm.ID, again[1].Alarm.ID}, Now: testNow, ClaimID: "c", MaxBytes: 1 << 20,
				Timeout: time.Second,
			})
			ok(t, err, "claim")
			ok(t, c.Settler.Settle(t.Context(), testNow, fates(c, clock.Confirmed)), "settle")
		})
		want("due", 1, func() {
			_, err := s.Due(t.Context(),
				store.DueQuery{Shards: []int{1, 2, 3}, Until: store.Position{Time: testNow}, Limit: 10})
			ok(t, err, "due")
		})
	}
}

// A new connection needs no more round trips for a claim and its settlement than an old one: see prepareClaims.
func TestNewConnectionsHavePreparedTheirClaims(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	s := openChecked(t, p.url)
	connect := func() {
		conn, err := s.d.rings.Acquire(t.Context())
		ok(t, err, "connect")
		conn.Release()
	}
	for _, kind := range []store.ClaimRequest{{}, {Timeout: time.Second}, {AtMostOnce: true}} {
		for outcome, fate := range map[string]clock.OutcomeKind{"confirmed": clock.Confirmed, "returned": clock.Returned} {
			trips := map[bool]int{}
			for _, isNew := range []bool{true, false} {
				name := fmt.Sprint(kind.Kind(), outcome, isNew)
				fresh, tried := setOp(name), setOp(name+" tried")
				if kind.AtMostOnce {
					fresh.Set.Delivery, tried.Set.Delivery = clock.AtMostOnce, clock.AtMostOnce
				}
				var ids []int64
				for _, d := range write(t, s, []clock.Op{fresh, tried}, clock.Create, clock.Create) {
					ids = append(ids, d.Alarm.ID)
				}
				tried.Set.RingAt--
				write(t, s, []clock.Op{tried}, clock.Replace)
				if isNew {
					s.d.rings.Reset()
				}
				connect()
				trips[isNew] = p.count(func() {
					request := kind
					request.IDs, request.Now, request.ClaimID, request.MaxBytes = ids, testNow, "c", 1<<20
					c, err := s.Claim(t.Context(), request)
					ok(t, err, "claim")
					if len(c.Rings) != 2 {
						t.Errorf("%d rings", len(c.Rings))
					}
					ok(t, c.Settler.Settle(t.Context(), testNow, fates(c, fate)), "settle")
				})
			}
			if trips[true] != trips[false] {
				t.Errorf("kind %d, %s: %d round trips on a new connection, %d on an old one", kind.Kind(), outcome,
					trips[true], trips[false])
			}
		}
	}
}

// TestCutCommitIsUnconfirmedAndRepeatable cuts the connection at COMMIT, before and after the server receives it. The
// outcome is unconfirmed, and a repetition gives the right verdict.
func TestCutCommitIsUnconfirmedAndRepeatable(t *testing.T) {
	for _, passOn := range []bool{false, true} {
		t.Run(fmt.Sprintf("server gets it %t", passOn), func(t *testing.T) {
			p := newProxy(t, migratedURL(t))
			s := openChecked(t, p.url)
			ids := []int64{write(t, s, []clock.Op{setOp("ring")}, clock.Create)[0].Alarm.ID}
			c := claimed(t, s, ids...)
			p.mu.Lock()
			p.cutAt, p.passOn = []byte(sqlCommit+"\x00"), passOn
			p.mu.Unlock()
			_, err := s.Write(t.Context(), clock.WriteRequest{Now: testNow, Ops: []clock.Op{setOp("a")}})
			if !errors.Is(err, clock.ErrUnconfirmed) {
				t.Errorf("write: %v", err)
			}
			if err := c.Settler.Settle(t.Context(), testNow, fates(c, clock.Confirmed)); !errors.Is(err, clock.ErrUnconfirmed) {
				t.Errorf("settle: %v", err)
			}
			p.mu.Lock()
			p.cutAt = nil
			p.mu.Unlock()
			want := map[bool]clock.Verdict{false: clock.Create, true: clock.Keep}[passOn]
			write(t, s, []clock.Op{setOp("a")}, want)
			a, err := s.Get(t.Context(), clock.Key{Application: "shop", BusinessID: "ring"})
			ok(t, err, "get")
			if (a.State == clock.Rung) != passOn {
				t.Errorf("the ring is %s", a.State)
			}
		})
	}
}

// TestInsertDoesNotWaitForAClaimedRow inserts beside a row that a claim has updated. The long lock_timeout shows that
// the INSERT does not wait.
func TestInsertDoesNotWaitForAClaimedRow(t *testing.T) {
	s := migrated(t)
	c := claimed(t, s, write(t, s, []clock.Op{setOp("held")}, clock.Create)[0].Alarm.ID)
	defer func() { _ = c.Settler.Release(t.Context()) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	tx, err := begin(ctx, s.d.pool, time.Minute)
	ok(t, err, "begin")
	defer tx.close(ctx)
	held, fresh := setOp("held").Decide(nil, testNow).Alarm, setOp("fresh").Decide(nil, testNow).Alarm
	ids, err := (&writeTx{tx: tx, q: s.d.q}).Insert(ctx, []*clock.Alarm{&held, &fresh}, false)
	ok(t, err, "insert")
	if ids[0] != 0 || ids[1] == 0 {
		t.Fatalf("ids %d", ids)
	}
}

// TestCancelDoesNotWaitForLockedRows cancels beside a row that a claim has updated and a row that another transaction
// has only locked. The long lock_timeout shows that the cancel does not wait.
func TestCancelDoesNotWaitForLockedRows(t *testing.T) {
	s := migrated(t)
	ops := []clock.Op{setOp("claimed"), setOp("locked"), setOp("free")}
	d := write(t, s, ops, clock.Create, clock.Create, clock.Create)
	c := claimed(t, s, d[0].Alarm.ID)
	defer func() { _ = c.Settler.Release(t.Context()) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	keys := make([]clock.Key, len(ops))
	for i, op := range ops {
		keys[i] = op.Key()
	}
	locker, err := begin(ctx, s.d.pool, 0)
	ok(t, err, "begin")
	defer locker.close(ctx)
	locked, err := (&writeTx{tx: locker, q: s.d.q}).Lock(ctx, keys[1:2], 0, false)
	if ok(t, err, "lock"); len(locked) != 1 {
		t.Fatalf("%d rows locked", len(locked))
	}
	tx, err := begin(ctx, s.d.pool, time.Minute)
	ok(t, err, "begin")
	defer tx.close(ctx)
	stopped, err := (&writeTx{tx: tx, q: s.d.q}).Cancel(ctx, keys, testNow, false)
	ok(t, err, "cancel")
	if len(stopped) != 1 || stopped[0].Key != keys[2] || stopped[0].State != clock.Cancelled {
		t.Fatalf("stopped %v", stopped)
	}
}

// TestClaimDoesNotWaitForALockedRow claims beside a row that a write transaction has locked. The claim passes over that
// row at once. Running into lock_timeout would give up all fresh rows.
func TestClaimDoesNotWaitForALockedRow(t *testing.T) {
	s := migrated(t)
	d := write(t, s, []clock.Op{setOp("locked"), setOp("taken"), setOp("leased")}, clock.Create, clock.Create,
		clock.Create)
	locker, err := begin(t.Context(), s.d.pool, 0)
	ok(t, err, "begin")
	defer locker.close(t.Context())
	locked, err := (&writeTx{tx: locker, q: s.d.q}).Lock(t.Context(), []clock.Key{setOp("locked").Key()}, 0, false)
	if ok(t, err, "lock"); len(locked) != 1 {
		t.Fatalf("%d rows locked", len(locked))
	}
	for free, timeout := range map[int64]time.Duration{d[1].Alarm.ID: 0, d[2].Alarm.ID: time.Second} {
		tx, err := begin(t.Context(), s.d.rings, time.Minute)
		ok(t, err, "begin")
		c := &claimTx{tx: tx, q: s.d.q,
			request: &store.ClaimRequest{IDs: []int64{d[0].Alarm.ID, free}, Now: testNow, ClaimID: "c",
				Timeout: timeout}}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		fresh, err := c.TakeFresh(ctx, 1<<20)
		stop()
		tx.close(t.Context())
		if ok(t, err, "take"); len(fresh) != 1 || fresh[0].ID != free {
			t.Errorf("taken %v", fresh)
		}
	}
}

// TestGroupDoesNotWaitForAnUncommittedKey meets a key that another transaction has inserted and not committed. The
// group does not wait for the key but begins again, and is right whether the other transaction commits or rolls back.
func TestGroupDoesNotWaitForAnUncommittedKey(t *testing.T) {
	for name, commits := range map[string]bool{"rolls back": false, "commits": true} {
		t.Run(name, func(t *testing.T) {
			s := migrated(t)
			other, err := begin(t.Context(), s.d.pool, 0)
			ok(t, err, "begin")
			defer other.close(t.Context())
			row := setOp("b").Decide(nil, testNow).Alarm
			_, err = (&writeTx{tx: other, q: s.d.q}).Insert(t.Context(), []*clock.Alarm{&row}, false)
			ok(t, err, "insert")
			ended := make(chan error, 1)
			go func() {
				time.Sleep(2 * lockWait) // by then the group has met the key
				if commits {
					ended <- other.commit(t.Context())
				} else {
					ended <- other.rollback(t.Context())
				}
			}()
			r := clock.WriteRequest{Now: testNow, Ops: []clock.Op{setOp("c"), setOp("b"), setOp("a")}}
			decisions, err := s.Write(t.Context(), r)
			ok(t, <-ended, "end the other transaction")
			if errors.Is(err, clock.ErrUnavailable) { // the other transaction took too long, so the caller repeats the group
				decisions, err = s.Write(t.Context(), r)
			}
			ok(t, err, "write")
			if decisions[1].Verdict == clock.Locked { // the other transaction ended between two statements of the group, so the key is decided alone
				again, err := s.Write(t.Context(), clock.WriteRequest{Now: testNow, Ops: r.Ops[1:2]})
				ok(t, err, "write again")
				decisions[1] = again[0]
			}
			last := map[bool]clock.Verdict{false: clock.Create, true: clock.Keep}[commits]
			for i, want := range []clock.Verdict{clock.Create, last, clock.Create} {
				if got := decisions[i].Verdict; got != want {
					t.Errorf("op %d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

// TestKeyCommittedDuringInsertIsReplayed meets a key that does not exist when the INSERT begins, but exists when the
// INSERT reaches it. That is a definite rollback, after which the group begins again.
func TestKeyCommittedDuringInsertIsReplayed(t *testing.T) {
	s := migrated(t)
	row := setOp("a").Decide(nil, testNow).Alarm
	other, err := begin(t.Context(), s.d.pool, 0)
	ok(t, err, "begin")
	defer other.close(t.Context())
	_, err = (&writeTx{tx: other, q: s.d.q}).Insert(t.Context(), []*clock.Alarm{&row}, false)
	ok(t, err, "insert")
	inserted := make(chan error, 1)
	go func() {
		tx, err := begin(t.Context(), s.d.pool, time.Minute)
		if err == nil {
			_, err = (&writeTx{tx: tx, q: s.d.q}).Insert(t.Context(), []*clock.Alarm{&row}, false)
			tx.close(t.Context())
		}
		inserted <- err
	}()
	for waiting := false; !waiting; {
		const look = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		ok(t, s.d.upkeep.QueryRow(t.Context(), look).Scan(&waiting), "see whether the insert waits")
	}
	ok(t, other.commit(t.Context()), "commit")
	if err := <-inserted; classify(err) != engine.KeyExists {
		t.Fatalf("insert: %v", err)
	}
	write(t, s, []clock.Op{setOp("a")}, clock.Keep)
}

// TestOpOnAnUncommittedKeyWaitsApart meets a key that stays inserted and not committed. Its op must wait apart from the
// group, and nothing fails.
func TestOpOnAnUncommittedKeyWaitsApart(t *testing.T) {
	s := migrated(t)
	other, err := begin(t.Context(), s.d.pool, 0)
	ok(t, err, "begin")
	defer other.close(t.Context())
	row := setOp("a").Decide(nil, testNow).Alarm
	_, err = (&writeTx{tx: other, q: s.d.q}).Insert(t.Context(), []*clock.Alarm{&row}, false)
	ok(t, err, "insert")
	write(t, s, []clock.Op{setOp("a")}, clock.Locked)
}

// TestWriteWaitsForTheClaimToEnd cancels an alarm whose row a claim holds. The claim ends within the wait, and the
// cancel meets the rung alarm.
func TestWriteWaitsForTheClaimToEnd(t *testing.T) {
	s := migrated(t)
	c := claimed(t, s, write(t, s, []clock.Op{setOp("a")}, clock.Create)[0].Alarm.ID)
	settled := make(chan error, 1)
	go func() {
		time.Sleep(50 * time.Millisecond) // by then the write waits
		settled <- c.Settler.Settle(t.Context(), testNow, fates(c, clock.Confirmed))
	}()
	d, err := s.Write(t.Context(),
		clock.WriteRequest{Now: testNow, Ops: []clock.Op{cancelOp("a")}, LockWait: 5 * time.Second})
	ok(t, <-settled, "settle") // first, so that no failure leaves the goroutine with the claim
	ok(t, err, "write")
	if d[0].Verdict != clock.Refuse || d[0].Alarm.State != clock.Rung {
		t.Errorf("%s, %s", d[0].Verdict, d[0].Alarm.State)
	}
}

// TestOnlyNewestAttemptsAreKept counts the rows in the table, because Get shows only the newest attempts anyway.
func TestOnlyNewestAttemptsAreKept(t *testing.T) {
	s := migrated(t)
	id := write(t, s, []clock.Op{setOp("a")}, clock.Create)[0].Alarm.ID
	for range clock.MaxAttempts + 3 {
		c := claimed(t, s, id)
		ok(t, c.Settler.Settle(t.Context(), testNow, fates(c, clock.Doubtful)), "settle")
	}
	var n int
	ok(t, s.d.pool.QueryRow(t.Context(), "SELECT count(*) FROM ring_attempt").Scan(&n), "count")
	if n != clock.MaxAttempts {
		t.Errorf("%d attempts are kept", n)
	}
}

// TestStoreRecoversFromFailover makes the server read-only, and then writable again. The store names the cause, and
// later recovers by itself.
func TestStoreRecoversFromFailover(t *testing.T) {
	u := migratedURL(t)
	s := openChecked(t, u)
	admin := openChecked(t, u)
	var name string
	ok(t, admin.d.pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name), "read the name")
	_, err := admin.d.pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	ok(t, err, "make it read-only")
	s.d.pool.Reset()
	_, err = s.Write(t.Context(), clock.WriteRequest{Now: testNow, Ops: []clock.Op{setOp("a")}})
	if !errors.Is(err, clock.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("write: %v", err)
	}
	_, err = admin.d.pool.Exec(t.Context(), "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	ok(t, err, "make it writable")
	write(t, s, []clock.Op{setOp("a")}, clock.Create) // on a new connection
}

// TestStatementsAndTransactionsAreReadCommitted sets another default isolation at the server.
func TestStatementsAndTransactionsAreReadCommitted(t *testing.T) {
	s := migrated(t)
	var name, level string
	ok(t, s.d.pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name), "read the name")
	_, err := s.d.pool.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_isolation = 'serializable'")
	ok(t, err, "alter the default")
	s.d.pool.Reset()
	ok(t, s.d.pool.QueryRow(t.Context(), "SHOW transaction_isolation").Scan(&level), "show")
	if level != "read committed" {
		t.Errorf("a single statement runs %s", level)
	}
	tx, err := begin(t.Context(), s.d.pool, 0)
	ok(t, err, "begin")
	defer tx.close(t.Context())
	_, err = tx.Exec(t.Context(), "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
	ok(t, err, "alter the session")
	ok(t, tx.rollback(t.Context()), "rollback")
	_, err = tx.Exec(t.Context(), "SELECT 1")
	ok(t, err, "select")
	ok(t, tx.QueryRow(t.Context(), "SHOW transaction_isolation").Scan(&level), "show")
	if level != "read committed" {
		t.Errorf("a transaction runs %s", level)
	}
}

// TestUnknownCommitOutcomeIsUnconfirmed distinguishes definite failures of COMMIT from unknown outcomes.
func TestUnknownCommitOutcomeIsUnconfirmed(t *testing.T) {
	answer := func(severity, code string) error { return &pgconn.PgError{SeverityUnlocalized: severity, Code: code} }
	for err, unconfirmed := range map[error]bool{
		answer("ERROR", codeSerialization):   false,
		answer("ERROR", codeDeadlock):        false,
		answer("ERROR", "53100"):             false, // disk full
		answer("FATAL", codeIdleTransaction): false,
		answer("FATAL", "57P01"):             true, // shut down by an operator
		answer("PANIC", "XX000"):             true,
		errRolledBack:                        false,
		errors.New("connection reset"):       true,
		context.DeadlineExceeded:             true,
	} {
		if got := errors.Is(commitError(err, false), clock.ErrUnconfirmed); got != unconfirmed {
			t.Errorf("%v: unconfirmed %t", err, got)
		}
	}
	for err, unconfirmed := range map[error]bool{ // COMMIT of Citus
		answer("ERROR", codeSerialization):   false,
		answer("ERROR", codeDeadlock):        false,
		answer("ERROR", "XX000"):             true, // the connection to the worker broke
		answer("ERROR", "53100"):             true,
		answer("FATAL", codeIdleTransaction): false,
		errRolledBack:                        false,
		errors.New("connection reset"):       true,
	} {
		if got := errors.Is(commitError(err, true), clock.ErrUnconfirmed); got != unconfirmed {
			t.Errorf("%v on Citus: unconfirmed %t", err, got)
		}
	}
}
