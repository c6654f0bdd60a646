package manifest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/manifest"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/clock/settings"
)

// world is an application in memory: its settings, its alarms and the record of its manifests. It judges alarms with
// the rules of package clock.
type world struct {
	mu       sync.Mutex
	versions []settings.Version // oldest first
	record   manifest.Stored
	acts     []clock.Act
	alarms   map[string]*clock.Alarm
	now      clock.Instant
	before   map[string]func() // called once, before a change is stored: settings, record, alarm or cancel
	writes   int               // stored changes
	refuse   map[string]error  // of the next op on an alarm
	slow     clock.Instant     // milliseconds that a read of an alarm takes
	renewed  int               // versions of the settings that the process knows
}

func newWorld() *world {
	return &world{alarms: map[string]*clock.Alarm{}, now: 1_900_000_000_000, before: map[string]func(){},
		refuse: map[string]error{}}
}

// meet calls what a test does before a change of a kind.
func (w *world) meet(kind string) {
	if do := w.before[kind]; do != nil {
		delete(w.before, kind)
		do()
	}
}

func (w *world) Settings(_ context.Context, application string) (settings.Version, error) {
	if len(w.versions) == 0 {
		return settings.Version{Application: application, ChangedAt: clock.NoInstant}, nil
	}
	return w.versions[len(w.versions)-1], nil
}

func (w *world) SettingsHistory(_ context.Context, _ string, limit int) ([]settings.Version, error) {
	newest := slices.Clone(w.versions)
	slices.Reverse(newest)
	return newest[:min(limit, len(newest))], nil
}

func (w *world) ChangeSettings(ctx context.Context, c settings.Change) (settings.Version, error) {
	w.meet("settings")
	before, _ := w.Settings(ctx, c.Application)
	if c.IfVersion != before.Version {
		return settings.Version{}, settings.OtherVersion(c.Application, before.Version, c.IfVersion)
	}
	v := settings.Version{Application: c.Application, Version: before.Version + 1, Document: c.Document}
	w.versions = append(w.versions, v)
	w.writes++
	return v, nil
}

func (w *world) Manifests(_ context.Context, application string) (manifest.Stored, error) {
	stored := w.record
	stored.Application = application
	return stored, nil
}

func (w *world) NextManifests(context.Context, string, int) ([]manifest.Stored, error) {
	return nil, errors.New("not read")
}

func (w *world) ChangeManifests(_ context.Context, c manifest.Change) (manifest.Stored, error) {
	w.meet("record")
	if busy := busyUntil(c.Document); busy != 0 && busy != w.now+25_000 {
		return manifest.Stored{}, fmt.Errorf("others wait until %s, and it is %s", busy, w.now)
	}
	if c.IfVersion != w.record.Version {
		return manifest.Stored{}, manifest.OtherVersion(c.Application, w.record.Version, c.IfVersion)
	}
	w.record = manifest.Stored{Application: c.Application, Version: c.IfVersion + 1, Document: c.Document}
	if c.Act.Action != "" {
		w.acts = append(w.acts, c.Act)
	}
	w.writes++
	return w.record, nil
}

// busyUntil returns until when a record lets others wait, 0 if they need not.
func busyUntil(document string) clock.Instant {
	var d struct {
		Busy clock.Instant `json:"busy_until"`
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		panic(err)
	}
	return d.Busy
}

// time returns the database's time. Plans read alarms at once.
func (w *world) time() clock.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) Get(_ context.Context, key clock.Key) (*clock.Alarm, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += w.slow
	if a := w.alarms[key.BusinessID]; a != nil {
		stored := *a
		return &stored, nil
	}
	return nil, clock.UnknownAlarm(key)
}

func (w *world) Plan(
	ctx context.Context, set *clock.Set, rules *clock.SetRules,
) (before *clock.Alarm, d clock.Decision, err error) {
	target := clock.TargetText(set.Target, set.Destination.Name)
	if set.Destination.Name != "" && rules.Defaults.Destinations[target] == 0 {
		return nil, d, clock.Invalid(clock.CodeUnknownDestination, "target", "there is no such destination")
	}
	before, _ = w.Get(ctx, set.Key)
	return before, clock.Op{Set: set}.Decide(before, w.time()), nil
}

