package mysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// maxBulk bounds the rows of one statement.
const maxBulk = 1000

// part is what is repeated of a statement: first stands in it, next follows for every further row.
type part struct{ first, next string }

// The parts of the statements that take any number of rows.
var (
	alarmTuple   = tuple(dbsqlc.InsertAlarms)
	attemptTuple = tuple(dbsqlc.InsertAttempts)
	shardTuple   = part{first: "(?)", next: ", (?)"}
	keyPair      = part{first: "(?, ?)", next: ", (?, ?)"}
	rewriteRow   = selection(dbsqlc.RewriteAlarms)
	amendRow     = selection(dbsqlc.AmendAlarms)
	settleRow    = selection(dbsqlc.SettleAlarms)
	dueOfShard   = union(dbsqlc.ListDue)
	oldestOf     = union(dbsqlc.ListOldest)
	finishedOf   = union(dbsqlc.ListFinished)
)

// tuple returns the tuple of an INSERT ... VALUES.
func tuple(query string) part {
	_, values, _ := strings.Cut(query, "\nVALUES ")
	values = strings.TrimSpace(values)
	return part{first: values, next: ", " + values}
}

// selection returns the SELECT of literals that an UPDATE begins with.
func selection(query string) part {
	_, rest, _ := strings.Cut(query, "UPDATE (\n")
	first, _, _ := strings.Cut(rest, "\n) ")
	return part{first: first, next: " UNION ALL SELECT ?" + strings.Repeat(", ?", strings.Count(first, "?")-1)}
}

// union returns a whole SELECT in parentheses, without the LIMIT of all that may follow it.
func union(query string) part {
	first, _, _ := strings.Cut(strings.TrimSpace(query[strings.Index(query, "\n")+1:]), "\nLIMIT ?")
	return part{first: first, next: "\nUNION ALL\n" + first}
}

// bulk is a DBTX for one generated method: it runs the method's statement with a part repeated and with arguments of its
// own in place of the method's.
type bulk struct {
	dbsqlc.DBTX
	part
	rows   int
	args   []any
	prefix string // goes before the statement
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

// chunks calls do for consecutive ranges of n rows, each of at most maxBulk and (but for a single row) maxBytes by size.
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
