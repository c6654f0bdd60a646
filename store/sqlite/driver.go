package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	_ "modernc.org/sqlite" // the driver

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ engine.Driver = (*Driver)(nil)

// Driver is the engine.Driver of a SQLite file.
type Driver struct {
	cfg    Config
	path   string
	q      *dbsqlc.Queries
	writer *sql.DB // one connection for all writes
	reader *sql.DB // loading, leases, keys of answers, and the file's settings
	reads  *sql.DB // requests that read alarms

	checkpoints *checkpointer // set by newStore

	writing, loading, reading *statements // of writer, reader and reads
}

// New returns a store that opens its file at its first use.
func New(cfg Config, deps Deps) (*engine.Store, error) {
	d, err := newDriver(cfg)
	if err != nil {
		return nil, err
	}
	return d.newStore(deps)
}

// newStore returns the store above the driver, which closes it.
func (d *Driver) newStore(deps Deps) (*engine.Store, error) {
	var err error
	if d.checkpoints, err = startCheckpointer(d.path, d.writer, deps.Logger()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return engine.New(engine.Config{Shards: d.cfg.Shards, ReadConns: d.cfg.ReadConns, Timeout: d.cfg.Timeout}, deps, d)
}

// newDriver returns a driver that opens its file at its first use.
func newDriver(cfg Config) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	path, err := cfg.path()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, path: path, q: dbsqlc.New()}
	for _, p := range []struct {
		pool    **sql.DB
		conns   int
		pragmas []string
	}{{&d.writer, 1, writePragmas}, {&d.reader, cfg.Readers, readPragmas}, {&d.reads, cfg.ReadConns, readPragmas}} {
		if *p.pool, err = open(path, p.pragmas, p.conns); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	d.writing, d.loading, d.reading = newStatements(d.writer), newStatements(d.reader), newStatements(d.reads)
	return d, nil
}

// open returns a pool that keeps up to conns connections to the file.
func open(path string, pragmas []string, conns int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, pragmas))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// Traits describes the engine. It holds no claims: while a claim held the only writer, no alarm could be set.
func (d *Driver) Traits() engine.Traits {
	return engine.Traits{Name: "sqlite: " + d.path}
}

// pools returns the open pools.
func (d *Driver) pools() []*sql.DB {
	return slices.DeleteFunc([]*sql.DB{d.reads, d.reader, d.writer}, func(p *sql.DB) bool { return p == nil })
}

// Close closes all connections. It waits for running calls.
func (d *Driver) Close() error {
	var errs []error
	if d.checkpoints != nil {
		errs = append(errs, d.checkpoints.close())
	}
	for _, p := range d.pools() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// ReadTime reads the machine's clock, to the millisecond (ReadTime).
func (d *Driver) ReadTime(ctx context.Context) (int64, error) { return d.q.ReadTime(ctx, d.loading) }
