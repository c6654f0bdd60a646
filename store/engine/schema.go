package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Migrate applies the missing migrations under a lock, and makes the shards of a new database. It has no deadline of
// its own, except for reaching the server. The end of ctx takes effect between two statements.
func (s *Store) Migrate(ctx context.Context) error {
	session, err := s.driver.OpenMigration(ctx)
	if err != nil {
		return s.mapMigrationError(ctx, err)
	}
	defer session.close()
	if err := s.migrate(ctx, session); err != nil {
		return s.mapMigrationError(ctx, err)
	}
	count := s.shards
	if count == 0 {
		count = clock.DefaultShards
	}
	return s.replayed(ctx, "make shards", func(ctx context.Context) error { return s.driver.MakeShards(ctx, count) })
}

// migrate applies the missing migrations in the session.
func (s *Store) migrate(ctx context.Context, session *MigrationSession) error {
	migrations, err := ReadMigrations(s.driver.Migrations())
	if err != nil {
		return err
	}
	if err := session.DB.PingContext(ctx); err != nil {
		return fmt.Errorf("connect: %w", err) // goose would call it a failed initialization
	}
	has, err := s.driver.ReadSchemaVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if err := session.refuseSteps(ctx, has, migrations); err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if session.Lock != nil {
		options = append(options, goose.WithSessionLocker(newStoppableLock(ctx, session.Lock)))
	}
	if session.Conn == nil {
		options = append(options, transactionalMigrations(ctx, migrations, s.log))
	} else {
		options = append(options, stepwiseMigrations(ctx, migrations, session.Conn, session.Remainder, s.log))
	}
	p, err := goose.NewProvider(session.Dialect, session.DB, nil, options...)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	goosed := context.WithoutCancel(ctx)
	applied, err := p.Up(goosed)
	for _, m := range applied {
		s.log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration.Round(time.Millisecond))
	}
	return err
}

// close ends the session and gives up its lock.
func (m *MigrationSession) close() {
	_ = m.DB.Close()
	if m.Unlock != nil {
		m.Unlock()
	}
}

// checkTime is the additional time of a check. With PostgreSQL it compares the sessions of up to 24 connections, one
// after the other. At 300 ms a round trip they take half a minute.
const checkTime = time.Minute

// Check compares the server, the schema's version and the shard count with the needs of this build, and remembers the
// shard count and the server's name.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := s.deadlineWith(ctx, checkTime)
	defer cancel()
	server, err := s.driver.Identify(ctx)
	if err != nil {
		return s.mapError(ctx, "read the version", err)
	}
	if server.Unfit != nil {
		return s.named(server.Unfit)
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	shards, err := s.driver.CountShards(ctx)
	switch {
	case err != nil:
		return s.mapError(ctx, "count the shards", err)
	case shards == 0:
		return s.named(errors.New("the database has no shards: run clockd migrate"))
	case s.shards != 0 && int64(s.shards) != shards:
		return s.named(fmt.Errorf("the configuration says %d shards, but the database was made with %d: the count cannot be changed", s.shards, shards))
	}
	s.known.Store(&known{
		shards: int(shards), engine: server.Name, commitsClaims: server.CommitsClaims,
		placements: newPlacements(server.Placements, int(shards)),
	})
	return nil
}

// checkSchema returns an error if this build cannot work with the schema.
func (s *Store) checkSchema(ctx context.Context) error {
	migrations, err := ReadMigrations(s.driver.Migrations())
	if err != nil {
		return err
	}
	want := migrations[len(migrations)-1].Version
	has, err := s.driver.ReadSchemaVersion(ctx)
	if err != nil {
		return s.mapError(ctx, "read the schema's version", err)
	}
	if has < want {
		return s.named(fmt.Errorf("the schema has version %d, this build needs %d: run clockd migrate", has, want))
	}
	oldest, err := s.driver.ReadOldestBuild(ctx)
	if err != nil {
		return s.mapError(ctx, "read the build level", err)
	}
	if err := store.CheckBuild(oldest); err != nil {
		return s.named(err)
	}
	if has > want { // CheckBuild tells whether this build may work on it
		s.log.Info("the schema is newer than this build, which may work beside newer ones", "version", has, "known",
			want)
	}
	return nil
}

// named returns err after the engine's name. A repetition of the call would meet the same error, so it gets no kind of
// package clock.
func (s *Store) named(err error) error { return fmt.Errorf("%s: %w", s.traits.Name, err) }

// errSteps refuses a database with only some of the steps in which builds from before version 0.1 made a schema. The
// named build knows all of them. A database with all steps has the schema of a new one.
var errSteps = errors.New("steps of builds from before version 0.1 are missing, which this build does not know: " +
	"first run the migrate command of a clockd built from commit ba4aebb")

// refuseSteps returns errSteps if some of the steps are missing. The first of them was version 1, which a new database
// does not have.
func (m *MigrationSession) refuseSteps(ctx context.Context, has int64, migrations []Migration) error {
	var whole int64
	for i := range migrations {
		if migrations[i].New {
			whole = migrations[i].Version
		}
	}
	if has == 0 || has >= whole {
		return nil
	}
	versions, err := database.NewStore(m.Dialect, goose.DefaultTablename)
	if err != nil {
		return err
	}
	_, err = versions.GetMigration(ctx, m.DB, 1)
	switch {
	case errors.Is(err, database.ErrVersionNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the schema has version %d of %d: %w", has, whole, errSteps)
}

// SchemaVersion returns the version of the newest applied migration; 0 if there is none. isNoTable reports that the
// table of versions does not exist.
func SchemaVersion(
	ctx context.Context, dialect goose.Dialect, db database.DBTxConn, isNoTable func(error) bool,
) (int64, error) {
	versions, err := database.NewStore(dialect, goose.DefaultTablename)
	if err != nil {
		return 0, err
	}
	version, err := versions.GetLatestVersion(ctx, db)
	if errors.Is(err, database.ErrVersionNotFound) || err != nil && isNoTable(err) {
		return 0, nil
	}
	return version, err
}
