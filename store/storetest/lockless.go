package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// lockStripper is a proxy between a store and its server. It removes the row locks of claims: the server reads
// statements with SKIP LOCKED or NOWAIT without FOR UPDATE, as TiDB runs SKIP LOCKED. It holds back the first statement
// that decides a claim.
type lockStripper struct {
	address         string
	reachedDecision chan struct{} // receives when a claim is about to decide
	mayDecide       chan struct{} // closed: the claim may decide
}

// Names of the statements that decide a claim, or write the decision about a row that was read before.
var decidingStatements = [][]byte{
	[]byte("-- name: TakeHeld "), []byte("-- name: TakeTwoPhase "), []byte("-- name: TakeOnce "),
	[]byte("-- name: RewriteAlarms "), []byte("-- name: CancelAlarms "), []byte("-- name: AmendAlarms "),
	[]byte("-- name: ExpireAlarms "), []byte("-- name: EndAlarms "), []byte("-- name: KillAlarms "),
	[]byte("-- name: KillUnreadable "),
}

func newLockStripper(tb testing.TB, server string) *lockStripper {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	l := &lockStripper{address: listener.Addr().String(), reachedDecision: make(chan struct{}),
		mayDecide: make(chan struct{})}
	var connections errgroup.Group
	connections.Go(func() error {
		for {
			client, err := listener.Accept()
			if err != nil {
				return nil //nolint:nilerr // closed when the test ends
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				return err
			}
			connections.Go(func() error { return l.copyData(upstream, client, l.strip) })
			connections.Go(func() error { return l.copyData(client, upstream, func([]byte) {}) })
		}
	})
	tb.Cleanup(func() { // runs after the store behind the proxy is closed
		_ = listener.Close()
		ok(tb, connections.Wait(), "proxy")
	})
	return l
}

// copyData copies until one side closes. change sees the data before it is passed on.
func (l *lockStripper) copyData(dst, src net.Conn, change func(data []byte)) error {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := src.Read(buffer)
		change(buffer[:n])
		if _, failed := dst.Write(buffer[:n]); failed != nil || err != nil {
			return nil // one side has closed the connection
		}
	}
}

// lockingClauses are the clauses that lock rows without waiting.
var lockingClauses = [][]byte{[]byte("FOR UPDATE SKIP LOCKED"), []byte("FOR UPDATE NOWAIT")}

// strip overwrites the locking clauses with blanks, because the length must stay the same.
func (l *lockStripper) strip(data []byte) {
	for _, clause := range lockingClauses {
		for offset := bytes.Index(data, clause); offset >= 0; offset = bytes.Index(data, clause) {
			copy(data[offset:], bytes.Repeat([]byte(" "), len(clause)))
		}
	}
	for _, name := range decidingStatements {
		if bytes.Contains(data, name) {
			select {
			case <-l.mayDecide: // an earlier statement was held back
			default:
				l.reachedDecision <- struct{}{}
				<-l.mayDecide
			}
			return
		}
	}
}

// concurrentChange is a change of a row between the read and the decision of a claim.
type concurrentChange struct {
	name    string
	once    bool // the alarm rings at most once
	options []func(*clock.Set)
	change  func(f *fixture, id string)
}

func concurrentChanges() []concurrentChange {
	setAgain := func(options ...func(*clock.Set)) func(f *fixture, id string) {
		return func(f *fixture, id string) {
			f.set(t0, set(id, t0, append(options, payload([]byte("the new one")))...))
		}
	}
	return []concurrentChange{
		{name: "set again", change: setAgain()},
		{name: "set to later", change: func(f *fixture, id string) { f.set(t0, set(id, t0+1000)) }},
		{name: "set to ring at most once", change: setAgain(atMostOnce)},
		{name: "at most once, set again", once: true, change: setAgain(atMostOnce)},
		{name: "at most once, set to ring at least once", once: true, change: setAgain()},
		{name: "cancelled", change: func(f *fixture, id string) { f.set(t0, cancel(id)) }},
		{name: "paused", change: func(f *fixture, id string) { f.set(t0, pause(id)) }},
		{name: "paused and resumed", change: func(f *fixture, id string) {
			f.set(t0, pause(id))
			f.set(t0, resume(id))
		}},
		{name: "tried by another",
			change: func(f *fixture, id string) { f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Doubtful)) }},
		{name: "rung by another",
			change: func(f *fixture, id string) { f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Confirmed)) }},
		{name: "expiring, set again", options: []func(*clock.Set){latestRingAt(t0 - 1)}, change: setAgain()},
	}
}

// testRowVersion changes a row between the read and the decision of a claim, on a server that does not lock. The claim
// must ring the row version that its UPDATE changed, and no change may be lost. The rows are new, or were tried before.
func testRowVersion(t *testing.T, f *fixture) {
	for _, m := range concurrentChanges() {
		for _, tried := range []bool{false, true} {
			name := m.name
			if tried {
				name += ", tried before"
			}
			t.Run(name, func(t *testing.T) { f.rowVersion(t, name, m, tried) })
		}
	}
}