func (w *world) SubmitUnder(ctx context.Context, op clock.Op, _ *clock.SetRules) *clock.Pending {
	if op.Cancel != nil {
		w.meet("cancel")
	} else {
		w.meet("alarm")
	}
	before, _ := w.Get(ctx, op.Key())
	if err := w.refuse[op.Key().BusinessID]; err != nil {
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: err})
	}
	d := op.Decide(before, w.time())
	if d.Writes() {
		w.mu.Lock()
		w.alarms[op.Key().BusinessID] = &d.Alarm
		w.writes++
		w.mu.Unlock()
	}
	return clock.Decided(op, d)
}

// set sets an alarm, as the application itself does.
func (w *world) set(set *clock.Set) { w.SubmitUnder(context.Background(), clock.Op{Set: set}, nil) }

// hook is the part of a target.
type hook struct{ place string }

var form = settings.NewForm(&settings.Part[hook]{
	Name: "webhook", Type: "Hook", Target: clock.TargetWebhook, New: func() *hook { return &hook{} },
	Fields: []settings.Field[hook]{
		settings.Text(settings.FieldInfo{Name: "place", Max: 200}, func(h *hook) *string { return &h.place }, nil),
	},
})

func (w *world) applier() *manifest.Applier {
	now := func(context.Context) (clock.Instant, error) { return w.now, nil }
	return manifest.NewApplier(manifest.Deps{
		Store: w, Alarms: w, Now: now, Renew: func(context.Context) error { w.renewed = len(w.versions); return nil },
		Settings: settings.NewEditor(settings.EditorDeps{Form: form, Stored: w, Now: now}),
	})
}

// daily returns a set that rings daily at an hour. to is its target, "" for none.
func daily(id string, hour int, to string) clock.Set {
	set := clock.EmptySet()
	set.Key = clock.Key{Application: "shop", BusinessID: id}
	set.ContentType = "text/plain"
	rule, err := repeat.Parse(repeat.Spec{Cron: fmt.Sprintf("0 %d * * *", hour)})
	if err != nil {
		panic(err)
	}
	set.Repeat = &rule
	if to != "" {
		set.Target, set.Destination.Name, _ = clock.ParseTarget(to)
	}
	return set
}

// apply applies a manifest with a label and returns the effects on its items, such as "create alarm nightly".
func (w *world) apply(t *testing.T, label string, m manifest.Manifest, how string) ([]string, error) {
	t.Helper()
	m.Application, m.Label = "shop", label
	r := &manifest.Request{
		Manifest: m, By: clock.Actor{Name: "ci"}, Quotas: true, Prune: strings.Contains(how, "prune"),
		DryRun: strings.Contains(how, "dry"), TakeOver: strings.Contains(how, "take"),
	}
	result, err := w.applier().Apply(t.Context(), r)
	if err != nil {
		return nil, err
	}
	var became []string
	for i := range result.Items {
		item := &result.Items[i]
		text := string(item.Action) + " " + item.Item.String()
		if e, is := errors.AsType[*clock.Error](item.Err); is {
			text += ": " + e.Code
		}
		became = append(became, text)
	}
	return became, nil
}

// demand demands that an application of a manifest had this effect.
func demand(t *testing.T, what string, became []string, err error, wanted ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !slices.Equal(became, wanted) {
		t.Errorf("%s:\n%s\nnot\n%s", what, strings.Join(became, "\n"), strings.Join(wanted, "\n"))
	}
}

// texts is JSON by name.
type texts = map[string]string

// first is a manifest with an item of each kind.
func first() manifest.Manifest {
	return manifest.Manifest{
		Settings:     texts{"max_rings": "3"},
		Destinations: texts{"refunds": `{"webhook":{"place":"roof"}}`},
		Alarms:       []clock.Set{daily("nightly", 3, "webhook/refunds"), daily("weekly", 4, "")},
	}
}

func (w *world) document() string { return w.versions[len(w.versions)-1].Document }

func (w *world) state(id string) string {
	if a := w.alarms[id]; a != nil {
		return a.State.String()
	}
	return "none"
}

