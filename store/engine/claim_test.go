package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// fakeClaims is a Driver whose claims and settlements run on one list of due rows. Every call is logged. fail returns
// the error of a call.
type fakeClaims struct {
	Driver // nil: a claim calls no other method
	holds  bool
	rows   []DueRow
	fresh  []DueRow // rows that TakeFresh takes; LockDue returns them too
	clock  clock.Instant
	fail   func(call string) error
	calls  []string
}

var errDeadlock = errors.New("deadlock")

func (d *fakeClaims) Classify(err error) Class { return deadlocks{errDeadlock}.Classify(err) }
func (d *fakeClaims) DropConnections()         {}
func (d *fakeClaims) Traits() Traits           { return Traits{Name: "fake", HoldsClaims: d.holds} }

func (d *fakeClaims) call(call string) error {
	d.calls = append(d.calls, call)
	if d.fail == nil {
		return nil
	}
	return d.fail(call)
}

func (d *fakeClaims) BeginClaim(context.Context, *store.ClaimRequest) (ClaimTx, error) {
	if err := d.call("begin"); err != nil || !d.holds {
		return fakeClaimTx{d}, err
	}
	return fakeHoldingTx{fakeClaimTx{d}}, nil
}

func (d *fakeClaims) BeginSettle(context.Context, *store.ClaimRequest) (SettleTx, error) {
	return fakeClaimTx{d}, d.call("begin settle")
}

type fakeClaimTx struct{ *fakeClaims }

func (t fakeClaimTx) Commit(context.Context) error                     { return t.call("commit") }
func (t fakeClaimTx) Rollback(context.Context)                         { _ = t.call("rollback") }
func (t fakeClaimTx) Clock() clock.Instant                             { return t.clock }
func (t fakeClaimTx) Confirm(context.Context, []clock.Ring) error      { return t.call("confirm") }
func (t fakeClaimTx) EndAlarms(context.Context, *store.Judgment) error { return t.call("end") }
func (t fakeClaimTx) Take(_ context.Context, rows []*DueRow) (int, error) {
	return len(rows), t.call(fmt.Sprint("take ", len(rows)))
}

func (t fakeClaimTx) LockDue(_ context.Context, ids []int64) ([]DueRow, error) {
	err := t.call(fmt.Sprint("lock ", len(ids)))
	return slices.DeleteFunc(slices.Clone(t.rows), func(r DueRow) bool { return !slices.Contains(ids, r.ID) }), err
}

func (t fakeClaimTx) Settle(_ context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	return t.call(fmt.Sprintf("settle %d %d", len(settled), len(attempts)))
}

type fakeHoldingTx struct{ fakeClaimTx }

func (t fakeHoldingTx) TakeFresh(context.Context, int) ([]DueRow, error) {
	return t.fresh, t.call("fresh")
}

// CommitAndBegin commits the end of the expired rows, which are not due any more.
func (t fakeHoldingTx) CommitAndBegin(context.Context) error {
	err := t.call("commit and begin")
	if err == nil {
		t.rows = slices.DeleteFunc(t.rows, func(r DueRow) bool { return r.LatestRingAt.Valid })
	}
	return err
}
func (t fakeHoldingTx) RollbackAndBegin(context.Context) error { return t.call("rollback and begin") }

// dueRow returns a row that is due at now.
func dueRow(id int64) DueRow {
	return DueRow{DueColumns: DueColumns{
		ID: id, Application: "shop", BusinessID: fmt.Sprint(id), State: int64(clock.Scheduled), Generation: 1,
		MaxRings:     1,
		TargetRingAt: int64(now), NextTryTime: ToNull(now), UpdateTime: int64(now) - 1,
		RetryPolicy: clock.DefaultRetryPolicy().Encode(),
	}}
}

// lateRow returns a due row whose latest_ring_at has passed.
func lateRow(id int64) DueRow {
	r := dueRow(id)
	r.LatestRingAt = sql.NullInt64{Int64: int64(now) - 1, Valid: true}
	return r
}

// claimOn claims the rows 1 to 3 of the driver.
func claimOn(t *testing.T, d *fakeClaims, timeout time.Duration) (*Store, *store.Claim, error) {
	t.Helper()
	s, err := New(Config{ReadConns: 2, Timeout: time.Minute}, Deps{}, d)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(),
		store.ClaimRequest{IDs: []int64{1, 2, 3}, Now: now, ClaimID: "c", MaxBytes: 1 << 20, Timeout: timeout})
	return s, c, err
}

func wantCalls(t *testing.T, d *fakeClaims, want ...string) {
	t.Helper()
	if !slices.Equal(d.calls, want) {
		t.Errorf("calls %q\nwant  %q", d.calls, want)
	}
	d.calls = nil
}

// failOnce returns an error for the first call of that name.
func failOnce(name string, err error) func(call string) error {
	return func(call string) error {
		if call != name || err == nil {
			return nil
		}
		failed := err
		err = nil
		return failed
	}
}

