package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql"
	"github.com/clockd/clockd/store/postgresql"
	"github.com/clockd/clockd/store/sqlite"
)

// errScheme is the error for a database URL without a supported engine.
var errScheme = errors.New("the database URL must begin with mysql://, mariadb://, postgres:// or sqlite: to name its engine")

// modeDistributed is the value of CLOCKD_DATABASE_MODE for a database of several servers.
const modeDistributed = "distributed"

// errMode is the error for the distributed mode of another engine.
var errMode = errors.New("the database mode is distributed: the database URL must begin with postgres:// and lead to the coordinator of Citus")

// name returns the database's URL for people: without password and parameters, and with the whole path of a SQLite
// file.
func (f databaseFlags) name() string {
	if path, is := strings.CutPrefix(f.DatabaseURL, sqliteScheme); is {
		if whole, err := filepath.Abs(path); err == nil && !strings.HasPrefix(path, "//") {
			return sqliteScheme + whole
		}
	}
	return shownURL(f.DatabaseURL)
}

// sqliteScheme begins the URL of a SQLite database. defaultDatabaseURL is the default of databaseFlags.
const (
	sqliteScheme       = "sqlite:"
	defaultDatabaseURL = sqliteScheme + "clockd.db"
)

// errNoDatabase begins the error for a SQLite file that does not exist.
var errNoDatabase = errors.New("there is no database")

// checkExists returns an error if the URL names a SQLite file that does not exist. Only serve and migrate make a
// database: another command would change an empty one, while the service runs on its own.
func (f databaseFlags) checkExists() error {
	path, is := strings.CutPrefix(f.DatabaseURL, sqliteScheme)
	if !is {
		return nil
	}
	if _, err := os.Stat(strings.TrimPrefix(path, "//")); !errors.Is(err, os.ErrNotExist) {
		return nil // the open tells another fault
	}
	hint := "clockd serve and clockd migrate make it"
	if f.DatabaseURL == defaultDatabaseURL && os.Getenv("CLOCKD_DATABASE_URL") == "" {
		hint = "CLOCKD_DATABASE_URL is not set: set it to the database that clockd serve uses, or make this one with clockd migrate"
	}
	return fmt.Errorf("%w %s; %s", errNoDatabase, f.name(), hint)
}

// spareRingConns is how many connections rings need beyond ring.Connections. One serves while another is being
// replaced.
const spareRingConns = 1

// newStore returns the adapter for the URL. It does not wait for a server.
func newStore(flags databaseFlags, ringConns int, log *slog.Logger, reg prometheus.Registerer) (store.Store, error) {
	scheme, _, _ := strings.Cut(flags.DatabaseURL, ":")
	distributed := flags.DatabaseMode == modeDistributed
	if distributed && scheme != "postgres" && scheme != "postgresql" {
		return nil, errMode
	}
	switch scheme {
	case "mysql", "mariadb":
		cfg := mysql.DefaultConfig()
		cfg.URL, cfg.Shards, cfg.RingConns = flags.DatabaseURL, flags.Shards, ringConns
		return mysql.New(cfg, mysql.Deps{Log: log, Registerer: reg})
	case "postgres", "postgresql":
		cfg := postgresql.DefaultConfig()
		cfg.URL, cfg.Shards, cfg.RingConns, cfg.Distributed = flags.DatabaseURL, flags.Shards, ringConns, distributed
		return postgresql.New(cfg, postgresql.Deps{Log: log, Registerer: reg})
	case "sqlite":
		cfg := sqlite.DefaultConfig()
		cfg.URL, cfg.Shards = flags.DatabaseURL, flags.Shards
		return sqlite.New(cfg, sqlite.Deps{Log: log, Registerer: reg})
	default:
		return nil, errScheme
	}
}

