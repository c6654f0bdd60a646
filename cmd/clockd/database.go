package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql"
	"github.com/clockd/clockd/store/postgresql"
	"github.com/clockd/clockd/store/sqlite"
)

// errScheme is a database URL that names no engine we have.
var errScheme = errors.New("the database URL must begin with mysql://, postgres:// or sqlite: to name its engine")

// spareRingConns are connections for rings beside one a worker: the worker for applications that are not well, and one to spare
// while another is being replaced.
const spareRingConns = 2

// newStore returns the adapter for the URL; nothing is opened but what can be without waiting.
func newStore(f databaseFlags, ringWorkers int, log *slog.Logger, reg prometheus.Registerer) (store.Store, error) {
	scheme, _, _ := strings.Cut(f.DatabaseURL, ":")
	switch scheme {
	case "mysql", "mariadb":
		cfg := mysql.DefaultConfig()
		cfg.URL, cfg.Shards, cfg.RingConns = f.DatabaseURL, f.Shards, ringWorkers+spareRingConns
		return mysql.New(cfg, mysql.Deps{Log: log, Registerer: reg})
	case "postgres", "postgresql":
		cfg := postgresql.DefaultConfig()
		cfg.URL, cfg.Shards, cfg.RingConns = f.DatabaseURL, f.Shards, ringWorkers+spareRingConns
		return postgresql.New(cfg, postgresql.Deps{Log: log, Registerer: reg})
	case "sqlite":
		cfg := sqlite.DefaultConfig()
		cfg.URL, cfg.Shards = f.DatabaseURL, f.Shards
		return sqlite.New(cfg, sqlite.Deps{Log: log, Registerer: reg})
	default:
		return nil, errScheme
	}
}

// checkDatabase returns what is wrong with the flags.
func checkDatabase(f databaseFlags, ringWorkers int) error {
	st, err := newStore(f, ringWorkers, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	return st.Close()
}

// openStore opens the database, brings the schema up to date unless told not to, and checks it. A database that does not
// answer is asked again until the start timeout.
func openStore(ctx context.Context, cfg *config, log *slog.Logger, reg prometheus.Registerer) (store.Store, error) {
	st, err := newStore(cfg.databaseFlags, cfg.RingWorkers, log, reg)
	if err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{st.Migrate, st.Check}
	if cfg.NoMigrate {
		steps = steps[1:]
	}
	if cfg.RequireDurable {
		steps = append(steps, func(ctx context.Context) error { return requireDurable(ctx, st) })
	}
	for _, step := range steps {
		if err := patiently(ctx, cfg.StartTimeout, log, step); err != nil {
			return nil, errors.Join(fmt.Errorf("open database %s: %w", withoutPassword(cfg.DatabaseURL), err), st.Close())
		}
	}
	log.Info("database is ready", "engine", st.Engine(), "shards", st.ShardCount())
	return st, nil
}

// patiently repeats step while the database does not answer, until the timeout.
func patiently(ctx context.Context, timeout time.Duration, log *slog.Logger, step func(context.Context) error) error {
	const pause = time.Second
	deadline := time.Now().Add(timeout)
	for {
		err := step(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, clock.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
		log.Warn("the database does not answer yet", "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// migrateCommand brings the schema up to date.
type migrateCommand struct {
	databaseFlags
	logFlags
}

// Run migrates and checks.
func (m *migrateCommand) Run() error {
	log := m.logger()
	if err := checkDatabase(m.databaseFlags, 1); err != nil {
		return &configError{reasons: err}
	}
	cfg := &config{serveFlags: serveFlags{databaseFlags: m.databaseFlags, RingWorkers: 1}}
	st, err := openStore(context.Background(), cfg, log, nil)
	if err != nil {
		return err
	}
	return st.Close()
}
