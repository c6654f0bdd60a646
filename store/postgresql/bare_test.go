package postgresql

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/clock"
)

const bareNow = 1_800_000_000_000

// BenchmarkBare measures bare statements for the same work as BenchmarkStore. Compare figures of one run only.
func BenchmarkBare(b *testing.B) {
	s := migrated(b)
	conn, err := s.d.rings.Acquire(b.Context())
	ok(b, err, "acquire")
	defer conn.Release()
	b.Run("upsert 500", func(b *testing.B) { bareInsert(b, conn.Conn(), "") })
	b.Run("insert 500 where not exists", func(b *testing.B) {
		bareInsert(b, conn.Conn(),
			"WHERE NOT EXISTS (SELECT 1 FROM alarm a WHERE a.application = n.application AND a.business_id = n.business_id)")
	})
	b.Run("claim 300 lock, update", func(b *testing.B) { bareClaim(b, conn.Conn(), bareLockUpdate) })
	b.Run("claim 300 in one", func(b *testing.B) { bareClaim(b, conn.Conn(), bareInOne) })
}

var bareRound int

// bareInsert inserts 500 rows in a transaction of one statement, which returns only the ids.
func bareInsert(b *testing.B, conn *pgx.Conn, where string) {
	query := `INSERT INTO alarm (application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at,
			next_try_time, max_rings, priority, create_time, update_time)
		SELECT n.application, n.business_id, n.shard, 1, 1, n.payload, 3, 'application/octet-stream', n.at, n.at, 10, 0, n.at, n.at
		FROM unnest($5::varchar[], $1::varchar[], $2::smallint[], $3::bytea[], $4::bigint[]) AS n (application, business_id, shard, payload, at) ` + where + `
		ON CONFLICT (application, business_id) DO UPDATE SET payload = excluded.payload RETURNING id`
	applications := slices.Repeat([]string{"bare"}, 500)
	for b.Loop() {
		_, err := conn.Exec(context.Background(), query, append(bareRows(500), applications)...)
		ok(b, err, "insert")
	}
	b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func bareRows(n int) []any {
	bareRound++
	ids, shards, payloads, at := make([]string, n), make([]int64, n), make([][]byte, n), make([]int64, n)
	for i := range n {
		ids[i] = fmt.Sprintf("bare-%d-%d", bareRound, i)
		shards[i], payloads[i], at[i] = int64(clock.Key{BusinessID: ids[i]}.Shard(64)), make([]byte, 200), bareNow
	}
	return []any{ids, shards, payloads, at}
}

func bareClaim(b *testing.B, conn *pgx.Conn, claim func(b *testing.B, conn *pgx.Conn, ids []int64)) {
	ctx := context.Background()
	for b.Loop() {
		b.StopTimer()
		rows, err := conn.Query(ctx, `INSERT INTO alarm (application, business_id, shard, state, generation, payload, payload_kind,
				content_type, target_ring_at, next_try_time, max_rings, priority, create_time, update_time)
			SELECT 'bare', n.business_id, n.shard, 1, 1, n.payload, 3, 'application/octet-stream', n.at, n.at, 10, 0, n.at, n.at
			FROM unnest($1::varchar[], $2::smallint[], $3::bytea[], $4::bigint[]) AS n (business_id, shard, payload, at) RETURNING id`,
			bareRows(300)...)
		ok(b, err, "insert")
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		ok(b, err, "insert")
		b.StartTimer()
		claim(b, conn, ids)
	}
	b.ReportMetric(float64(300*b.N)/b.Elapsed().Seconds(), "rows/s")
}

const (
	bareLock = `SELECT id FROM alarm WHERE id = ANY($1::bigint[]) AND state IN (1, 2) AND coalesce(next_try_time <= $2::bigint, FALSE)
		ORDER BY id FOR UPDATE SKIP LOCKED`
	bareTake = `SET state = 3, next_try_time = NULL, ring_no = ring_no + 1, claim_id = 'bare', rung_at = $2, update_time = $2, finished_at = $2`
)

func bareLockUpdate(b *testing.B, conn *pgx.Conn, ids []int64) {
	ctx := context.Background()
	var batch pgx.Batch
	batch.Queue("begin isolation level read committed")
	var locked []int64
	batch.Queue(bareLock, ids, bareNow).Query(func(rows pgx.Rows) (err error) {
		locked, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	ok(b, conn.SendBatch(ctx, &batch).Close(), "lock")
	bareRead(b, conn,
		"UPDATE alarm "+bareTake+" WHERE id = ANY($1::bigint[]) AND state IN (1, 2) RETURNING id, application, business_id, payload",
		locked)
	_, err := conn.Exec(ctx, "commit")
	ok(b, err, "commit")
}

func bareInOne(b *testing.B, conn *pgx.Conn, ids []int64) {
	ctx := context.Background()
	_, err := conn.Exec(ctx, "begin isolation level read committed")
	ok(b, err, "begin")
	bareRead(b, conn, "WITH l AS MATERIALIZED ("+bareLock+") UPDATE alarm a "+bareTake+
		" FROM l WHERE a.id = l.id RETURNING a.id, application, business_id, payload", ids)
	_, err = conn.Exec(ctx, "commit")
	ok(b, err, "commit")
}

func bareRead(b *testing.B, conn *pgx.Conn, query string, ids []int64) {
	rows, err := conn.Query(context.Background(), query, ids, bareNow)
	ok(b, err, "take")
	n := 0
	for rows.Next() {
		var id int64
		var application, businessID string
		var payload []byte
		ok(b, rows.Scan(&id, &application, &businessID, &payload), "take")
		n++
	}
	ok(b, rows.Err(), "take")
	if n != len(ids) {
		b.Fatalf("%d rows taken of %d", n, len(ids))
	}
}
