package engine

import (
	"context"
	"database/sql"
	"errors"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/manifest"
	"github.com/clockd/clockd/store"
)

// Manifests reads and writes the table application_manifest, on the connections of leases.
type Manifests interface {
	// ReadManifests returns the row of the application, or sql.ErrNoRows.
	ReadManifests(ctx context.Context, application string) (ManifestRow, error)
	// ReadNextManifests returns the rows of the applications after the given one, by application, at most limit.
	ReadNextManifests(ctx context.Context, after string, limit int) ([]ManifestRow, error)
}

// ManifestRow is a row of the table application_manifest. The row types of each engine's generated code convert to it.
type ManifestRow struct {
	Application string
	Version     int64
	Document    string
	ChangedAt   int64
	ChangedBy   string
}

var _ store.Manifests = (*Store)(nil)

func (r *ManifestRow) stored() manifest.Stored {
	return manifest.Stored{
		Application: r.Application, Version: r.Version, Document: r.Document, ChangedAt: clock.Instant(r.ChangedAt),
		ChangedBy: r.ChangedBy,
	}
}

// Manifests reads the row of the application.
func (s *Store) Manifests(ctx context.Context, application string) (stored manifest.Stored, err error) {
	err = s.call(ctx, "read manifests", func(ctx context.Context) error {
		row, err := currentManifests(ctx, s.driver, application)
		stored = row.stored()
		return err
	})
	return stored, err
}

// NextManifests reads the rows of the next applications.
func (s *Store) NextManifests(ctx context.Context, after string, limit int) (stored []manifest.Stored, err error) {
	err = s.call(ctx, "list manifests", func(ctx context.Context) error {
		rows, err := s.driver.ReadNextManifests(ctx, after, limit)
		stored = Column(rows, (*ManifestRow).stored)
		return err
	})
	return stored, err
}

// ChangeManifests writes the next version. It counts as a change of settings, so these wait for it.
func (s *Store) ChangeManifests(ctx context.Context, c manifest.Change) (stored manifest.Stored, err error) {
	err = s.replayed(ctx, "change manifests", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginSettings, func(t SettingsTx) error {
			if err := countChange(ctx, t); err != nil {
				return err
			}
			before, err := currentManifests(ctx, t, c.Application)
			if err != nil {
				return err
			}
			if before.Version != c.IfVersion {
				return manifest.OtherVersion(c.Application, before.Version, c.IfVersion)
			}
			row := ManifestRow{
				Application: c.Application, Version: before.Version + 1, Document: c.Document, ChangedAt: int64(c.At),
				ChangedBy: c.By.Name,
			}
			if err := t.PutManifests(ctx, &row); err != nil {
				return err
			}
			stored = row.stored()
			if c.Act.Action == "" {
				return nil
			}
			return addActs(ctx, t, c.Act)
		})
	})
	if err != nil {
		return manifest.Stored{}, err
	}
	return stored, nil
}

// currentManifests returns the row of the application, with version 0 if there is none.
func currentManifests(ctx context.Context, from interface {
	ReadManifests(ctx context.Context, application string) (ManifestRow, error)
}, application string) (ManifestRow, error) {
	row, err := from.ReadManifests(ctx, application)
	if errors.Is(err, sql.ErrNoRows) {
		return ManifestRow{Application: application, ChangedAt: int64(clock.NoInstant)}, nil
	}
	return row, err
}
