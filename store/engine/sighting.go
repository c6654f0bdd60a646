package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Sightings reads and writes the table application_sighting.
type Sightings interface {
	// AddSightings adds the rows in one transaction. It replaces earlier ones.
	AddSightings(ctx context.Context, rows []SightingRow) error
	// ReadSightings returns the rows of some applications, in any order.
	ReadSightings(ctx context.Context, applications []string) ([]SightingRow, error)
	// DeleteSightings deletes the oldest rows from before the instant, at most limit, and returns how many.
	DeleteSightings(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// SightingRow is a row of the table application_sighting. The row types of each engine's generated code convert to it.
type SightingRow struct {
	Application string
	SeenAt      int64
}

var _ store.Sightings = (*Store)(nil)

// AddSightings adds sightings, by name, so that nodes that do so at once do not wait for each other in a circle.
func (s *Store) AddSightings(ctx context.Context, seen map[string]clock.Instant) error {
	rows := make([]SightingRow, 0, len(seen))
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		rows = append(rows, SightingRow{name, int64(seen[name])})
	}
	return s.replayed(ctx, "add sightings", func(ctx context.Context) error {
		return s.driver.AddSightings(ctx, rows)
	})
}

// Sightings reads sightings by their key. It needs no place for a list.
func (s *Store) Sightings(ctx context.Context, applications []string) (seen map[string]clock.Instant, err error) {
	err = s.call(ctx, "read sightings", func(ctx context.Context) error {
		rows, err := s.driver.ReadSightings(ctx, applications)
		seen = make(map[string]clock.Instant, len(rows))
		for _, r := range rows {
			seen[r.Application] = clock.Instant(r.SeenAt)
		}
		return err
	})
	return seen, err
}

// DeleteSightings deletes the oldest sightings from before the instant.
func (s *Store) DeleteSightings(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = s.replayed(ctx, "delete sightings", func(ctx context.Context) (err error) {
		deleted, err = s.driver.DeleteSightings(ctx, before, min(limit, maxPurge))
		return err
	})
	return deleted, err
}