func (f *fixture) rowVersion(t *testing.T, name string, change concurrentChange, tried bool) {
	options := append([]func(*clock.Set){payload([]byte("the old one"))}, change.options...)
	if change.once {
		options = append(options, atMostOnce)
	}
	keys := f.together(name+": changed", name+": other") // one transaction claims both
	changed, other := keys[0], keys[1]
	ids := f.set(t0, set(changed, t0-1, options...), set(other, t0, options...))
	if tried {
		f.exec("UPDATE alarm SET retry_times = 1, update_time = update_time + 1 WHERE id IN (%d, %d)", ids[0], ids[1])
	}
	proxy := newLockStripper(t, f.db.Server)
	via := &fixture{t: t, db: f.db, timeout: f.timeout, Store: f.db.Via(t, proxy.address)}
	ok(t, via.Check(t.Context()), "check")

	var c *claim
	claimed := make(chan struct{})
	var g errgroup.Group
	g.Go(func() (err error) {
		defer close(claimed)
		r := via.request(t0, ids...)
		r.AtMostOnce = change.once
		c, err = via.tryClaim(r)
		return err
	})
	readsFirst := false // whether the claim reads and decides in two statements
	select {
	case <-proxy.reachedDecision:
		readsFirst = true
		change.change(f, changed)
	case <-claimed:
	case <-time.After(hangTimeout):
		t.Fatal("the claim neither decides nor ends")
	}
	close(proxy.mayDecide)
	ok(t, g.Wait(), "claim")
	t.Cleanup(func() {
		if c.unsettled { // a failed test must leave no lock behind
			_ = c.Settler.Release(context.Background())
		}
	})
	for _, r := range c.Rings {
		a := f.get(r.BusinessID)
		same(t, "ring of "+r.BusinessID, fmt.Sprint(r.Generation, string(r.Payload), r.RingNo, r.Delivery),
			fmt.Sprint(a.Generation, string(a.Payload), a.RingNo+1, a.Delivery))
		if f.timeout == 0 && !change.once { // otherwise the claim has written in_doubt
			same(t, "in doubt", r.InDoubt(), a.InDoubt)
		}
		same(t, "at most once", r.Delivery == clock.AtMostOnce, change.once)
	}
	c.settle(t0, everyRing(clock.Confirmed))
	f.ringRest(t, ids)
	a := f.get(changed)
	want := fmt.Sprint(clock.Rung, 2, 1, "the new one")
	switch {
	case !readsFirst:
		want = fmt.Sprint(clock.Rung, 1, 1, "the old one")
	case change.name == "set to later":
		want = fmt.Sprint(clock.Scheduled, 2, 0, string(a.Payload))
	case change.name == "cancelled":
		want = fmt.Sprint(clock.Cancelled, 1, 0, "the old one")
	case change.name == "paused":
		want = fmt.Sprint(clock.Paused, 1, 0, "the old one")
	case change.name == "paused and resumed", change.name == "tried by another", change.name == "rung by another":
		want = fmt.Sprint(clock.Rung, 1, 1, "the old one")
	}
	same(t, changed, fmt.Sprint(a.State, a.Generation, a.RingNo, string(a.Payload)), want)
}

// ringRest rings the due alarms among the ids, with either delivery.
func (f *fixture) ringRest(t *testing.T, ids []int64) {
	t.Helper()
	c := f.claim(t0, ids...)
	c.settle(t0, everyRing(clock.Confirmed))
	if len(c.AtMostOnce) > 0 {
		f.claimOnce(t0, c.AtMostOnce...).settle(t0, everyRing(clock.Confirmed))
	}
}

// testWriteVersion lets a ring of another node end in doubt between the read and the UPDATE of a write, on a server
// that does not lock. The write must not overwrite the doubt: it is refused, because the ring may have arrived.
func testWriteVersion(t *testing.T, f *fixture) {
	for name, op := range map[string]func(id string) clock.Op{
		"pause": pause, "cancel": cancel,
		"set": func(id string) clock.Op { return set(id, t0+1000, payload([]byte("the new one"))) },
	} {
		id := f.set(t0, set(name, t0-1))[0]
		proxy := newLockStripper(t, f.db.Server)
		via := &fixture{t: t, db: f.db, timeout: f.timeout, Store: f.db.Via(t, proxy.address)}
		ok(t, via.Check(t.Context()), "check")
		var written []clock.Decision
		var g errgroup.Group
		g.Go(func() (err error) {
			written, err = via.tryWrite(t0+1, op(name))
			return err
		})
		select {
		case <-proxy.reachedDecision:
		case <-time.After(hangTimeout):
			t.Fatal("the write does not reach its UPDATE")
		}
		f.claim(t0, id).settle(t0, everyRing(clock.Doubtful))
		close(proxy.mayDecide)
		ok(t, g.Wait(), "write")
		a := f.get(name)
		same(t, name+": row", fmt.Sprint(a.State, a.InDoubt, a.Generation), fmt.Sprint(clock.Scheduled, true, 1))
		refused, _ := errors.AsType[*clock.Error](written[0].Err)
		if refused == nil || refused.Code != clock.CodeRingInDoubt {
			t.Errorf("the %s is %s: %v", name, written[0].Verdict, written[0].Err)
		}
	}
}
