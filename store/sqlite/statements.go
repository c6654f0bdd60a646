//nolint:sqlclosecheck // the pools close the kept statements
package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"

	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ dbsqlc.DBTX = (*statements)(nil)

// statements runs the statements of a pool. It prepares each once and keeps it, because parsing takes longer than
// running. The pool closes them.
type statements struct {
	pool *sql.DB

	mu       sync.Mutex
	prepared map[unionAll]*sql.Stmt
	wanted   []string // statements that a transaction has used unprepared
}

// unionAll is a query for one shard, joined for several by UNION ALL. Other statements have one shard. The joined text
// is long, so it is made only to be prepared.
type unionAll struct {
	query  string
	shards int
}

func (u unionAll) text() string { return u.query + strings.Repeat(" UNION ALL "+u.query, u.shards-1) }

func newStatements(pool *sql.DB) *statements {
	return &statements{pool: pool, prepared: make(map[unionAll]*sql.Stmt)}
}

// lookup returns the prepared statement, or nil.
func (s *statements) lookup(query unionAll) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prepared[query]
}

// prepare returns the prepared statement. It prepares the statement on a free connection if necessary.
func (s *statements) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.prepareUnion(ctx, unionAll{query, 1})
}

// prepareUnion is prepare for several shards.
func (s *statements) prepareUnion(ctx context.Context, query unionAll) (*sql.Stmt, error) {
	if statement := s.lookup(query); statement != nil {
		return statement, nil
	}
	statement, err := s.pool.PrepareContext(ctx, query.text())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.prepared[query]; first != nil { // another call has prepared the same statement meanwhile
		return first, statement.Close()
	}
	s.prepared[query] = statement
	return statement, nil
}

// want makes a later prepareWanted prepare the statement. A transaction calls it, because the connection that it holds
// may be the only one.
func (s *statements) want(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.wanted, query) {
		s.wanted = append(s.wanted, query)
	}
}

// prepareWanted prepares one statement that a transaction wanted. It prepares no more, because each time the caller
// waits for a connection. A failure costs only speed.
func (s *statements) prepareWanted(ctx context.Context) {
	s.mu.Lock()
	var query string
	if n := len(s.wanted); n > 0 {
		query, s.wanted = s.wanted[n-1], s.wanted[:n-1]
	}
	s.mu.Unlock()
	if query != "" {
		_, _ = s.prepare(ctx, query)
	}
}

// ExecContext runs a statement without rows.
func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(ctx, args...)
}

// PrepareContext returns the prepared statement. The caller must not close it.
func (s *statements) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return s.prepare(ctx, query)
}

// QueryContext runs a statement with rows.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, args...)
}

// QueryRowContext runs a statement that returns one row.
func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	statement, err := s.prepare(ctx, query)
	if err != nil {
		return s.pool.QueryRowContext(ctx, query, args...) // the Row returns the same error
	}
	return statement.QueryRowContext(ctx, args...)
}