func TestReplayedClaimReportsCommittedEndsOnce(t *testing.T) {
	d := &fakeClaims{holds: true, rows: []DueRow{dueRow(1), lateRow(2), dueRow(3)},
		fail: failOnce("take 2", errDeadlock)}
	s, c, err := claimOn(t, d, 0)
	if err != nil || len(c.Rings) != 2 || len(c.Ended) != 1 || c.Ended[0].ID != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	wantCalls(t, d, "begin", "fresh", "lock 3", "end", "commit and begin", "lock 3", "take 2", "rollback",
		"begin", "fresh", "lock 3", "take 2")
	if n := testutil.ToFloat64(s.metrics.replays.WithLabelValues(replayDeadlock)); n != 1 {
		t.Errorf("%v replays are counted", n)
	}
}

func TestClaimInOneTransactionReportsEndsAfterItsCommit(t *testing.T) {
	d := &fakeClaims{rows: []DueRow{dueRow(1), lateRow(2), dueRow(3)}, fail: failOnce("commit", errDeadlock)}
	_, c, err := claimOn(t, d, time.Second)
	if err != nil || len(c.Rings) != 2 || len(c.Ended) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	wantCalls(t, d, "begin", "lock 3", "end", "take 2", "commit", "begin", "lock 3", "end", "take 2", "commit")
}

func TestFailedClaimReportsCommittedEnds(t *testing.T) {
	d := &fakeClaims{holds: true, rows: []DueRow{dueRow(1), lateRow(2), dueRow(3)},
		fail: failOnce("commit", clock.Unconfirmed(errDeadlock))}
	_, c, err := claimOn(t, d, time.Second)
	if !errors.Is(err, clock.ErrUnconfirmed) || len(c.Rings) != 0 || c.Settler != nil || len(c.Ended) != 1 ||
		c.Ended[0].ID != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	wantCalls(t, d, "begin", "fresh", "lock 3", "end", "commit and begin", "lock 3", "take 2", "commit")
}

func TestClaimWithoutReplyToCommitIsNotReplayed(t *testing.T) {
	for name, calls := range map[string][]string{
		"commit":           {"begin", "fresh", "lock 3", "take 2", "commit"},
		"commit and begin": {"begin", "fresh", "lock 3", "end", "commit and begin", "rollback"},
	} {
		rows := []DueRow{dueRow(1), dueRow(2)}
		if name == "commit and begin" {
			rows = append(rows, lateRow(3))
		}
		d := &fakeClaims{holds: true, rows: rows, fail: failOnce(name, clock.Unconfirmed(errDeadlock))}
		if _, _, err := claimOn(t, d, time.Second); !errors.Is(err, clock.ErrUnconfirmed) {
			t.Errorf("%s: %v", name, err)
		}
		wantCalls(t, d, calls...)
	}
}

func TestClaimRollsBackAfterAPanic(t *testing.T) {
	d := &fakeClaims{holds: true, rows: []DueRow{dueRow(1)}, fail: func(call string) error {
		if call == "take 1" {
			panic(call)
		}
		return nil
	}}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		wantCalls(t, d, "begin", "fresh", "lock 3", "take 1", "rollback")
	}()
	_, _, _ = claimOn(t, d, 0)
}

// TestClaimGivesUpFreshRows gives up fresh rows beside a row that ends, and fresh rows that are not due by the
// database's clock.
func TestClaimGivesUpFreshRows(t *testing.T) {
	rows := []DueRow{dueRow(1), lateRow(2), dueRow(3)}
	d := &fakeClaims{holds: true, rows: rows, fresh: []DueRow{dueRow(3), dueRow(1)}}
	if _, c, err := claimOn(t, d, 0); err != nil || len(c.Rings) != 2 || c.Rings[0].AlarmID != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	wantCalls(t, d, "begin", "fresh", "lock 1", "rollback and begin", "lock 3", "end", "commit and begin", "lock 3",
		"take 2")
	d.fresh[0].NextTryTime.Int64++
	if _, c, err := claimOn(t, d, 0); err != nil || len(c.Rings) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	wantCalls(t, d, "begin", "fresh", "rollback and begin", "lock 3", "take 2")
}

func TestOnlyTwoPhaseSettlementsAreReplayed(t *testing.T) {
	for timeout, want := range map[time.Duration][]string{
		0:           {"settle 1 1", "rollback"},
		time.Second: {"begin settle", "settle 1 1", "rollback", "begin settle", "settle 1 1", "commit"},
	} {
		d := &fakeClaims{holds: true, rows: []DueRow{dueRow(1)}}
		_, c, err := claimOn(t, d, timeout)
		if err != nil {
			t.Fatal(err)
		}
		d.calls, d.fail = nil, failOnce("settle 1 1", errDeadlock)
		fate := clock.FateOf(&c.Rings[0], clock.Outcome{Kind: clock.Nacked}, now)
		err = c.Settler.Settle(t.Context(), now, []clock.Fate{fate})
		if settled := err == nil; settled != (timeout > 0) || !settled && !errors.Is(err, clock.ErrUnavailable) {
			t.Errorf("timeout %s: %v", timeout, err)
		}
		wantCalls(t, d, want...)
	}
}

func TestClaimThatWouldBeHeldIsRefused(t *testing.T) {
	d := &fakeClaims{rows: []DueRow{dueRow(1)}}
	if _, _, err := claimOn(t, d, 0); err == nil {
		t.Error("an engine without held claims holds a claim")
	}
	wantCalls(t, d)
}
