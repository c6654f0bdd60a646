package clock

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// SettingsHoldAfter is the age beyond which a node starts no claim: an application may have been paused since.
	SettingsHoldAfter = 10 * time.Second
	// SettingsStaleAfter is the age beyond which settings count as stale.
	SettingsStaleAfter = 5 * time.Second
)

// SettingsSource reads the settings of applications from the database.
type SettingsSource interface {
	// SettingChanges returns a number that rises with every change of settings.
	SettingChanges(ctx context.Context) (int64, error)
	// AllSettings returns the current settings of all applications that ever had settings.
	AllSettings(ctx context.Context) ([]SettingsVersion, error)
}

// CurrentSettings are the settings of one application as this process applies them.
type CurrentSettings struct {
	Settings
	Stored     SettingsVersion
	Unreadable error // why the document cannot be read; then Settings has the last readable ones, and the target is unknown
}

// SettingsSnapshot holds the settings of all applications at one moment. It does not change.
type SettingsSnapshot struct {
	applications map[string]*CurrentSettings
}

// Of returns the settings of an application, nil if it never had any. The caller must not change them.
func (s *SettingsSnapshot) Of(application string) *CurrentSettings {
	return s.applications[application]
}

// All returns all settings, by application. The caller must not change them.
func (s *SettingsSnapshot) All() []*CurrentSettings {
	all := make([]*CurrentSettings, 0, len(s.applications))
	for _, name := range slices.Sorted(maps.Keys(s.applications)) {
		all = append(all, s.applications[name])
	}
	return all
}

// SettingsWatch keeps the settings of all applications in memory. Its ChangePoll reads them. While the database is away, the
// last known settings apply.
type SettingsWatch struct {
	*ChangePoll

	source SettingsSource
	log    *slog.Logger
	notify func(before, after *SettingsSnapshot, changed []string) // see OnChange
	noteTo func(changes int64)                                     // see OnRead

	snapshot atomic.Pointer[SettingsSnapshot] // never nil
}

// NewSettingsWatch returns a SettingsWatch without settings. Load reads them.
func NewSettingsWatch(source SettingsSource, log *slog.Logger) *SettingsWatch {
	w := &SettingsWatch{source: source, log: log, notify: func(_, _ *SettingsSnapshot, _ []string) {}, noteTo: func(int64) {}}
	w.ChangePoll = NewChangePoll(ChangePollDeps{
		Count: source.SettingChanges, Read: w.readAll, Part: "settings of applications", Log: log,
	})
	w.snapshot.Store(&SettingsSnapshot{})
	return w
}

// OnChange sets the function that is called after each change, with the applications whose settings have changed. It must not block. Call
// OnChange before Load.
func (w *SettingsWatch) OnChange(notify func(before, after *SettingsSnapshot, changed []string)) {
	w.notify = notify
}

// OnRead sets the function that is called after each read of all settings, after the function of OnChange. The settings that apply have at least
// this number of changes. It must not block. Call OnRead before Load.
func (w *SettingsWatch) OnRead(note func(changes int64)) { w.noteTo = note }

// Paused returns the names of the paused applications, sorted. Safe for concurrent use.
func (w *SettingsWatch) Paused() (names []string) {
	for _, s := range w.Snapshot().All() {
		if s.Paused {
			names = append(names, s.Stored.Application)
		}
	}
	return names
}

// Snapshot returns the settings that apply now. Safe for concurrent use.
func (w *SettingsWatch) Snapshot() *SettingsSnapshot { return w.snapshot.Load() }

// Settings returns the settings of an application, nil if it never had any. Safe for concurrent use.
func (w *SettingsWatch) Settings(application string) *Settings {
	if s := w.Snapshot().Of(application); s != nil {
		return &s.Settings
	}
	return nil
}

// Webhook returns the endpoint of an application, and false if it has none. The pointer stays the same until the endpoint changes. Safe for
// concurrent use.
func (w *SettingsWatch) Webhook(application string) (*Webhook, bool) {
	if s := w.Settings(application); s != nil && s.Webhook != nil {
		return s.Webhook, true
	}
	return nil, false
}

// GRPC returns the method of an application, and false if it has none. The pointer stays the same until the method changes. Safe for concurrent use.
func (w *SettingsWatch) GRPC(application string) (*GRPC, bool) {
	if s := w.Settings(application); s != nil && s.GRPC != nil {
		return s.GRPC, true
	}
	return nil, false
}

// AMQP returns the destination of an application, nil if its settings name none. Safe for concurrent use.
func (w *SettingsWatch) AMQP(application string) *AMQP {
	if s := w.Settings(application); s != nil {
		return s.AMQP
	}
	return nil
}

// Kafka returns the topic of an application, and false if it has none. Safe for concurrent use.
func (w *SettingsWatch) Kafka(application string) (*Kafka, bool) {
	if s := w.Settings(application); s != nil && s.Kafka != nil {
		return s.Kafka, true
	}
	return nil, false
}

// readAll reads all settings, which have at least these changes.
func (w *SettingsWatch) readAll(ctx context.Context, changes int64) error {
	stored, err := w.source.AllSettings(ctx)
	if err != nil {
		return err
	}
	w.replace(stored)
	w.noteTo(changes)
	return nil
}

// replace makes a new snapshot of the stored settings. It reports the applications whose settings differ from the snapshot before.
func (w *SettingsWatch) replace(stored []SettingsVersion) {
	before := w.Snapshot()
	after := &SettingsSnapshot{applications: make(map[string]*CurrentSettings, len(stored))}
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
	w.snapshot.Store(after)
	if len(changed) > 0 {
		slices.Sort(changed)
		w.log.Info("settings of applications have changed", "count", len(changed), "first", changed[0])
		w.notify(before, after, changed)
	}
}

// parse reads a document. If it cannot be read, the options of the last readable document go on.
func (w *SettingsWatch) parse(v SettingsVersion, known *CurrentSettings) *CurrentSettings {
	settings, err := ParseSettings(v.Document)
	if err == nil {
		if known != nil && known.Webhook.equals(settings.Webhook) {
			settings.Webhook = known.Webhook
		}
		if known != nil && known.GRPC.equals(settings.GRPC) {
			settings.GRPC = known.GRPC
		}
		w.log.Debug("settings of an application are new", "application", v.Application, "version", v.Version, "changed_by", v.ChangedBy)
		return &CurrentSettings{Settings: settings, Stored: v}
	}
	w.log.Error("the settings of an application cannot be read: its alarms wait", "application", v.Application, "version", v.Version, "err", err)
	c := &CurrentSettings{Stored: v, Unreadable: err}
	if known != nil {
		c.Settings = known.Settings
	}
	return c
}
