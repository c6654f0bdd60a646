package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/store"
)

var _ store.Store = (*Store)(nil)

// Config is what every engine's configuration contains.
type Config struct {
	Shards    int           // shard count of a new database; 0: clock.DefaultShards, or the existing count
	ReadConns int           // connections for requests that read alarms, at least 2
	Timeout   time.Duration // limit of a call whose context has no deadline
}

// Deps are the dependencies of a Store.
type Deps struct {
	Log        *slog.Logger          // nil: no log
	Registerer prometheus.Registerer // registry of the store's metrics; nil: they are not registered
}

// Logger returns Log, or a logger that discards everything.
func (d Deps) Logger() *slog.Logger {
	if d.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Log
}

// Store is the store.Store of all engines. It is safe for concurrent use.
type Store struct {
	*calls
	driver Driver
	log    *slog.Logger
	gate   *ReadGate
	shards int // configured shard count; 0: none

	known  atomic.Pointer[known]
	purges atomic.Uint32 // calls of Purge

	applications guessedNames
}

// known holds the values that Check has read.
type known struct {
	shards        int
	engine        string
	commitsClaims bool // Server.CommitsClaims
	placements    placements
}

// New returns a Store above the driver. The Store owns the driver and closes it; after an error, New has closed it.
// Migrate, if needed, and Check must come before all other methods.
func New(cfg Config, deps Deps, d Driver) (*Store, error) {
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s := &Store{
		calls:  &calls{timeout: cfg.Timeout, traits: d.Traits(), errors: d, metrics: m},
		driver: d, log: deps.Logger(), gate: NewReadGate(cfg.ReadConns), shards: cfg.Shards,
	}
	s.known.Store(&known{})
	return s, nil
}

// Close closes the driver.
func (s *Store) Close() error { return s.driver.Close() }

// HoldsClaims reports whether a claim may hold a transaction open. Before Check it reports the ability of the engine.
func (s *Store) HoldsClaims() bool { return s.traits.HoldsClaims && !s.known.Load().commitsClaims }

// placements returns the placements that Check read; one before Check.
func (s *Store) placements() *placements { return &s.known.Load().placements }

// ShardCount returns the shard count that Check read; 0 before Check.
func (s *Store) ShardCount() int { return s.known.Load().shards }

// Engine returns engine and version, as Check read them; "" before Check.
func (s *Store) Engine() string { return s.known.Load().engine }

// Time returns the database's clock in microseconds since the epoch.
func (s *Store) Time(ctx context.Context) (micros int64, err error) {
	err = s.call(ctx, "read the time", func(ctx context.Context) (err error) {
		micros, err = s.driver.ReadTime(ctx)
		return err
	})
	return micros, err
}

// Durability judges the settings that decide how safe commits are.
func (s *Store) Durability(ctx context.Context) (found []store.Finding, err error) {
	err = s.call(ctx, "read how durable commits are", func(ctx context.Context) (err error) {
		found, err = s.driver.ReadDurability(ctx)
		return err
	})
	return found, err
}
