package mysql

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ engine.Driver = (*Driver)(nil)

// Driver is the engine.Driver of MySQL, MariaDB and TiDB.
type Driver struct {
	cfg    Config
	log    *slog.Logger
	q      *dbsqlc.Queries
	db     *sql.DB // keys of answers, and the server's settings
	reads  *sql.DB // requests that read alarms
	kills  *sql.DB // ends the statements of cancelled reads at the server
	writes *sql.DB // requests that write
	rings  *sql.DB // claims only
	upkeep *sql.DB // loading, expiring, purging
	leases *sql.DB // leases and the clock, apart from reads that may hang
	insert optimisticInsert

	mu     sync.Mutex
	server server // as Identify read it; the zero server before
}

// New returns a store that connects at its first use.
func New(cfg Config, deps Deps) (*engine.Store, error) {
	d, err := newDriver(cfg, deps.Logger())
	if err != nil {
		return nil, err
	}
	return d.newStore(deps)
}

// newStore returns the store above the driver, which closes it.
func (d *Driver) newStore(deps Deps) (*engine.Store, error) {
	return engine.New(engine.Config{Shards: d.cfg.Shards, ReadConns: d.cfg.ReadConns, Timeout: d.cfg.Timeout}, deps, d)
}

// newDriver returns a driver that connects at its first use.
func newDriver(cfg Config, log *slog.Logger) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c, err := cfg.driver(log)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, log: log, q: dbsqlc.New()}
	for _, p := range []struct {
		pool       **sql.DB
		conns      int
		autocommit bool
	}{{&d.db, cfg.Conns, true}, {&d.writes, cfg.WriteConns, false}, {&d.rings, cfg.RingConns, false}, {&d.upkeep, cfg.UpkeepConns, true}, {&d.leases, leaseConns, true}, {&d.kills, 1, true}} {
		if *p.pool, err = open(c, p.conns, p.autocommit); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if d.reads, err = openReads(c, cfg.ReadConns, d.kills); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Traits describes the engine: a claim may hold a transaction open, except on TiDB (Identify).
func (d *Driver) Traits() engine.Traits {
	return engine.Traits{Name: "mysql", Replica: "replica", HoldsClaims: true}
}

// pools returns the open pools.
func (d *Driver) pools() []*sql.DB {
	return slices.DeleteFunc([]*sql.DB{d.reads, d.rings, d.leases, d.upkeep, d.writes, d.db, d.kills},
		func(p *sql.DB) bool { return p == nil })
}

// Close closes idle connections at once, and busy connections when their calls and claims end.
func (d *Driver) Close() error {
	var errs []error
	for _, p := range d.pools() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// known returns the server's properties that Identify read; the zero server before.
func (d *Driver) known() server {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server
}

// ReadTime reads the server's clock (ReadTime).
func (d *Driver) ReadTime(ctx context.Context) (int64, error) { return d.q.ReadTime(ctx, d.leases) }
