package postgresql

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var (
	_ engine.Driver  = (*Driver)(nil)
	_ engine.Notices = (*Driver)(nil)
	_ engine.Numbers = (*Driver)(nil)
)

// Driver is the engine.Driver of PostgreSQL.
type Driver struct {
	cfg Config
	log *slog.Logger

	distributed *citussqlc.Queries
	placed      atomic.Pointer[distribution] // of a distributed database, as Identify has read it; nil: one server
	ids         idBlock
	attempts    atomic.Uint64 // attempts of a distributed database that got an id; begins with a random number

	sessionsApart atomic.Bool // refuseSharedSessions has found that connections share no session

	q      *dbsqlc.Queries
	pool   *pgxpool.Pool // requests that write, and keys of answers
	reads  *pgxpool.Pool // requests that read alarms
	rings  *pgxpool.Pool // claims only
	upkeep *pgxpool.Pool // loading, expiring, purging
	leases *pgxpool.Pool // leases and the clock, apart from reads that may hang
}

// distributedConns is how many connections a write has in a distributed database for each connection of Config.Conns. A
// group of ops is one transaction for each placement.
const distributedConns = 4

// New returns a store that connects at its first use.
func New(cfg Config, deps Deps) (*engine.NotifyingStore, error) {
	d, err := newDriver(cfg, deps.Logger())
	if err != nil {
		return nil, err
	}
	return d.newStore(deps)
}

// newStore returns the store above the driver, which closes it.
func (d *Driver) newStore(deps Deps) (*engine.NotifyingStore, error) {
	return engine.NewNotifying(engine.Config{Shards: d.cfg.Shards, ReadConns: d.cfg.ReadConns, Timeout: d.cfg.Timeout},
		deps, d)
}

// newDriver returns a driver that connects at its first use.
func newDriver(cfg Config, log *slog.Logger) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, log: log, q: dbsqlc.New(), distributed: citussqlc.New()}
	d.attempts.Store(rand.Uint64())
	if cfg.Distributed {
		cfg.Conns, cfg.RingConns = cfg.Conns*distributedConns, cfg.RingConns*clock.MaxShards
	}
	for _, p := range []struct {
		pool     **pgxpool.Pool
		conns    int
		settings map[string]string
	}{
		{&d.pool, cfg.Conns, sessionSettings()}, {&d.reads, cfg.ReadConns, readSettings()},
		{&d.rings, cfg.RingConns, ringSettings()},
		{&d.upkeep, cfg.UpkeepConns, upkeepSettings()}, {&d.leases, leaseConns, upkeepSettings()},
	} {
		c, err := cfg.pool(p.conns, cfg.withDistributed(p.settings))
		if err == nil && p.pool == &d.reads {
			cancelAtServer(c)
		}
		if err == nil && p.pool == &d.rings {
			prepareOnConnect(c, d.prepareClaims)
		}
		if err == nil {
			*p.pool, err = pgxpool.NewWithConfig(context.Background(), c)
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Traits describes the engine: a claim may hold a transaction open.
func (d *Driver) Traits() engine.Traits {
	return engine.Traits{Name: "postgresql", Replica: "standby", HoldsClaims: true}
}

// pools returns the open pools.
func (d *Driver) pools() []*pgxpool.Pool {
	return slices.DeleteFunc([]*pgxpool.Pool{d.rings, d.leases, d.upkeep, d.pool, d.reads},
		func(p *pgxpool.Pool) bool { return p == nil })
}

// Close closes all connections. It waits for running calls and open claims.
func (d *Driver) Close() error {
	for _, p := range d.pools() {
		p.Close()
	}
	return nil
}

// ReadTime reads the server's clock (ReadTime).
func (d *Driver) ReadTime(ctx context.Context) (int64, error) { return d.q.ReadTime(ctx, d.leases) }

// cleanupContext returns a context for cleaning up after a failed call. It does not end with the call's context.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}
