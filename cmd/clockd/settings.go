package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/store"
)

func newSettings(cfg *config, st store.Store, log *slog.Logger, reg prometheus.Registerer) *settings.Watch {
	w := settings.NewWatch(cfg.form, st, log)
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_settings_age_seconds",
			Help: "Time since this node knew that its settings of applications are current. Normally about a second.",
		}, func() float64 { return w.Age().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_settings_changes",
			Help: "Changes of settings of applications that this node has applied, as the database counts them.",
		}, func() float64 {
			changes, _ := w.Changes()
			return float64(changes)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_settings_applications", Help: "Applications that have settings.",
		}, func() float64 { return float64(len(w.Snapshot().All())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_paused_applications",
			Help: "Applications that are paused, as this node applies the settings.",
		}, func() float64 { return float64(len(w.Paused())) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "clockd_clock_settings_failed_polls_total",
			Help: "Polls of the settings of applications that failed.",
		}, func() float64 {
			_, failed := w.Changes()
			return float64(failed)
		}),
	)
	return w
}

// keysGiven returns a step of the start that ends it if a key of settings is not given. A node without the key would
// hold its part of the alarms, which the other nodes could ring.
func keysGiven(cfg *config, watch *settings.Watch, log *slog.Logger) func(context.Context) error {
	return func(context.Context) error {
		if ids := cfg.form.Keys().IDs(); len(ids) > 0 {
			log.Info("secrets of changed settings are encrypted", "key", ids[0],
				"former_keys", strings.Join(ids[1:], " "))
		}
		return missingKey(watch)
	}
}

// missingKey returns an error with an application whose key is not given, if there is one.
func missingKey(watch *settings.Watch) error {
	for _, s := range watch.Snapshot().All() {
		if settings.MissingKey(s.Unreadable) {
			return fmt.Errorf("%s: %w. Name a file with the key. If the key is lost, give each of these applications "+
				"new settings: clockd application reset", s.Stored.Application, s.Unreadable)
		}
	}
	return nil
}

// pollSettings returns the run of the settings. It fails if a new node lacks the key of a change: the person who
// encrypted settings had looked at the nodes before this node's row was written. An older node goes on, because it rings
// other applications.
func pollSettings(watch *settings.Watch, gate *claimGate) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var missing error
		watch.OnRead(func(int64) {
			if err := missingKey(watch); err != nil && gate.isNew() {
				missing = err
				stop()
			}
		})
		err := watch.Run(ctx)
		return errors.Join(err, missing)
	}
}

// routeBySettings makes the loop follow the settings: at each change, the addressees with another route than before are
// routed again.
func routeBySettings(watch *settings.Watch, targets *targets, loop *ring.Loop) {
	watch.OnChange(func(before, after *settings.Snapshot, changed []string) {
		was, is := targets.routerOf(before), targets.routerOf(after)
		differs := func(to store.Addressee) bool { return was(to) != is(to) }
		var moved []store.Addressee
		for _, application := range changed {
			for _, to := range addresseesOf(after, application) {
				if differs(to) {
					moved = append(moved, to)
				}
			}
			if before.Of(application) != nil { // else no alarm has a receiver of its own
				moved = append(moved, ownReceivers(application, differs)...)
			}
		}
		loop.Reroute(is, moved)
		targets.settingsChanged()
	})
	watch.OnRead(loop.Confirm)
}

// settingsCheck reports stale settings, and applications whose settings this node cannot follow.
func settingsCheck(watch *settings.Watch, targets *targets) clockhttp.Check {
	var details []string
	if age := watch.Age(); age > settings.StaleAfter {
		details = append(details,
			fmt.Sprintf("the settings of applications were last read %s ago: changes since then do not apply yet",
				age.Round(time.Second)))
	}
	const shown = 10
	snapshot := watch.Snapshot()
	if outdated := watch.Outdated(); len(outdated) > 0 {
		details = append(details, fmt.Sprintf("the secrets of %s (applications: %d) are stored as they are, or with an "+
			"old key: clockd application seal. After seal --plain: take the key away from this node",
			outdated[0], len(outdated)))
	}
	for _, s := range snapshot.All() {
		switch {
		case s.Unreadable != nil:
			details = append(details,
				fmt.Sprintf("the alarms of %s wait: its settings cannot be read: %s", s.Stored.Application,
					s.Unreadable))
		case targets.missing(s) != clock.NoTarget:
			details = append(details,
				fmt.Sprintf("alarms of %s wait: this node has no target %s", s.Stored.Application,
					targets.missing(s)))
		case targets.refusal(s) != nil:
			details = append(details, fmt.Sprintf("alarms of %s wait: %s", s.Stored.Application, targets.refusal(s)))
		}
		if len(details) == shown {
			break
		}
	}
	return warned("settings", strings.Join(details, "; "))
}