func TestManifestIsAppliedChangedAndPruned(t *testing.T) {
	t.Parallel()
	w := newWorld()
	all := []string{"setting max_rings", "destination refunds", "alarm nightly", "alarm weekly"}
	as := func(action string) (items []string) {
		for _, item := range all {
			items = append(items, action+" "+item)
		}
		return items
	}
	became, err := w.apply(t, "jobs", first(), "dry")
	demand(t, "dry run", became, err, as("create")...)
	if w.writes != 0 {
		t.Fatalf("a dry run has written %d times", w.writes)
	}
	became, err = w.apply(t, "jobs", first(), "")
	demand(t, "first", became, err, as("create")...)
	written := w.writes
	became, err = w.apply(t, "jobs", first(), "prune")
	demand(t, "again", became, err, as("keep")...)
	if w.writes != written {
		t.Errorf("the same manifest has written %d times", w.writes-written)
	}
	if w.renewed != 1 || w.state("nightly") != "scheduled" || w.alarms["nightly"].Destination.Name != "refunds" {
		t.Errorf("%+v", w.alarms["nightly"])
	}

	second := manifest.Manifest{
		Destinations: texts{"mail": `{"webhook":{"place":"cellar"}}`},
		Alarms:       []clock.Set{daily("nightly", 5, "webhook/mail")},
	}
	became, err = w.apply(t, "jobs", second, "")
	demand(t, "changed", became, err, "leave setting max_rings", "create destination mail", "leave destination refunds",
		"update alarm nightly", "leave alarm weekly")
	became, err = w.apply(t, "jobs", second, "dry prune")
	pruned := []string{"remove setting max_rings", "keep destination mail", "remove destination refunds",
		"keep alarm nightly", "remove alarm weekly"}
	demand(t, "dry prune", became, err, pruned...)
	became, err = w.apply(t, "jobs", second, "prune")
	demand(t, "pruned", became, err, pruned...)
	if w.state("weekly") != "cancelled" || strings.Contains(w.document(), `"refunds":`) ||
		strings.Contains(w.document(), "max_rings") || !strings.Contains(w.document(), "cellar") {
		t.Errorf("weekly is %s; %s", w.state("weekly"), w.document())
	}
	became, err = w.apply(t, "jobs", manifest.Manifest{}, "prune")
	demand(t, "emptied", became, err, "remove destination mail", "remove alarm nightly")
	if w.record.Document != `{"manifests":{}}` {
		t.Errorf("the record after all was removed: %s", w.record.Document)
	}
	if a := w.acts[0]; a.Action != "manifest" || a.Subject != "jobs" || a.Name != "ci" {
		t.Errorf("%+v", a)
	}
}

// A manifest leaves other things alone, also with prune: settings of a person, alarms of the application.
func TestManifestLeavesAloneWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.versions = []settings.Version{{Application: "shop", Version: 1,
		Document: `{"paused":true,"destinations":{"own":{"webhook":{"place":"attic"}}}}`}}
	mine := daily("mine", 1, "")
	w.set(&mine)
	for _, m := range []manifest.Manifest{first(), {}} {
		if _, err := w.apply(t, "jobs", m, "prune"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.document(), `"paused":true`) || !strings.Contains(w.document(), "attic") ||
			w.state("mine") != "scheduled" {
			t.Errorf("%s, mine is %s", w.document(), w.state("mine"))
		}
	}
}

// A single alarm under the business id of a former item is not the manifest's.
func TestPruneCancelsRepeatingAlarmsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.apply(t, "jobs", first(), ""); err != nil {
		t.Fatal(err)
	}
	once := clock.EmptySet()
	once.Key = clock.Key{Application: "shop", BusinessID: "nightly"}
	once.ContentType, once.RingAt = "text/plain", w.now+9
	w.set(&once)
	became, err := w.apply(t, "jobs", manifest.Manifest{Settings: first().Settings}, "prune")
	demand(t, "pruned", became, err, "keep setting max_rings", "remove destination refunds", "remove alarm weekly")
	if w.state("nightly") != "scheduled" {
		t.Errorf("the single alarm is %s", w.state("nightly"))
	}
}

// A plan may take long. Others wait from its end, not from its begin.
func TestOthersWaitFromTheBeginOfTheChanges(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.slow = 30_000
	if _, err := w.apply(t, "jobs", first(), ""); err != nil {
		t.Fatal(err)
	}
}

