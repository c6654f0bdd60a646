package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// SettingRow is a row of the tables application_setting and application_setting_history. The row types of each engine's
// generated code convert to it.
type SettingRow struct {
	Application string
	Version     int64
	Document    string
	ChangedAt   int64
	ChangedBy   string
}

func (r *SettingRow) version() settings.Version {
	return settings.Version{
		Application: r.Application, Version: r.Version, Document: r.Document, ChangedAt: clock.Instant(r.ChangedAt),
		ChangedBy: r.ChangedBy,
	}
}

// errNoCounter says that the counter's row was deleted. Without it, no node would notice a change.
var errNoCounter = errors.New("the table application_setting_counter has no row: insert (1, 0)")

// SettingChanges returns the number of changes of all settings.
func (s *Store) SettingChanges(ctx context.Context) (changes int64, err error) {
	err = s.call(ctx, "read the counter of settings", func(ctx context.Context) (err error) {
		changes, err = s.driver.ReadSettingCounter(ctx)
		return err
	})
	return changes, err
}

// AllSettings returns the current settings of all applications.
func (s *Store) AllSettings(ctx context.Context) (all []settings.Version, err error) {
	err = s.call(ctx, "read all settings", func(ctx context.Context) error {
		rows, err := s.driver.ReadAllSettings(ctx)
		all = Column(rows, (*SettingRow).version)
		return err
	})
	return all, err
}

// Settings returns the current settings of the application.
func (s *Store) Settings(ctx context.Context, application string) (v settings.Version, err error) {
	err = s.call(ctx, "read settings", func(ctx context.Context) error {
		row, err := currentSettings(ctx, s.driver, application)
		v = row.version()
		return err
	})
	return v, err
}

// SettingsHistory returns the newest versions of the application's settings.
func (s *Store) SettingsHistory(
	ctx context.Context, application string, limit int,
) (versions []settings.Version, err error) {
	err = s.call(ctx, "read the history of settings", func(ctx context.Context) error {
		rows, err := s.driver.ReadSettingsHistory(ctx, application, math.MaxInt64, min(limit, settings.MaxHistory))
		versions = Column(rows, (*SettingRow).version)
		return err
	})
	return versions, err
}

// ChangeSettings writes the next version of an application's settings.
func (s *Store) ChangeSettings(ctx context.Context, change settings.Change) (v settings.Version, err error) {
	err = s.replayed(ctx, "change settings", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginSettings, func(t SettingsTx) error {
			row, err := nextSettings(ctx, t, &change)
			if err != nil {
				return err
			}
			v = row.version()
			if err := t.PutSettings(ctx, &row); err != nil {
				return err
			}
			return addActs(ctx, t, settingsAct(&v, change.By))
		})
	})
	if err != nil {
		return settings.Version{}, err
	}
	return v, nil
}

// settingsAct returns the act of a change. It names the versions alone, because documents have secrets; the history has
// the documents.
func settingsAct(v *settings.Version, by clock.Actor) clock.Act {
	type state struct {
		Version int64 `json:"version"`
	}
	return clock.Act{
		At: v.ChangedAt, Actor: by, Action: "settings", Application: v.Application,
		Before: clock.ActJSON(state{v.Version - 1}), After: clock.ActJSON(state{v.Version}),
	}
}

// nextSettings counts the change, and returns the row to write.
func nextSettings(ctx context.Context, t SettingsTx, change *settings.Change) (SettingRow, error) {
	if err := countChange(ctx, t); err != nil {
		return SettingRow{}, err
	}
	before, err := currentSettings(ctx, t, change.Application)
	if err != nil {
		return SettingRow{}, err
	}
	if change.IfVersion != settings.AnyVersion && change.IfVersion != before.Version {
		return SettingRow{}, settings.OtherVersion(change.Application, before.Version, change.IfVersion)
	}
	return SettingRow{
		Application: change.Application, Version: before.Version + 1, Document: change.Document,
		ChangedAt: int64(change.At), ChangedBy: change.By.Name,
	}, nil
}

// countChange counts a change.
func countChange(ctx context.Context, t SettingsTx) error {
	counted, err := t.CountChange(ctx)
	if err == nil && counted != 1 {
		err = errNoCounter
	}
	return err
}

// errNothingRewritten ends a transaction that has nothing to write.
var errNothingRewritten = errors.New("no document differs")

// RewriteSettings replaces the documents of all versions of an application's settings.
func (s *Store) RewriteSettings(ctx context.Context, r settings.Rewrite) (documents int, err error) {
	err = s.replayed(ctx, "rewrite settings", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginSettings, func(t SettingsTx) error {
			if err := countChange(ctx, t); err != nil {
				return err
			}
			documents, err = rewriteSettings(ctx, t, &r)
			if err != nil {
				return err
			}
			if documents == 0 {
				return errNothingRewritten
			}
			return addActs(ctx, t, clock.Act{
				At: r.At, Actor: r.By, Action: r.Action, Application: r.Application,
				After: clock.ActJSON(map[string]int{"documents": documents}),
			})
		})
	})
	if errors.Is(err, errNothingRewritten) {
		return 0, nil
	}
	return documents, err
}

// rewriteSettings replaces documents: the current one, then the history from the newest version to the oldest. After
// a change in SQL the history may have another document of the current version.
func rewriteSettings(ctx context.Context, t SettingsTx, r *settings.Rewrite) (documents int, err error) {
	row, err := currentSettings(ctx, t, r.Application)
	if err != nil || row.Version == 0 {
		return 0, err
	}
	current := row.version()
	if row.Document = r.Document(&current); row.Document != current.Document {
		documents++
		if err := t.RewriteSettings(ctx, &row); err != nil {
			return 0, err
		}
	}
	const page = 100
	for before := int64(math.MaxInt64); ; {
		versions, err := t.ReadSettingsHistory(ctx, r.Application, before, page)
		if err != nil {
			return 0, err
		}
		for i := range versions {
			old := &versions[i]
			before = old.Version
			v := old.version()
			isCurrent := v == current
			if old.Document = row.Document; !isCurrent {
				old.Document = r.Document(&v)
			}
			if old.Document == v.Document {
				continue
			}
			if !isCurrent { // else it is counted
				documents++
			}
			if err := t.RewriteHistory(ctx, old); err != nil {
				return 0, err
			}
		}
		if len(versions) < page {
			return documents, nil
		}
	}
}

// currentSettings returns the current settings of the application, with version 0 if it never had settings.
func currentSettings(ctx context.Context, from interface {
	ReadSettings(ctx context.Context, application string) (SettingRow, error)
}, application string) (SettingRow, error) {
	row, err := from.ReadSettings(ctx, application)
	if errors.Is(err, sql.ErrNoRows) {
		return SettingRow{Application: application, ChangedAt: int64(clock.NoInstant)}, nil
	}
	return row, err
}
