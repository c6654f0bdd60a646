package settings

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// HoldAfter is the age beyond which a node starts no claim: an application may have been paused since.
	HoldAfter = 10 * time.Second
	// StaleAfter is the age beyond which settings count as stale.
	StaleAfter = 5 * time.Second
)

// Source reads the settings of applications from the database.
type Source interface {
	// SettingChanges returns a number that rises with every change of settings.
	SettingChanges(ctx context.Context) (int64, error)
	// AllSettings returns the current settings of all applications that ever had settings.
	AllSettings(ctx context.Context) ([]Version, error)
}

// Current are the settings of one application as this process applies them.
type Current struct {
	Settings
	Stored     Version
	Outdated   bool  // a key is given, and the document has secrets that it does not seal
	Unreadable error // why the document cannot be read; then Settings has the last readable ones, and the target is unknown
}

// Snapshot holds the settings of all applications at one moment. It does not change.
type Snapshot struct {
	applications map[string]*Current
	limited      []string // applications with a quota of pending alarms, sorted
}

// Of returns the settings of an application, nil if it never had any. The caller must not change them.
func (s *Snapshot) Of(application string) *Current {
	return s.applications[application]
}

// All returns all settings, by application. The caller must not change them.
func (s *Snapshot) All() []*Current {
	all := make([]*Current, 0, len(s.applications))
	for _, name := range slices.Sorted(maps.Keys(s.applications)) {
		all = append(all, s.applications[name])
	}
	return all
}

// Watch keeps the settings of all applications in memory. Its clock.ChangePoll reads them. While the database is away,
// the last known settings apply.
type Watch struct {
	*clock.ChangePoll

	form   *Form
	source Source
	log    *slog.Logger
	notify func(before, after *Snapshot, changed []string) // see OnChange
	noteTo []func(changes int64)                           // see OnRead

	snapshot atomic.Pointer[Snapshot] // never nil
}

// NewWatch returns a Watch without settings. Load reads them.
func NewWatch(form *Form, source Source, log *slog.Logger) *Watch {
	w := &Watch{form: form, source: source, log: log, notify: func(_, _ *Snapshot, _ []string) {}}
	w.ChangePoll = clock.NewChangePoll(clock.ChangePollDeps{
		Count: source.SettingChanges, Read: w.readAll, Part: "settings of applications", Log: log,
	})
	w.snapshot.Store(&Snapshot{})
	return w
}

// OnChange sets the function that is called after each change, with the applications whose settings have changed. It
// must not block. Call OnChange before Load.
func (w *Watch) OnChange(notify func(before, after *Snapshot, changed []string)) {
	w.notify = notify
}

// OnRead adds a function that is called after each read of all settings, after the function of OnChange. The settings
// that apply have at least this number of changes. It must not block. Call OnRead before Load or Run.
func (w *Watch) OnRead(note func(changes int64)) { w.noteTo = append(w.noteTo, note) }

// Paused returns the names of the paused applications, sorted. Safe for concurrent use.
func (w *Watch) Paused() []string {
	return w.namesOf(func(s *Current) bool { return s.Paused })
}

// Outdated returns the names of the applications whose settings are outdated, sorted. Safe for concurrent use.
func (w *Watch) Outdated() []string {
	return w.namesOf(func(s *Current) bool { return s.Outdated })
}

// WithPendingQuota returns the names of the applications with a quota of pending alarms, sorted. The caller must not
// change them. Safe for concurrent use.
func (w *Watch) WithPendingQuota() []string { return w.Snapshot().limited }

func (w *Watch) namesOf(are func(s *Current) bool) (names []string) {
	for _, s := range w.Snapshot().All() {
		if are(s) {
			names = append(names, s.Stored.Application)
		}
	}
	return names
}

// Snapshot returns the settings that apply now. Safe for concurrent use.
func (w *Watch) Snapshot() *Snapshot { return w.snapshot.Load() }

// Settings returns the settings of an application, nil if it never had any. Safe for concurrent use.
func (w *Watch) Settings(application string) *Settings {
	if s := w.Snapshot().Of(application); s != nil {
		return &s.Settings
	}
	return nil
}

// Defaults returns the defaults of an application, nil if it never had settings. Safe for concurrent use.
func (w *Watch) Defaults(application string) *clock.Defaults {
	if s := w.Settings(application); s != nil {
		return &s.Defaults
	}
	return nil
}

// readAll reads all settings, which have at least these changes.
func (w *Watch) readAll(ctx context.Context, changes int64) error {
	stored, err := w.source.AllSettings(ctx)
	if err != nil {
		return err
	}
	w.replace(stored)
	for _, note := range w.noteTo {
		note(changes)
	}
	return nil
}

// replace makes a new snapshot of the stored settings. It reports the applications whose settings differ from the
// snapshot before.
func (w *Watch) replace(stored []Version) {
	before := w.Snapshot()
	after := &Snapshot{applications: make(map[string]*Current, len(stored))}
	var changed []string
	for _, v := range stored {
		known := before.Of(v.Application)
		if known == nil || known.Stored != v {
			known = w.parse(v, known)
			changed = append(changed, v.Application)
		}
		after.applications[v.Application] = known
	}
	for name := range before.applications {
		if after.applications[name] == nil {
			changed = append(changed, name)
		}
	}
	for _, s := range after.All() {
		if s.Quotas.PendingAlarms > 0 {
			after.limited = append(after.limited, s.Stored.Application)
		}
	}
	w.snapshot.Store(after)
	if len(changed) > 0 {
		slices.Sort(changed)
		w.log.Info("settings of applications have changed", "count", len(changed), "first", changed[0])
		w.notify(before, after, changed)
	}
}

// parse reads a document. If it cannot be read, the options of the last readable document go on.
func (w *Watch) parse(v Version, known *Current) *Current {
	settings, err := w.form.Load(&v)
	if err == nil {
		if known != nil {
			w.form.keep(&settings, &known.Settings)
		}
		w.log.Debug("settings of an application are new", "application", v.Application, "version", v.Version,
			"changed_by", v.ChangedBy)
		resealed, err := w.form.Reseal(v.Application, v.Document)
		return &Current{Settings: settings, Stored: v, Outdated: err == nil && resealed != v.Document}
	}
	w.log.Error("the settings of an application cannot be read: its alarms wait", "application", v.Application,
		"version", v.Version, "err", err)
	c := &Current{Stored: v, Unreadable: err}
	if known != nil {
		c.Settings = known.Settings
	}
	return c
}
