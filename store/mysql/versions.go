package mysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// counters are the parts of a row's version that are equal in most rows of a batch.
type counters struct {
	generation, state, ringNo, retryTimes int64
	inDoubt, unrung                       int64 // 0 or 1; unrung is 1 if rung_at is NULL
}

// versions holds the row versions that LockDue read. The UPDATE of the claim changes only these versions.
type versions struct {
	ids    []int64
	common counters // counters of all rows except others
	others []int64  // ids of rows with different counters; never empty: without such rows it holds 0, which no row has
	texts  []any    // versions of others as LockDue packed them; never empty: without such rows it holds ""
}

// versionsOf returns the versions of rows. rows must not be empty.
func versionsOf(rows []*dueRow) versions {
	v := versions{ids: make([]int64, len(rows)), common: mostFrequent(rows)}
	for i, r := range rows {
		v.ids[i] = r.ID
		if r.counters() != v.common {
			v.others, v.texts = append(v.others, r.ID), append(v.texts, r.version)
		}
	}
	if len(v.others) == 0 {
		v.others, v.texts = []int64{0}, []any{""}
	}
	return v
}

// mostFrequent returns the most frequent counters among the rows.
func mostFrequent(rows []*dueRow) counters {
	seen := make(map[counters]int, 1)
	most := rows[0].counters()
	for _, r := range rows {
		c := r.counters()
		if seen[c]++; seen[c] > seen[most] {
			most = c
		}
	}
	return most
}

// counters returns the counters of the row.
func (r *dueRow) counters() counters {
	c := counters{generation: r.Generation, state: int64(r.State), ringNo: int64(r.RingNo), retryTimes: int64(r.RetryTimes), inDoubt: engine.Bit(r.InDoubt)}
	c.unrung = engine.Bit(r.RungAt == clock.NoInstant)
	return c
}

// lastRepeated is a DBTX for one generated method. It runs the method's statement with the last parameter repeated for each value. sqlc drops
// a parameter after an expression and IN.
type lastRepeated struct {
	dbsqlc.DBTX
	values []any
}

// ExecContext runs the statement.
func (l lastRepeated) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	at := strings.LastIndexByte(query, '?') + 1
	return l.DBTX.ExecContext(ctx, query[:at]+strings.Repeat(", ?", len(l.values)-1)+query[at:], append(args, l.values...)...)
}