// A dead alarm is removed too: a kick would revive it.
func TestPruneDiscardsDeadAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.apply(t, "jobs", first(), ""); err != nil {
		t.Fatal(err)
	}
	for id, state := range map[string]clock.State{"nightly": clock.Dead, "weekly": clock.Rung} {
		w.alarms[id].State, w.alarms[id].FinishedAt = state, w.now
	}
	became, err := w.apply(t, "jobs", manifest.Manifest{}, "prune")
	demand(t, "pruned", became, err, "remove setting max_rings", "remove destination refunds", "remove alarm nightly")
	if w.state("nightly") != "cancelled" || w.state("weekly") != "rung" {
		t.Errorf("nightly is %s, weekly is %s", w.state("nightly"), w.state("weekly"))
	}
}

// A dry run tells which removals an alarm in doubt holds up.
func TestDryRunTellsWhatStays(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.apply(t, "jobs", first(), ""); err != nil {
		t.Fatal(err)
	}
	w.alarms["nightly"].InDoubt = true
	for _, m := range []manifest.Manifest{{}, {Alarms: []clock.Set{daily("nightly", 9, "")}}} {
		dry, err := w.apply(t, "jobs", m, "prune dry")
		if err != nil || !slices.Contains(dry, "remove destination refunds: condition_failed") ||
			!strings.Contains(strings.Join(dry, ", "), "alarm nightly: ring_in_doubt") {
			t.Errorf("dry run: %q, %v", dry, err)
		}
		became, err := w.apply(t, "jobs", m, "prune")
		demand(t, "real run", became, err, dry...)
	}
}

// Settings with the new destinations beside the ones to remove have to fit.
func TestSettingsInBetweenAreJudged(t *testing.T) {
	t.Parallel()
	many := func(prefix string) manifest.Manifest {
		m := manifest.Manifest{Destinations: texts{}}
		for i := range 60 {
			m.Destinations[fmt.Sprint(prefix, i)] = `{"webhook":{"place":"` + strings.Repeat("x", 120) + `"}}`
		}
		return m
	}
	w := newWorld()
	if _, err := w.apply(t, "jobs", many("a"), ""); err != nil {
		t.Fatal(err)
	}
	writes := w.writes
	for _, how := range []string{"prune dry", "prune"} {
		if _, err := w.apply(t, "jobs", many("b"), how); !errors.Is(err, clock.ErrInvalid) || w.writes != writes {
			t.Errorf("%s: %v, %d writes", how, err, w.writes-writes)
		}
	}
}

func TestItemBelongsToTheLabelThatNamedItFirst(t *testing.T) {
	t.Parallel()
	for _, m := range []manifest.Manifest{
		{Settings: first().Settings}, {Destinations: first().Destinations}, {Alarms: first().Alarms[1:]},
	} {
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		writes := w.writes
		_, err := w.apply(t, "other", m, "")
		e, is := errors.AsType[*clock.Error](err)
		if !is || e.Code != clock.CodeOwned || e.Field == "" || !strings.Contains(e.Detail, "jobs") {
			t.Fatalf("an item of another label: %v", err)
		}
		if _, err := w.apply(t, "other", m, "take dry"); err != nil || w.writes != writes {
			t.Fatalf("dry run: %v, %d writes", err, w.writes-writes)
		}
		if _, err := w.apply(t, "other", m, "take"); err != nil {
			t.Fatal(err)
		}
		if _, err = w.apply(t, "jobs", first(), ""); !errors.Is(err, clock.ErrConflict) {
			t.Errorf("the former owner: %v", err)
		}
		became, err := w.apply(t, "jobs", manifest.Manifest{}, "prune")
		if err != nil || len(became) != 3 {
			t.Errorf("the former owner prunes %q, %v", became, err)
		}
	}
}

