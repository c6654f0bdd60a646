package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/grpc"
	"github.com/clockd/clockd/ring/kafka"
	"github.com/clockd/clockd/ring/pull"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/ring/webhook"
	"github.com/clockd/clockd/store"
)

// knownTarget is a target that this program has.
type knownTarget struct {
	kind  clock.TargetKind
	part  settings.AnyPart   // settings of applications for it; nil: none
	needs func(*config) bool // whether the configuration names its broker; nil: it needs none
	open  func(*targets, targetDeps) (*openTarget, error)
}

// knownTargets is the list of all targets, in the order of documents of settings.
var knownTargets = []knownTarget{
	{clock.TargetAMQP, rabbit.Part, (*config).usesBroker, openRabbit},
	{clock.TargetStream, nil, nil, openStream},
	{clock.TargetWebhook, webhook.Part, nil, openWebhooks},
	{clock.TargetKafka, kafka.Part, (*config).usesKafka, openKafka},
	{clock.TargetGRPC, grpc.Part, nil, openGRPC},
	{clock.TargetPull, nil, nil, openPull},
}

// settingsForm is the form of the settings of applications.
var settingsForm = newSettingsForm()

func newSettingsForm() *settings.Form {
	var parts []settings.AnyPart
	for _, t := range knownTargets {
		if t.part != nil {
			parts = append(parts, t.part)
		}
	}
	return settings.NewForm(parts...)
}

// ability names what a node lacks without the target: a connection that all applications share. It is "" if there is
// none, as with a subscriber or an endpoint, which serve one application only.
func (t *knownTarget) ability() string {
	if t.needs == nil {
		return ""
	}
	return t.kind.String()
}

// isOpen reports whether a process with this configuration has the target.
func (t *knownTarget) isOpen(cfg *config) bool { return t.needs == nil || t.needs(cfg) }

// abilitiesOfTargets returns the abilities of all targets.
func abilitiesOfTargets() (abilities []string) {
	for _, t := range knownTargets {
		if ability := t.ability(); ability != "" {
			abilities = append(abilities, ability)
		}
	}
	return abilities
}

// targetDeps are what the targets of a process are made of.
type targetDeps struct {
	cfg   *config
	watch *settings.Watch
	log   *slog.Logger
	reg   prometheus.Registerer
}

// openTarget is a target of this process.
type openTarget struct {
	ring.Route

	follow func()                      // tells it that settings have changed; nil: it has none
	run    func(context.Context) error // keeps its connections; nil: it has nothing to run
	close  func()                      // ends it, after the loop has ended; nil: nothing is to end
}

// targets are the targets of this process.
type targets struct {
	settings  *settings.Watch
	open      []*openTarget
	routes    []*ring.Route     // of open
	lacking   []*knownTarget    // that this process does not have
	byDefault clock.TargetKind  // target of applications whose settings name none
	sessions  []*rabbit.Session // targets that are exchanges of RabbitMQ
	streams   *stream.Target    // target that is the stream
	pulls     *pull.Target      // target of applications whose workers reserve rings
	name      string            // names the default target in the line that the service prints at its start
}

// newTargets opens the targets that the configuration has. The settings of an application name its target.
func newTargets(cfg *config, log *slog.Logger, reg prometheus.Registerer, watch *settings.Watch) (*targets, error) {
	t := &targets{settings: watch, byDefault: clock.TargetStream, streams: stream.New(), name: "the stream"}
	for i := range knownTargets {
		known := &knownTargets[i]
		if !known.isOpen(cfg) {
			t.lacking = append(t.lacking, known)
			continue
		}
		opened, err := known.open(t, targetDeps{cfg: cfg, watch: watch, log: log, reg: reg})
		if err != nil {
			return nil, err
		}
		opened.Kind, opened.Ability = known.kind, known.ability()
		t.open, t.routes = append(t.open, opened), append(t.routes, &opened.Route)
	}
	return t, nil
}

// routeOf returns the route of an addressee: the route to the target that its alarms name, if the settings of the
// application allow it, or name a destination there. Otherwise it is the route to the target that the settings name, or
// to the default target. It returns nil if this process has no such target, and if the settings cannot be read: another
// target must not get the rings.
func (t *targets) routeOf(snapshot *settings.Snapshot, to store.Addressee) *ring.Route {
	kind, err := t.kindOf(snapshot, to)
	if err != nil {
		return nil
	}
	return t.routeTo(kind)
}