// checkDatabase returns the faults of the flags, or nil.
func checkDatabase(flags databaseFlags, ringConns int) error {
	st, err := newStore(flags, ringConns, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	return st.Close()
}

// openStore opens the database, brings the schema up to date unless NoMigrate is set, and checks it. It asks an
// unavailable database again until StartTimeout. The timeout does not end a running migration. The end of ctx ends a
// migration after its running statement. tell gets the state of the database until it is open; see reported.
func openStore(
	ctx context.Context, cfg *config, log *slog.Logger, reg prometheus.Registerer, tell func(clockhttp.Check),
) (store.Store, error) {
	st, err := newStore(cfg.databaseFlags, cfg.ringConns(), log, reg)
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
		step = reported(tell, "its schema is being checked, or migrated", step)
		if err := retryWhileUnavailable(ctx, cfg.StartTimeout, log, cfg.setupMayChange(), step); err != nil {
			return nil, errors.Join(fmt.Errorf("open database %s: %w", cfg.databaseFlags.name(), err), st.Close())
		}
	}
	log.Info("database is ready", "database", cfg.databaseFlags.name(), "engine", st.Engine(), "shards",
		st.ShardCount())
	return st, nil
}

// setupMayChange reports whether a person may be about to make the database or its user (store.ErrSetup). No person
// makes the folder of a SQLite file.
func (f databaseFlags) setupMayChange() bool { return !strings.HasPrefix(f.DatabaseURL, sqliteScheme) }

// reported returns the step, which tells what it does when it begins, and how it failed. A try after a failure tells
// both, because the database may be back and the step may take long. A starting node tells its port.
func reported(tell func(clockhttp.Check), doing string, step func(context.Context) error) func(context.Context) error {
	detail := doing
	return func(ctx context.Context) error {
		tell(clockhttp.Check{Name: "database", Status: statusWarning, Detail: detail})
		err := step(ctx)
		if err != nil {
			tell(check("database", err))
			detail = fmt.Sprintf("%s; the last try failed: %s", doing, err)
		}
		return err
	}
}

// unreported is the tell of commands, which have no port.
func unreported(clockhttp.Check) {}

// retryWhileUnavailable repeats step while its error is clock.ErrUnavailable, until the timeout. It does not repeat an
// error of the set-up that nothing changes.
func retryWhileUnavailable(
	ctx context.Context, timeout time.Duration, log *slog.Logger, setupMayChange bool, step func(context.Context) error,
) error {
	const pause = time.Second
	deadline := time.Now().Add(timeout)
	for {
		err := step(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, clock.ErrUnavailable) {
			return err
		}
		if time.Now().After(deadline) {
			return gaveUp(timeout, err)
		}
		setup := errors.Is(err, store.ErrSetup)
		if setup && !setupMayChange {
			return err
		}
		schema, interrupted := errors.AsType[*store.SchemaError](err)
		switch {
		case interrupted:
			log.Warn("a migration was interrupted and goes on", "migration", schema.Migration, "err", err)
		case setup:
			log.Error("the database does not let clockd in: waiting helps only if its user, its password or the database itself is about to be made", "err", err)
		default:
			log.Warn("the database is not available yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// gaveUp returns the error of a start that has waited for the database in vain. Commands do not wait.
func gaveUp(timeout time.Duration, err error) error {
	if timeout == 0 {
		return err
	}
	return fmt.Errorf("gave up after %s (CLOCKD_START_TIMEOUT): %w", timeout, err)
}

// migrateCommand brings the schema up to date.
type migrateCommand struct {
	databaseFlags
	logFlags
}

// Run migrates and checks the database. SIGTERM and SIGINT end the migration after its running statement. The next
// start continues it.
func (m *migrateCommand) Run(values *sources) error {
	log := m.logger()
	values.warnReadable(log)
	if err := checkDatabase(m.databaseFlags, spareRingConns); err != nil {
		return &configError{reasons: err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg := &config{serveFlags: serveFlags{databaseFlags: m.databaseFlags}}
	st, err := openStore(ctx, cfg, log, nil, unreported)
	if err != nil {
		return err
	}
	return st.Close()
}
