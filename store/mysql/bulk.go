package mysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// maxBulk is the largest number of rows in one statement.
const maxBulk = 1000

// part is the fragment of a statement that is repeated for each row. The statement contains first; next is added for every further row.
type part struct{ first, next string }

// The repeated parts of the statements that take any number of rows.
var (
	alarmTuple       = guarded(tuple(dbsqlc.InsertAlarms))
	attemptTuple     = tuple(dbsqlc.InsertAttempts)
	shardTuple       = part{first: "(?)", next: ", (?)"}
	keyPair          = part{first: "(?, ?)", next: ", (?, ?)"}
	rewriteRow       = selection(dbsqlc.RewriteAlarms)
	amendRow         = selection(dbsqlc.AmendAlarms)
	settleRow        = selection(dbsqlc.SettleAlarms)
	dueOfShard       = union(dbsqlc.ListDue)
	dueEndOfShard    = union(dbsqlc.ListDueEnd)
	dueOnlyOfShard   = union(dbsqlc.ListDueOnly)
	dueExceptOfShard = union(dbsqlc.ListDueExcept)
	oldestOfShard    = union(dbsqlc.ListOldest)
	finishedOfShard  = union(dbsqlc.ListFinished)
)

// tuple returns the tuple of an INSERT ... VALUES.
func tuple(query string) part {
	_, values, _ := strings.Cut(query, "\nVALUES ")
	values = strings.TrimSpace(values)
	return part{first: values, next: ", " + values}
}

// guarded returns a tuple whose first value checks the build level. Only the first row has the check; the repetitions have a plain value.
func guarded(p part) part {
	before, guard, _ := strings.Cut(p.next, "(SELECT ")
	_, after, _ := strings.Cut(guard, " = 1)")
	return part{first: p.first, next: before + "?" + after}
}

// selection returns the SELECT of literals at the beginning of an UPDATE.
func selection(query string) part {
	_, rest, _ := strings.Cut(query, "UPDATE (\n")
	first, _, _ := strings.Cut(rest, "\n) ")
	return part{first: first, next: " UNION ALL SELECT ?" + strings.Repeat(", ?", strings.Count(first, "?")-1)}
}

// union returns a whole SELECT in parentheses. It leaves out the LIMIT of the whole UNION, which may follow.
func union(query string) part {
	first, _, _ := strings.Cut(strings.TrimSpace(query[strings.Index(query, "\n")+1:]), "\nLIMIT ?")
	return part{first: first, next: "\nUNION ALL\n" + first}
}

// namesSlice is sqlc's placeholder for the slice of applications.
const namesSlice = "/*SLICE:applications*/?"

// named returns the part with count parameters for application names, as the generated method writes them.
func (p part) named(count int) part {
	r := strings.NewReplacer(namesSlice, strings.Repeat(",?", count)[1:])
	return part{first: r.Replace(p.first), next: r.Replace(p.next)}
}

// bulk is a DBTX for one generated method. It runs the method's statement with a part repeated for each row, and with its own arguments
// instead of the method's.
type bulk struct {
	dbsqlc.DBTX
	part
	rows   int
	args   []any
	prefix string // text before the statement
}

// ExecContext runs the statement.
func (b bulk) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return b.DBTX.ExecContext(ctx, b.expand(query), b.args...)
}

// QueryContext runs the statement.
func (b bulk) QueryContext(ctx context.Context, query string, _ ...any) (*sql.Rows, error) {
	return b.DBTX.QueryContext(ctx, b.expand(query), b.args...)
}

func (b bulk) expand(query string) string {
	at := strings.Index(query, b.first) + len(b.first)
	return b.prefix + query[:at] + strings.Repeat(b.next, b.rows-1) + query[at:]
}

// chunks calls do for consecutive ranges of n rows. A range has at most maxBulk rows and at most maxBytes bytes by size. A single row may
// be larger than maxBytes.
func chunks(n, maxBytes int, size func(i int) int, do func(from, to int) error) error {
	for from := 0; from < n; {
		to, bytes := from, 0
		for to < n && to-from < maxBulk && (to == from || bytes+size(to) <= maxBytes) {
			bytes += size(to)
			to++
		}
		if err := do(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}
