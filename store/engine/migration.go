package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/store"
)

// Migration is a file of statements that bring the schema from the previous version to Version.
type Migration struct {
	Name    string // file name
	Version int64
	Header  string   // comment and blank lines between the Up line and the first statement; empty if none
	New     bool     // only a new database gets it
	Up      []string // statements in order, at least one; whole lines with semicolon, trailing comment and line break
}

const (
	gooseUp   = "-- +goose Up" // first line of a migration file, for goose and sqlc
	gooseLine = "-- +goose "
	// onlyNew is in the header of a migration that makes the schema of a new database.
	onlyNew = "because only a new database gets it."
)

// ReadMigrations reads all files NNNNN_name.sql at the root, sorted by version.
func ReadMigrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	all := make([]Migration, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if all[i], err = readMigration(name, string(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readMigration(name, text string) (Migration, error) {
	m := Migration{Name: path.Base(name)}
	number, _, _ := strings.Cut(m.Name, "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return m, fmt.Errorf("migration %s: the name does not begin with a version: %w", name, err)
	}
	m.Version = version
	before, rest, isUp := strings.Cut(text, gooseUp+"\n")
	if !isUp || strings.TrimSpace(before) != "" || strings.Contains(rest, gooseLine) {
		return m, fmt.Errorf("migration %s: must begin with %q, and have no other goose line", name, gooseUp)
	}
	var header, statement strings.Builder
	for line := range strings.Lines(rest) {
		text := strings.TrimSpace(line)
		switch {
		case statement.Len() == 0 && (text == "" || strings.HasPrefix(text, "--")):
			if len(m.Up) == 0 {
				header.WriteString(line)
			}
			continue
		default:
			statement.WriteString(line)
		}
		if code, _, _ := strings.Cut(text, "--"); strings.HasSuffix(strings.TrimSpace(code), ";") {
			m.Up = append(m.Up, statement.String())
			statement.Reset()
		}
	}
	m.Header = header.String()
	m.New = strings.Contains(m.Header, onlyNew)
	if strings.TrimSpace(statement.String()) != "" || len(m.Up) == 0 {
		return m, fmt.Errorf("migration %s: the last statement has no semicolon, or there is no statement", name)
	}
	return m, nil
}

// Execer runs statements.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// RemainderFunc returns the part of a statement that still has to run: all of it, a part, or "" if the schema shows
// that it has run.
type RemainderFunc func(ctx context.Context, statement string) (string, error)

// Run runs the migration's statements in order. Of each statement it runs what remainder returns; a nil remainder runs
// all of it. When ctx ends, Run starts no further statement. It does not cancel the running one, because a cancelled
// schema change may be half done. The error is a *store.SchemaError.
func (m *Migration) Run(ctx context.Context, db Execer, remainder RemainderFunc, log *slog.Logger) error {
	for i, statement := range m.Up {
		if err := m.run(ctx, db, remainder, log.With("migration", m.Name, "statement", i+1), statement); err != nil {
			return &store.SchemaError{Migration: m.Name, Statement: headline(statement), Cause: err}
		}
	}
	return nil
}

func (m *Migration) run(
	ctx context.Context, db Execer, remainder RemainderFunc, log *slog.Logger, statement string,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if remainder != nil {
		rest, err := remainder(ctx, statement)
		if err != nil || rest == "" {
			return err
		}
		statement = rest
	}
	log.Debug("migration statement begins")
	_, err := db.ExecContext(ctx, statement)
	return err
}

// headline returns the first line of a statement, cut to 80 bytes.
func headline(statement string) string {
	const longest = 80
	line, _, _ := strings.Cut(strings.TrimSpace(statement), "\n")
	if len(line) > longest {
		line = line[:longest] + "..."
	}
	return line
}

// transactionalMigrations returns the migrations for goose on an engine with transactional schema changes. Each
// migration is done as a whole, or not at all. When ctx ends, the migration stops before its next statement.
func transactionalMigrations(ctx context.Context, all []Migration, log *slog.Logger) goose.ProviderOption {
	return gooseMigrations(all, func(m *Migration) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(_ context.Context, tx *sql.Tx) error { return m.Run(ctx, tx, nil, log) }}
	})
}

// stepwiseMigrations returns the migrations for goose on an engine that commits each statement by itself. Statements
// run on the connection that conn returns. Of each statement only the part that remainder returns runs.
func stepwiseMigrations(
	ctx context.Context, all []Migration, conn func() Execer, remainder RemainderFunc, log *slog.Logger,
) goose.ProviderOption {
	return gooseMigrations(all, func(m *Migration) *goose.GoFunc {
		return &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error { return m.Run(ctx, conn(), remainder, log) }}
	})
}

func gooseMigrations(all []Migration, up func(m *Migration) *goose.GoFunc) goose.ProviderOption {
	migrations := make([]*goose.Migration, len(all))
	for i := range all {
		migrations[i] = goose.NewGoMigration(all[i].Version, up(&all[i]), nil)
	}
	return goose.WithGoMigrations(migrations...)
}

// stoppableLock is a goose lock whose wait ends with ctx. The context that goose passes to it does not end.
type stoppableLock struct {
	lock.SessionLocker
	ctx context.Context //nolint:containedctx // of the migration, which is one call
}

// newStoppableLock returns a lock that waits for l until ctx ends.
func newStoppableLock(ctx context.Context, l lock.SessionLocker) stoppableLock {
	return stoppableLock{SessionLocker: l, ctx: ctx}
}

// SessionLock waits for the lock. When ctx ends, its error is joined to the driver's, which may name only the closed
// connection.
func (l stoppableLock) SessionLock(_ context.Context, conn *sql.Conn) error {
	err := l.SessionLocker.SessionLock(l.ctx, conn)
	if err != nil {
		err = errors.Join(err, l.ctx.Err())
	}
	return err
}
