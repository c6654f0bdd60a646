package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// foreignNumbers are the numbers of ids that another program gives. clockd does not come that far in a test.
var foreignNumbers atomic.Int64

func init() { foreignNumbers.Store(1 << 40) }

// insertUncommitted inserts alarms in a separate transaction, which stays open.
func (f *fixture) insertUncommitted(ids ...string) *sql.Tx {
	f.t.Helper()
	tx, err := f.db.SQL.BeginTx(context.WithoutCancel(f.t.Context()), nil)
	ok(f.t, err, "begin")
	f.t.Cleanup(func() { _ = tx.Rollback() })
	for _, id := range ids {
		shard := key(id).Shard(f.ShardCount())
		column, value := "", ""
		if f.distributed {
			column, value = "id, ", fmt.Sprintf("%d, ", foreignNumbers.Add(1)*int64(f.ShardCount())+int64(shard))
		}
		_, err := tx.Exec(fmt.Sprintf(`INSERT INTO alarm (%sapplication, business_id, shard, state, generation, payload, payload_kind, content_type,
			target_ring_at, next_try_time, max_rings, priority, create_time, update_time)
			VALUES (%s'%s', '%s', %d, 1, 1, '', 0, '', %d, %d, 1, 0, 1, 1)`, column, value, app, id, shard, t0, t0))
		ok(f.t, err, "insert in another transaction")
	}
	return tx
}

// testUncommittedKey writes groups with a key that another transaction has inserted and not committed. The op on that
// key gets the verdict Locked. All other ops are decided while the other transaction is open.
func testUncommittedKey(t *testing.T, f *fixture) {
	for _, commits := range []bool{true, false} {
		name := fmt.Sprintf("commits %t", commits)
		held := name + ": held"
		f.set(t0, set(name+": cancelled", t0), set(name+": kept", t0))
		otherTx := f.insertUncommitted(held)
		ops := append(sets(names(name, 499), t0), cancel(name+": cancelled"), set(name+": kept", t0))
		ops = slices.Insert(ops, 300, set(held, t0+5))
		for i, d := range f.write(t0, ops...) {
			id, want := ops[i].Key().BusinessID, clock.Create
			switch id {
			case held:
				want = clock.Locked
			case name + ": cancelled":
				want = clock.Disarm
			case name + ": kept":
				want = clock.Keep
			}
			same(t, "verdict on "+id, d.Verdict, want)
			if d.Writes() {
				same(t, "id of "+id, f.get(id).ID, d.Alarm.ID)
			}
		}
		same(t, "committed", f.count("alarm WHERE business_id LIKE '"+name+"-%'"), 499)
		d, err := f.Write(t.Context(),
			clock.WriteRequest{Now: t0, Ops: []clock.Op{set(held, t0+5)}, LockWait: 100 * time.Millisecond})
		ok(t, err, "write of the uncommitted key alone")
		same(t, "verdict on the uncommitted key alone", d[0].Verdict, clock.Locked)

		var waited clock.Decision
		var g errgroup.Group
		g.Go(func() (err error) {
			waited, err = f.writeUntilDecided(set(held, t0+5))
			return err
		})
		end, want := otherTx.Rollback, clock.Create
		if commits {
			end, want = otherTx.Commit, clock.Replace
		}
		ok(t, end(), "end the other transaction")
		ok(t, g.Wait(), "write of the key")
		same(t, "verdict after the other transaction", waited.Verdict, want)
		f.want(waited.Alarm)
	}
}

// testUncommittedKeys writes a group with many uncommitted keys. None of these keys fails the group, and each other
// alarm is created once.
func testUncommittedKeys(t *testing.T, f *fixture) {
	ids := names("many", 300)
	var held []string
	for i := 0; i < len(ids); i += 7 {
		held = append(held, ids[i])
	}
	otherTx := f.insertUncommitted(held...)
	created := 0
	for i, d := range f.write(t0, sets(ids, t0)...) {
		switch {
		case d.Verdict == clock.Create && i%7 != 0:
			created++
			same(t, "id of "+ids[i], f.get(ids[i]).ID, d.Alarm.ID)
		case d.Verdict != clock.Locked:
			t.Fatalf("verdict on %s: %s", ids[i], d.Verdict)
		}
	}
	same(t, "created", f.count("alarm"), created)
	ok(t, otherTx.Rollback(), "end the other transaction")
	for _, d := range f.write(t0, sets(ids, t0)...) {
		same(t, "verdict on "+d.Alarm.BusinessID, d.Verdict == clock.Create || d.Verdict == clock.Keep, true)
	}
	same(t, "alarms", f.count("alarm"), len(ids))
}