// routeTo returns the route to a kind of target, nil if this process has none.
func (t *targets) routeTo(kind clock.TargetKind) *ring.Route {
	for _, r := range t.routes {
		if r.Kind == kind {
			return r
		}
	}
	return nil
}

// errUnknownDestination is the reason why alarms wait whose destination the settings of this process never had.
var errUnknownDestination = errors.New("they do not have the destination that the alarms name")

// kindOf returns the target that the settings give an addressee. The error is why they do not tell it. The rings of a
// destination that the settings have had keep its target: that ends their alarms.
func (t *targets) kindOf(snapshot *settings.Snapshot, to store.Addressee) (clock.TargetKind, error) {
	s := snapshot.Of(to.Application)
	switch {
	case s == nil && to.Destination != 0:
		return clock.NoTarget, errUnknownDestination
	case s == nil:
		return t.byDefault, nil
	case s.Unreadable != nil:
		return clock.NoTarget, s.Unreadable
	case to.Destination > clock.MaxDestinations:
		return to.Target, nil // the target judges each alarm
	case to.Destination != 0:
		if kind, _ := s.DestinationOf(to.Destination); kind != to.Target {
			return clock.NoTarget, errUnknownDestination
		}
		return to.Target, nil
	case s.Allows(to.Target):
		return to.Target, nil
	default:
		return s.TargetOr(t.byDefault), nil
	}
}

// whyNoRoute returns the reason why routeOf returns nil.
func (t *targets) whyNoRoute(snapshot *settings.Snapshot, to store.Addressee) string {
	kind, err := t.kindOf(snapshot, to)
	if err != nil {
		return fmt.Sprintf("its settings do not tell where: %s", err)
	}
	return fmt.Sprintf("this node has no target %s", kind)
}

// mayRingTo reports whether alarms of the application ring to the target in this process: all of them, or those that
// name it.
func (t *targets) mayRingTo(snapshot *settings.Snapshot, application string, target clock.TargetKind) bool {
	return slices.ContainsFunc([]clock.TargetKind{clock.NoTarget, target}, func(named clock.TargetKind) bool {
		route := t.routeOf(snapshot, store.Named{Target: named}.Of(application))
		return route != nil && route.Kind == target
	})
}

// nameOf returns the target that the alarms of an addressee name, for people.
func (t *targets) nameOf(to store.Addressee) string {
	if s := t.settings.Settings(to.Application); s != nil {
		if _, name := s.DestinationOf(to.Destination); name != "" {
			return clock.TargetText(to.Target, name)
		}
	}
	return to.Target.String()
}

// addresseesOf returns all addressees of an application, with the destinations that its settings have or had.
func addresseesOf(snapshot *settings.Snapshot, application string) []store.Addressee {
	all := store.AddresseesOf(application)
	if s := snapshot.Of(application); s != nil {
		s.EachDestination(func(number int, target clock.TargetKind) {
			all = append(all, store.Named{Target: target, Destination: number}.Of(application))
		})
	}
	return all
}

// ownReceivers returns the addressees of alarms that bring fields of their receiver themselves, for each target whose
// addressees differ. All of a target have the same route.
func ownReceivers(application string, differs func(store.Addressee) bool) (all []store.Addressee) {
	for _, known := range knownTargets {
		to := func(number int) store.Addressee {
			return store.Named{Target: known.kind, Destination: number}.Of(application)
		}
		if known.part == nil || !differs(to(clock.MaxNumber)) {
			continue
		}
		for number := clock.MaxDestinations + 1; number <= clock.MaxNumber; number++ {
			all = append(all, to(number))
		}
	}
	return all
}

// missing returns a target of an application's settings that this process does not have, NoTarget if it has all of
// them.
func (t *targets) missing(s *settings.Current) clock.TargetKind {
	for _, target := range s.Demanded() {
		if target != clock.NoTarget && t.routeTo(target) == nil {
			return target
		}
	}
	return clock.NoTarget
}

// routerOf returns the router that follows the settings. No alarm of a paused application has a route to a target.
func (t *targets) routerOf(snapshot *settings.Snapshot) ring.Router {
	return func(to store.Addressee) *ring.Route {
		if s := snapshot.Of(to.Application); s != nil && s.Paused {
			return ring.PausedRoute
		}
		return t.routeOf(snapshot, to)
	}
}

