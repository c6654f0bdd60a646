package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// maxBulk is the largest number of rows in one statement.
const maxBulk = 1000

// repeated is a statement that takes any number of rows. Its text in queries/mysql marks the part of a row:
//
//	/*FIRST*/ part of the first row /*NEXT part of every further row*/
//
// The word FIRST in the further part stands for the part of the first row.
type repeated struct{ before, first, next, after string }

// split returns the parts of a statement. It panics if a marker is missing.
func split(query string) repeated {
	before, rest, hasFirst := strings.Cut(query, "/*FIRST*/")
	first, rest, hasNext := strings.Cut(rest, "/*NEXT")
	next, after, hasEnd := strings.Cut(rest, "*/")
	if !hasFirst || !hasNext || !hasEnd {
		panic("mysql: a marker of rows is missing in " + query)
	}
	first = strings.TrimSpace(first)
	return repeated{before: before, first: first, next: strings.ReplaceAll(next, "FIRST", first), after: after}
}

// expand returns the statement for a number of rows, after a prefix.
func (r *repeated) expand(prefix string, rows int) string {
	return prefix + r.before + r.first + strings.Repeat(r.next, rows-1) + r.after
}

// join returns the arguments of the whole statement: the generated arguments before the rows, the arguments of all
// rows, then the generated arguments after them. An argument that only the first row has counts as an argument before
// the rows.
func (r *repeated) join(generated, rows []any) []any {
	before := paramsIn(r.before) + paramsIn(r.first) - paramsIn(r.next)
	after := paramsIn(r.after)
	return append(slices.Insert(rows, 0, generated[:before]...), generated[len(generated)-after:]...)
}

func paramsIn(text string) int { return strings.Count(text, "?") }

// bulk is a DBTX for one generated method. It runs the method's statement for many rows, with their arguments instead
// of the arguments that the method passes for one row.
type bulk struct {
	dbsqlc.DBTX
	rows   int
	args   []any  // arguments of all rows; bulk changes them, and may write beyond their length
	prefix string // text before the statement
	insert bool   // the statement is an INSERT INTO alarm: leave out what the rows have in common
}

// ExecContext runs the statement.
func (b bulk) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	query, args = b.expand(query, args)
	return b.DBTX.ExecContext(ctx, query, args...)
}

// QueryContext runs the statement.
func (b bulk) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	query, args = b.expand(query, args)
	return b.DBTX.QueryContext(ctx, query, args...)
}

func (b bulk) expand(query string, args []any) (string, []any) {
	parts, rowArgs := split(query), b.args
	if b.insert {
		parts, rowArgs = parts.withoutShared(rowArgs)
	}
	return parts.expand(b.prefix, b.rows), parts.join(args, rowArgs)
}

// chunks calls do for consecutive ranges of n rows. A range has at most maxBulk rows and at most maxBytes bytes by
// size. A single row may be larger than maxBytes.
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