// A manifest with a fault changes nothing.
func TestManifestWithAFaultChangesNothing(t *testing.T) {
	t.Parallel()
	for field, fault := range map[string]func(m *manifest.Manifest){
		"settings.max_rings":    func(m *manifest.Manifest) { m.Settings["max_rings"] = `"many"` },
		"settings.colour":       func(m *manifest.Manifest) { m.Settings["colour"] = `1` },
		"settings.destinations": func(m *manifest.Manifest) { m.Settings["destinations"] = `{}` },
		"destinations.refunds.webhook.place": func(m *manifest.Manifest) {
			m.Destinations["refunds"] = `{"webhook":{"place":1}}`
		},
		"destinations.-":        func(m *manifest.Manifest) { m.Destinations["-"] = `{"webhook":{}}` },
		"alarms.nightly.target": func(m *manifest.Manifest) { delete(m.Destinations, "refunds") },
		"alarms.nightly.repeat": func(m *manifest.Manifest) { m.Alarms[0].Repeat = nil },
		"alarms.nightly.repeat.until": func(m *manifest.Manifest) {
			ended, _ := repeat.Parse(repeat.Spec{Cron: "0 1 * * *", Until: 1000})
			m.Alarms[0].Repeat = &ended
		},
		"label": func(m *manifest.Manifest) {},
	} {
		w, m, label := newWorld(), first(), "jobs"
		if fault(&m); field == "label" {
			label = "two words"
		}
		_, err := w.apply(t, label, m, "")
		e, is := errors.AsType[*clock.Error](err)
		if !is || !errors.Is(err, clock.ErrInvalid) || e.Field != field {
			t.Errorf("%s: %v, field %+v", field, err, e)
		}
		if w.writes != 0 {
			t.Errorf("%s: %d writes", field, w.writes)
		}
	}
	m := manifest.Manifest{}
	for i := range manifest.MaxAlarms + 1 {
		m.Alarms = append(m.Alarms, daily(fmt.Sprint("a", i), 1, ""))
	}
	if _, err := newWorld().apply(t, "jobs", m, ""); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("too many alarms: %v", err)
	}
}

// Others change the same things while a manifest is applied. Each change is either seen or kept.
func TestChangesMeanwhileAreNotLost(t *testing.T) {
	t.Parallel()
	t.Run("settings", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.before["settings"] = func() {
			w.versions = append(w.versions,
				settings.Version{Application: "shop", Version: 1, Document: `{"paused":true}`})
		}
		became, err := w.apply(t, "jobs", first(), "")
		demand(t, "applied", became, err, "create setting max_rings", "create destination refunds",
			"create alarm nightly", "create alarm weekly")
		if !strings.Contains(w.document(), `"paused":true`) || !strings.Contains(w.document(), `"max_rings":3`) {
			t.Error(w.document())
		}
	})
	t.Run("another manifest", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.before["record"] = func() {
			if _, err := w.apply(t, "other", manifest.Manifest{Settings: first().Settings}, ""); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.apply(t, "jobs", first(), ""); !errors.Is(err, clock.ErrConflict) {
			t.Errorf("the item belongs to the other manifest since: %v", err)
		}
		if w.state("nightly") != "none" {
			t.Error("an alarm was set")
		}
	})
	t.Run("another manifest that is being applied", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		other := manifest.Manifest{Alarms: []clock.Set{daily("other", 1, "")}}
		w.before["settings"] = func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			m := other
			m.Application, m.Label = "shop", "jobs"
			_, err := w.applier().Apply(ctx, &manifest.Request{Manifest: m, Prune: true, Quotas: true})
			if !errors.Is(err, clock.ErrUnavailable) {
				t.Errorf("it did not wait: %v", err)
			}
			became, err := w.apply(t, "jobs", other, "dry")
			demand(t, "dry run", became, err, "create alarm other")
		}
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		became, err := w.apply(t, "jobs", other, "prune")
		demand(t, "after it", became, err, "remove setting max_rings", "remove destination refunds",
			"remove alarm nightly", "create alarm other", "remove alarm weekly")
	})
	t.Run("an alarm", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.before["alarm"] = func() {
			other := daily("nightly", 7, "")
			w.set(&other)
		}
		became, err := w.apply(t, "jobs", first(), "")
		demand(t, "applied", became, err, "create setting max_rings", "create destination refunds",
			"create alarm nightly: condition_failed", "create alarm weekly")
		became, err = w.apply(t, "jobs", first(), "")
		demand(t, "again", became, err, "keep setting max_rings", "keep destination refunds", "update alarm nightly",
			"keep alarm weekly")
	})
	t.Run("an alarm in the same way", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		same := daily("weekly", 5, "")
		w.before["alarm"] = func() { w.set(&same) }
		became, err := w.apply(t, "jobs", manifest.Manifest{Alarms: []clock.Set{same}}, "")
		demand(t, "applied", became, err, "leave setting max_rings", "leave destination refunds", "leave alarm nightly",
			"keep alarm weekly")
	})
	t.Run("an alarm that is removed", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		w.before["cancel"] = func() {
			other := daily("nightly", 7, "")
			w.set(&other)
		}
		became, err := w.apply(t, "jobs", manifest.Manifest{}, "prune")
		demand(t, "pruned", became, err, "remove setting max_rings: condition_failed",
			"remove destination refunds: condition_failed", "remove alarm nightly: condition_failed",
			"remove alarm weekly")
		if w.state("nightly") != "scheduled" {
			t.Errorf("the changed alarm is %s", w.state("nightly"))
		}
	})
	t.Run("settings after the plan", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		w.before["cancel"] = func() {
			w.versions = append(w.versions, settings.Version{Application: "shop", Version: 2,
				Document: `{"paused":true,` + w.document()[1:]})
		}
		became, err := w.apply(t, "jobs", manifest.Manifest{}, "prune")
		demand(t, "pruned", became, err, "remove setting max_rings: condition_failed",
			"remove destination refunds: condition_failed", "remove alarm nightly", "remove alarm weekly")
		became, err = w.apply(t, "jobs", manifest.Manifest{}, "prune")
		demand(t, "again", became, err, "remove setting max_rings", "remove destination refunds")
		if !strings.Contains(w.document(), `"paused":true`) {
			t.Errorf("another change is lost: %s", w.document())
		}
	})
	t.Run("the time", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		w.before["settings"] = cancel
		m := first()
		m.Application, m.Label = "shop", "jobs"
		_, err := w.applier().Apply(ctx, &manifest.Request{Manifest: m, Quotas: true})
		if !errors.Is(err, clock.ErrUnavailable) || len(w.alarms) > 0 {
			t.Errorf("after the end of its time: %v, %d alarms", err, len(w.alarms))
		}
	})
	t.Run("a cancelled alarm", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		w.before["cancel"] = func() { delete(w.alarms, "nightly"); delete(w.alarms, "weekly") }
		became, err := w.apply(t, "jobs", manifest.Manifest{}, "prune")
		demand(t, "pruned", became, err, "remove setting max_rings", "remove destination refunds",
			"remove alarm nightly", "remove alarm weekly")
	})
}