// lacks returns the abilities that an application's settings demand and this process has no target for, sorted.
func (t *targets) lacks(snapshot *settings.Snapshot) (lacks []string) {
	if len(t.lacking) == 0 {
		return nil
	}
	all := snapshot.All()
	for _, missing := range t.lacking {
		demands := func(s *settings.Current) bool {
			return s.Unreadable == nil && slices.Contains(s.Demanded(), missing.kind)
		}
		if slices.ContainsFunc(all, demands) {
			lacks = append(lacks, missing.ability())
		}
	}
	slices.Sort(lacks)
	return lacks
}

// settingsChanged tells the targets that settings have changed.
func (t *targets) settingsChanged() {
	for _, target := range t.open {
		if target.follow != nil {
			target.follow()
		}
	}
}

// openRabbit opens the exchange of RabbitMQ, the default target.
func openRabbit(t *targets, d targetDeps) (*openTarget, error) {
	session, err := rabbit.New(d.cfg.rabbit, rabbit.Deps{
		Destination: rabbit.Part.In(d.watch), Own: rabbit.Part.OwnIn(d.watch), Log: d.log, Registerer: d.reg,
	})
	if err != nil {
		return nil, err
	}
	t.byDefault, t.sessions = clock.TargetAMQP, []*rabbit.Session{session}
	t.name = fmt.Sprintf("exchange %q", d.cfg.AMQPExchange)
	return &openTarget{
		Route:  ring.Route{Name: "rabbitmq", Target: session, HoldsClaims: true},
		follow: session.DestinationsChanged, run: session.Run,
	}, nil
}

func openStream(t *targets, _ targetDeps) (*openTarget, error) {
	return &openTarget{
		Route: ring.Route{Name: "stream", Target: t.streams, HoldsClaims: true, SeparateReplies: true},
	}, nil
}

// openWebhooks opens webhooks. Claims of the route do not hold their transactions, because requests may take long.
func openWebhooks(_ *targets, d targetDeps) (*openTarget, error) {
	hooks, err := webhook.New(d.cfg.webhook, webhook.Deps{
		Endpoints: webhook.Part.In(d.watch), Own: webhook.Part.OwnIn(d.watch), Registerer: d.reg,
	})
	if err != nil {
		return nil, err
	}
	return &openTarget{
		Route:  ring.Route{Name: "webhook", Target: hooks, SeparateReplies: true},
		follow: hooks.EndpointsChanged, close: hooks.Close,
	}, nil
}

// openGRPC opens methods of gRPC. As with webhooks, claims of the route do not hold their transactions.
func openGRPC(_ *targets, d targetDeps) (*openTarget, error) {
	calls, err := grpc.New(d.cfg.grpc, grpc.Deps{
		Methods: grpc.Part.In(d.watch), Own: grpc.Part.OwnIn(d.watch), Registerer: d.reg,
	})
	if err != nil {
		return nil, err
	}
	return &openTarget{
		Route:  ring.Route{Name: "grpc", Target: calls, SeparateReplies: true},
		follow: calls.EndpointsChanged, close: calls.Close,
	}, nil
}

// openPull opens the rings that workers reserve.
func openPull(t *targets, _ targetDeps) (*openTarget, error) {
	t.pulls = pull.New(t.streams.SignalApplications)
	return &openTarget{
		Route: ring.Route{Name: "pull", Target: t.pulls, HoldsClaims: true, SeparateReplies: true},
		close: t.pulls.Close,
	}, nil
}

// refusal returns why this process does not allow an exchange of RabbitMQ that the settings of an application name, nil
// if it allows all of them.
func (t *targets) refusal(s *settings.Current) error {
	receivers := []string{s.Stored.Application}
	s.EachLivingDestination(func(number int, target clock.TargetKind) {
		if target == clock.TargetAMQP {
			receivers = append(receivers, clock.ReceiverOf(s.Stored.Application, number))
		}
	})
	for _, session := range t.sessions {
		for _, receiver := range receivers {
			if err := session.Accepts(receiver); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnings returns the topology warnings of all RabbitMQ sessions.
func (t *targets) warnings() (warnings []string) {
	for _, s := range t.sessions {
		warnings = append(warnings, s.Warnings()...)
	}
	return warnings
}

// findings asks all RabbitMQ sessions whether the bound queues keep confirmed messages. The result is nil if none
// knows.
func (t *targets) findings(ctx context.Context) (findings []store.Finding, err error) {
	for _, s := range t.sessions {
		found, sessionErr := s.Findings(ctx)
		err = errors.Join(err, sessionErr)
		for _, f := range found {
			findings = append(findings, store.Finding(f))
		}
		if found != nil && findings == nil {
			findings = []store.Finding{}
		}
	}
	return findings, err
}