// settingsView gives the interfaces the stored settings, and what this node applies.
type settingsView struct {
	*settings.Editor
	watch       *settings.Watch
	targets     *targets
	subscribers *subscribers
}

// Applied returns what this node applies.
func (v *settingsView) Applied(application string) settings.Applied {
	snapshot := v.watch.Snapshot()
	applied := settings.Applied{DefaultTarget: v.targets.byDefault}
	if s := snapshot.Of(application); s != nil {
		applied.Version = s.Stored.Version
	}
	if route := v.targets.routeOf(snapshot, store.Addressee{Application: application}); route != nil {
		applied.Target = route.Kind
	}
	applied.Reservable = v.targets.mayRingTo(snapshot, application, clock.TargetPull)
	applied.Subscribable = v.subscribers.count(snapshot, application)
	return applied
}

// formerSubscribers is the time after a change of an application's settings for which its clients at a former target
// count. Tries in doubt at that target may be repeated in this time.
const formerSubscribers = 2 * time.Minute

// subscribers are the subscribers of applications that ring to the stream, and the workers that reserve rings. Other
// nodes leave the alarms of these applications to this node.
type subscribers struct {
	*stream.Target
	settings *settings.Watch
	targets  *targets
	time     *clock.Timebase
}

// Applications returns the lines that announce the applications with a subscriber or a worker here, sorted. A line
// names only the alarms that ring to them: other alarms of the application may ring to a target that another node has.
// Clients at a former target rest: they get the alarms only while no node has clients at the present target.
func (s *subscribers) Applications() (lines []string) {
	snapshot := s.settings.Snapshot()
	working, resting := s.targets.pulls.Applications()
	named := map[string][]clock.TargetKind{}
	anyName := append([]clock.TargetKind{clock.NoTarget}, clock.TargetKinds()...)
	announce := func(application string, target clock.TargetKind, rests bool) {
		names := s.named(snapshot, application, target)
		if len(names) == 0 && s.changedLately(snapshot, application) {
			names, rests = anyName, true
		}
		if rests {
			lines = append(lines, lease.Announcement(application, names, true)...)
		} else {
			named[application] = append(named[application], names...)
		}
	}
	for _, application := range s.Target.Applications() {
		announce(application, clock.TargetStream, false)
	}
	for _, application := range working {
		announce(application, clock.TargetPull, false)
	}
	for _, application := range resting {
		announce(application, clock.TargetPull, true)
	}
	for application, targets := range named {
		slices.Sort(targets)
		lines = append(lines, lease.Announcement(application, slices.Compact(targets), false)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// named returns what the application's alarms name that ring to the target: each target, and clock.NoTarget.
func (s *subscribers) named(
	snapshot *settings.Snapshot, application string, target clock.TargetKind,
) (named []clock.TargetKind) {
	for _, to := range store.AddresseesOf(application) {
		if route := s.targets.routeOf(snapshot, to); route != nil && route.Kind == target {
			named = append(named, to.Target)
		}
	}
	return named
}

// count reports whether subscribers of the application count.
func (s *subscribers) count(snapshot *settings.Snapshot, application string) bool {
	return s.targets.mayRingTo(snapshot, application, clock.TargetStream) || s.changedLately(snapshot, application)
}

// changedLately reports whether the application's settings have changed in the last time, in which tries in doubt at a
// former target may be repeated.
func (s *subscribers) changedLately(snapshot *settings.Snapshot, application string) bool {
	settings := snapshot.Of(application)
	now, err := s.time.AtLeast()
	return settings != nil && err == nil && settings.Stored.ChangedAt.Add(formerSubscribers) > now
}

func newSubscribers(settings *settings.Watch, targets *targets, tb *clock.Timebase) *subscribers {
	return &subscribers{Target: targets.streams, settings: settings, targets: targets, time: tb}
}