// A destination is not removed while an alarm that may name it could not be changed. The next time it is.
func TestDestinationStaysUntilItsAlarmsHaveLeft(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.apply(t, "jobs", first(), ""); err != nil {
		t.Fatal(err)
	}
	w.refuse["nightly"] = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeRingInDoubt, Detail: "in doubt"}
	moved := manifest.Manifest{Alarms: []clock.Set{daily("nightly", 3, "")}}
	became, err := w.apply(t, "jobs", moved, "prune")
	demand(t, "in doubt", became, err, "remove setting max_rings: condition_failed",
		"remove destination refunds: condition_failed", "update alarm nightly: ring_in_doubt", "remove alarm weekly")
	if !strings.Contains(w.document(), `"refunds":{`) {
		t.Errorf("the destination is gone: %s", w.document())
	}
	delete(w.refuse, "nightly")
	became, err = w.apply(t, "jobs", moved, "prune")
	demand(t, "again", became, err, "remove setting max_rings", "remove destination refunds", "update alarm nightly")
	if strings.Contains(w.document(), `"refunds":{`) {
		t.Errorf("the destination is still there: %s", w.document())
	}
}

// A manifest is cut off after each of its changes, and applied again: nothing is forgotten.
func TestManifestIsAppliedAgainAfterEachCut(t *testing.T) {
	t.Parallel()
	second := manifest.Manifest{Alarms: []clock.Set{daily("nightly", 5, ""), daily("new", 6, "")}}
	away := clock.Unavailable(errors.New("cut"))
	for cut := 1; ; cut++ {
		once := cut%2 == 0 // only this change fails
		w := newWorld()
		if _, err := w.apply(t, "jobs", first(), ""); err != nil {
			t.Fatal(err)
		}
		changes := 0
		broken := &cutWorld{world: w, allow: func() error {
			if changes++; changes == cut/2+1 || changes > cut/2+1 && !once {
				return away
			}
			return nil
		}}
		m := second
		m.Application, m.Label = "shop", "jobs"
		_, err := broken.applier().Apply(t.Context(), &manifest.Request{Manifest: m, Prune: true, Quotas: true})
		if err != nil && !errors.Is(err, clock.ErrUnavailable) {
			t.Fatalf("cut %d: %v", cut, err)
		}
		cutOff := err != nil
		if cut%4 > 1 { // what the cut one has made belongs to the label
			w.now += clock.Instant(time.Hour / time.Millisecond)
			if _, err := w.apply(t, "jobs", manifest.Manifest{}, "prune"); err != nil {
				t.Fatal(err)
			}
			for id := range w.alarms {
				if w.state(id) != "cancelled" {
					t.Errorf("cut %d: %s is %s after the prune", cut, id, w.state(id))
				}
			}
		}
		w.now += clock.Instant(time.Hour / time.Millisecond) // until then others wait for the end of the cut one
		if _, err := w.apply(t, "jobs", second, "prune"); err != nil {
			t.Fatal(err)
		}
		became, err := w.apply(t, "jobs", second, "prune")
		demand(t, fmt.Sprint("after cut ", cut), became, err, "keep alarm new", "keep alarm nightly")
		if w.state("weekly") != "cancelled" || strings.Contains(w.document(), `"refunds":{`) ||
			strings.Contains(w.record.Document, "weekly") || strings.Contains(w.record.Document, "refunds") {
			t.Errorf("cut %d: weekly is %s, %s, %s", cut, w.state("weekly"), w.document(), w.record.Document)
		}
		if !cutOff {
			if cut < 12 {
				t.Errorf("only %d changes", cut-1)
			}
			return
		}
	}
}

