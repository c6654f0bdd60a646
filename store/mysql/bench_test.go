package mysql

import (
	"context"
	"fmt"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// BenchmarkBare measures bare statements on the same rows as BenchmarkStore. The store cannot be faster than they are.
func BenchmarkBare(b *testing.B) {
	s := migrated(b)
	body := make([]byte, 200)
	round := 0
	fresh := func(n int) []clock.Op {
		round++
		return setsOf(fmt.Sprintf("bare-%d", round), n, t0, body)
	}
	b.Run("insert 500", func(b *testing.B) {
		for b.Loop() {
			bareInsert(b, s.d, fresh(500))
		}
		b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("write 500 new", func(b *testing.B) {
		for b.Loop() {
			write(b, s, clock.Create, fresh(500))
		}
		b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("claim 300", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			ids := write(b, s, clock.Create, fresh(300))
			b.StartTimer()
			bareClaim(b, s.d, ids)
		}
		b.ReportMetric(float64(300*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	for _, kind := range []clock.OutcomeKind{clock.Confirmed, clock.Returned} {
		b.Run("claim and settle 300 "+kind.String(), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				ids := write(b, s, clock.Create, fresh(300))
				b.StartTimer()
				claimAndSettle(b, s, ids, kind)
			}
			b.ReportMetric(float64(300*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func bareInsert(b *testing.B, d *Driver, ops []clock.Op) {
	b.Helper()
	args := insertArgs.Of(len(ops), func(i int, row *engine.Row) {
		d := ops[i].Decide(nil, t0)
		row.SetAlarm(&d.Alarm)
	})
	parts := split(dbsqlc.InsertAlarms)
	_, err := d.db.ExecContext(context.Background(), parts.expand("", len(ops)),
		append([]any{store.BuildLevel()}, args...)...)
	ok(b, err, "insert")
}

// bareClaim runs the conditional UPDATE, and the SELECT of the rows that it took, in one transaction.
func bareClaim(b *testing.B, d *Driver, ids []int64) {
	b.Helper()
	ctx := context.Background()
	t, err := d.begin(ctx, d.rings)
	ok(b, err, "begin")
	_, err = d.q.TakeHeld(ctx, lastRepeated{t, []any{""}}, dbsqlc.TakeHeldParams{
		Now: int64(t0), ClaimID: "c", Ids: ids, Generation: 1, OldState: 1, Unrung: 1, Others: []int64{0},
	})
	ok(b, err, "take")
	rows, err := d.q.ListPayloads(ctx, t, ids)
	ok(b, err, "list")
	if len(rows) != len(ids) {
		b.Fatalf("%d taken of %d", len(rows), len(ids))
	}
	ok(b, t.commit(ctx), "commit")
}
