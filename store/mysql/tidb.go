package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// The ends of statements that lock free rows and skip locked rows, and of their form for TiDB.
const (
	skipLocked = "FOR UPDATE SKIP LOCKED\n"
	noWait     = "FOR UPDATE NOWAIT\n"
)

// lockFree runs a statement that locks the free rows of a list and skips locked rows. On TiDB such a statement would
// lock nothing (pingcap/tidb#69720). So there it runs with NOWAIT, which fails at a locked row, and the list is halved
// until the locked rows are alone. compare gives the order in which the statement returns the rows.
func lockFree[T, R any](
	s server, db dbsqlc.DBTX, list []T, compare func(a, b T) int, lock func(db dbsqlc.DBTX, part []T) ([]R, error),
) ([]R, error) {
	if !s.tidb {
		return lock(db, list)
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return engine.ByHalves(list, func(part []T) ([]R, bool, error) {
		rows, err := lock(noWaitDB{db}, part)
		if hasNumber(err, errLockNoWait, errLockTimeout) {
			return nil, true, nil
		}
		return rows, false, err
	}, func([]T) []R { return nil })
}

// noWaitDB is a DBTX that runs a statement with SKIP LOCKED as a statement with NOWAIT.
type noWaitDB struct{ dbsqlc.DBTX }

// QueryContext runs the statement.
func (n noWaitDB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	before, skips := strings.CutSuffix(query, skipLocked)
	if !skips {
		return nil, fmt.Errorf("mysql: no SKIP LOCKED at the end of %q", query)
	}
	return n.DBTX.QueryContext(ctx, before+noWait, args...)
}