// cutWorld is a world whose changes fail from some point on.
type cutWorld struct {
	*world

	allow func() error
}

func (w *cutWorld) ChangeSettings(ctx context.Context, c settings.Change) (settings.Version, error) {
	if err := w.allow(); err != nil {
		return settings.Version{}, err
	}
	return w.world.ChangeSettings(ctx, c)
}

func (w *cutWorld) ChangeManifests(ctx context.Context, c manifest.Change) (manifest.Stored, error) {
	if err := w.allow(); err != nil {
		return manifest.Stored{}, err
	}
	return w.world.ChangeManifests(ctx, c)
}

func (w *cutWorld) SubmitUnder(ctx context.Context, op clock.Op, rules *clock.SetRules) *clock.Pending {
	if err := w.allow(); err != nil {
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: err})
	}
	return w.world.SubmitUnder(ctx, op, rules)
}

func (w *cutWorld) applier() *manifest.Applier {
	a := w.world.applier()
	a.Store, a.Alarms = w, w
	a.Settings = settings.NewEditor(settings.EditorDeps{Form: form, Stored: w, Now: a.Now})
	return a
}

func TestDiffNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want string }{
		{`{"a":1}`, `{"a":1}`, ``},
		{``, `{"a":1}`, `: -> {"a":1}`},
		{`{"a":1}`, ``, `: {"a":1} ->`},
		{`1`, `"1"`, `: 1 -> "1"`},
		{`{"a":{"b":1,"c":[1]},"d":1}`, `{"a":{"b":2,"c":[1,2]},"e":null}`,
			`a.b: 1 -> 2; a.c: [1] -> [1,2]; d: 1 ->; e: -> null`},
		{`{"a":{}}`, `{"a":{"b":1}}`, `a: {} -> {"b":1}`},
		{`{"a":{"b":1}}`, `{"a":[]}`, `a: {"b":1} -> []`},
	} {
		var differences []string
		for _, d := range manifest.Diff(c.before, c.after) {
			text := fmt.Sprintf("%s: %s -> %s", d.Path, d.Before, d.After)
			differences = append(differences, strings.TrimSpace(strings.ReplaceAll(text, ":  ->", ": ->")))
		}
		if got := strings.Join(differences, "; "); got != c.want {
			t.Errorf("%s and %s: %s", c.before, c.after, got)
		}
	}
}
