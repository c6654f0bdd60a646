package clock

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// settingsPoll is the time between two polls of the counter of changes, less a random part.
	settingsPoll = time.Second
	// settingsJitter is the longest random part, so that the nodes do not poll together.
	settingsJitter = 200 * time.Millisecond
	// settingsReread is the time after which all settings are read although the counter is the same: a person may have changed them without it.
	settingsReread = time.Minute
	// settingsReadLimit bounds one poll.
	settingsReadLimit = 3 * time.Second
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

// SettingsWatch keeps the settings of all applications in memory. It polls the counter of changes every second, and reads the settings when it
// has risen. While the database is away, the last known settings apply.
type SettingsWatch struct {
	source SettingsSource
	log    *slog.Logger
	notify func(before, after *SettingsSnapshot, changed []string) // see OnChange

	snapshot atomic.Pointer[SettingsSnapshot] // never nil
	failed   atomic.Int64                     // failed polls

	mu      sync.Mutex
	changes int64     // the counter when the settings were last read
	read    time.Time // when all settings were last read; zero: never
	polled  time.Time // when the last successful poll began; zero: never
	failing bool      // the last poll failed
}

// NewSettingsWatch returns a SettingsWatch without settings. Load reads them.
func NewSettingsWatch(source SettingsSource, log *slog.Logger) *SettingsWatch {
	w := &SettingsWatch{source: source, log: log, notify: func(_, _ *SettingsSnapshot, _ []string) {}}
	w.snapshot.Store(&SettingsSnapshot{})
	return w
}

// OnChange sets the function that is called after each change, with the applications whose settings have changed. It must not block. Call
// OnChange before Load.
func (w *SettingsWatch) OnChange(notify func(before, after *SettingsSnapshot, changed []string)) {
	w.notify = notify
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

// Age returns the time since the settings were known to be current. Safe for concurrent use.
func (w *SettingsWatch) Age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.polled)
}

// Changes returns the counter of changes as of the last read, and the number of polls that failed. Safe for concurrent use.
func (w *SettingsWatch) Changes() (changes, failedPolls int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes, w.failed.Load()
}

// Load reads the settings once. Call it before Run, so that they are known before the first ring.
func (w *SettingsWatch) Load(ctx context.Context) error { return w.poll(ctx) }

// Run polls until ctx ends.
func (w *SettingsWatch) Run(ctx context.Context) error {
	timer := time.NewTimer(settingsPoll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		w.note(ctx, w.poll(ctx))
		timer.Reset(settingsPoll - rand.N(settingsJitter))
	}
}

// note counts a failed poll, and logs the first one in a row.
func (w *SettingsWatch) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.failed.Add(1)
	}
	if err != nil && !w.failing {
		w.log.Warn("could not read the settings of applications: the last known ones apply", "err", err)
	}
	w.failing = err != nil
}

// poll reads the counter, and the settings if it has changed.
func (w *SettingsWatch) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settingsReadLimit)
	defer cancel()
	begun := time.Now()
	changes, err := w.source.SettingChanges(ctx) // before the settings, which then have at least these changes
	if err != nil {
		return err
	}
	if known, read := w.lastRead(); read.IsZero() || changes != known || begun.Sub(read) >= settingsReread {
		stored, err := w.source.AllSettings(ctx)
		if err != nil {
			return err
		}
		w.replace(stored)
		w.noteRead(changes, begun)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled = begun
	return nil
}

func (w *SettingsWatch) lastRead() (changes int64, read time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes, w.read
}

func (w *SettingsWatch) noteRead(changes int64, read time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes, w.read = changes, read
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
