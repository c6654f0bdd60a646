package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

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
func versionsOf(rows []*engine.DueRow) versions {
	v := versions{ids: make([]int64, len(rows)), common: mostFrequent(rows)}
	for i, r := range rows {
		v.ids[i] = r.ID
		if countersOf(r) != v.common {
			v.others, v.texts = append(v.others, r.ID), append(v.texts, versionText(r))
		}
	}
	if len(v.others) == 0 {
		v.others, v.texts = []int64{0}, []any{""}
	}
	return v
}

// mostFrequent returns the most frequent counters among the rows.
func mostFrequent(rows []*engine.DueRow) counters {
	seen := make(map[counters]int, 1)
	most := countersOf(rows[0])
	for _, r := range rows {
		c := countersOf(r)
		if seen[c]++; seen[c] > seen[most] {
			most = c
		}
	}
	return most
}

// countersOf returns the counters of the row.
func countersOf(r *engine.DueRow) counters {
	return counters{
		generation: r.Generation, state: r.State, ringNo: r.RingNo, retryTimes: r.RetryTimes, inDoubt: r.InDoubt,
		unrung: engine.Bit(!r.RungAt.Valid),
	}
}

// generationText returns a row's id and generation as ExpireAlarms and KillAlarms compare them.
func generationText(id, generation int64) string { return fmt.Sprint(id, " ", generation) }

// lastRepeated is a DBTX for one generated method. It runs the method's statement with the last parameter repeated for
// each value. sqlc drops a parameter after an expression and IN.
type lastRepeated struct {
	dbsqlc.DBTX
	values []any
}

// ExecContext runs the statement.
func (l lastRepeated) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	at := strings.LastIndexByte(query, '?') + 1
	return l.DBTX.ExecContext(ctx, query[:at]+strings.Repeat(", ?", len(l.values)-1)+query[at:],
		append(args, l.values...)...)
}
