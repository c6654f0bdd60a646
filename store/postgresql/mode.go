package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/store/engine"
)

// mode says whether the tables of the database are distributed.
type mode int

const (
	modeEmpty       mode = iota // the tables do not exist, or are not complete yet
	modeNoCitus                 // the configuration demands Citus, and the database does not have it
	modeOneServer               // all tables are on one server
	modeDistributed             // Citus has distributed the table alarm
)

// errMode is wrapped by the reasons why a database does not fit the configuration.
var errMode = errors.New("CLOCKD_DATABASE_MODE does not fit the database")

// The reasons why a database does not fit the configuration.
var (
	errNotConfigured = fmt.Errorf("%w: the tables are distributed by Citus: set it to distributed", errMode)
	errNotEmpty      = fmt.Errorf("%w: its tables are those of one server, which cannot become distributed; choose an empty database", errMode)
	errNoCitus       = fmt.Errorf("%w: it has no Citus; run CREATE EXTENSION citus, and add the workers", errMode)
)

// Statements about Citus's own tables.
const (
	sqlHasTables = "SELECT to_regclass('alarm') IS NOT NULL, to_regclass('pg_dist_partition') IS NOT NULL"
	// sqlIsDistributed also reads whether the database has shards. Without them the migrations have stopped before
	// their end.
	sqlIsDistributed = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('alarm')), EXISTS (SELECT FROM shard)"
	// sqlPlacements reads the number of the Citus shard that has each shard's rows.
	sqlPlacements = "SELECT shard::bigint, get_shard_id_for_distribution_column('alarm', shard)::bigint FROM shard ORDER BY shard"
)

// readMode reads the mode of the database.
func (d *Driver) readMode(ctx context.Context) (mode, error) {
	var hasAlarm, hasCitus, distributed, hasShards bool
	if err := d.upkeep.QueryRow(ctx, sqlHasTables).Scan(&hasAlarm, &hasCitus); err != nil {
		return 0, err
	}
	switch {
	case !hasCitus && d.cfg.Distributed:
		return modeNoCitus, nil
	case !hasAlarm:
		return modeEmpty, nil
	case !hasCitus:
		return modeOneServer, nil
	}
	if err := d.upkeep.QueryRow(ctx, sqlIsDistributed).Scan(&distributed, &hasShards); err != nil {
		return 0, err
	}
	switch {
	case distributed:
		return modeDistributed, nil
	case hasShards || !d.cfg.Distributed:
		return modeOneServer, nil
	}
	return modeEmpty, nil
}

// otherMode returns an error if the mode does not fit the configuration.
func (d *Driver) otherMode(m mode) error {
	switch {
	case m == modeNoCitus:
		return errNoCitus
	case m == modeDistributed && !d.cfg.Distributed:
		return errNotConfigured
	case m == modeOneServer && d.cfg.Distributed:
		return errNotEmpty
	}
	return nil
}

// refuseOtherMode returns an error if the mode of the database does not fit the configuration.
func (d *Driver) refuseOtherMode(ctx context.Context) error {
	m, err := d.readMode(ctx)
	if err != nil {
		return err
	}
	return d.otherMode(m)
}

// readPlacements reads where the shards are, and remembers it. A placement is a Citus shard: its rows stay together
// when Citus moves them.
func (d *Driver) readPlacements(ctx context.Context) ([][]int, error) {
	rows, err := d.upkeep.Query(ctx, sqlPlacements)
	if err != nil {
		return nil, err
	}
	type place struct{ Shard, CitusShard int64 }
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
	if err != nil || len(places) == 0 {
		return nil, err
	}
	byCitusShard := map[int64][]int64{}
	for _, p := range places {
		byCitusShard[p.CitusShard] = append(byCitusShard[p.CitusShard], p.Shard)
	}
	read := &distribution{shards: len(places), placementOf: make([]int, len(places))}
	groups := make([][]int, 0, len(byCitusShard))
	for number, citusShard := range slices.Sorted(maps.Keys(byCitusShard)) {
		shards := byCitusShard[citusShard]
		read.placements = append(read.placements, shards)
		groups = append(groups, engine.Column(shards, func(shard *int64) int { return int(*shard) }))
		for _, shard := range shards {
			read.placementOf[shard] = number
		}
	}
	d.placed.Store(read)
	return groups, nil
}

// setPlans gives the role the settings of plans, because sessions of Citus do not pass them on to the workers.
func (d *Driver) setPlans(ctx context.Context, t *tx) error {
	settings := planSettings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		database := d.upkeep.Config().ConnConfig.Database
		_, err := t.Exec(ctx,
			fmt.Sprintf("ALTER ROLE CURRENT_USER IN DATABASE %s SET %s = %s", pgx.Identifier{database}.Sanitize(), name,
				settings[name]))
		if err != nil {
			return fmt.Errorf("set %s for the role: %w", name, err)
		}
	}
	return nil
}

// joinedFS has the files of several directories as one directory.
type joinedFS []fs.FS

var _ fs.ReadDirFS = joinedFS(nil)

// Open opens a file of any of the directories.
func (j joinedFS) Open(name string) (file fs.File, err error) {
	for _, dir := range j {
		if file, err = dir.Open(name); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, err
}

// ReadDir lists the files of all directories, by name.
func (j joinedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for _, dir := range j {
		entries, err := fs.ReadDir(dir, name)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}
