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
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/grpc"
	"github.com/clockd/clockd/ring/kafka"
	"github.com/clockd/clockd/ring/pull"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/ring/webhook"
	"github.com/clockd/clockd/store"
)

// settingsForm is the form of the settings of applications: the parts that the targets bring, in the order of documents.
var settingsForm = settings.NewForm(rabbit.Part, webhook.Part, kafka.Part, grpc.Part)

// targets are the targets of this process, and the routes to them.
type targets struct {
	routes    []*ring.Route     // of different kinds
	byDefault clock.TargetKind  // target of applications whose settings name none
	sessions  []*rabbit.Session // targets that are exchanges of RabbitMQ
	streams   *stream.Target    // target that is the stream
	webhooks  *webhook.Target   // target of applications with an endpoint
	grpc      *grpc.Target      // target of applications with a method of gRPC
	kafka     *kafka.Target     // target of applications with a topic; nil: no brokers are configured
	pulls     *pull.Target      // target of applications whose workers reserve rings
	name      string            // names the default target in the line that the service prints at its start
}

// newTargets returns the stream, webhooks, gRPC, reserves and, with a broker, the exchange and Kafka. The settings of
// an application name its target.
func newTargets(cfg *config, log *slog.Logger, reg prometheus.Registerer, watch *settings.Watch) (*targets, error) {
	hooks, err := webhook.New(cfg.webhook, webhook.Deps{Endpoints: webhook.Part.In(watch), Registerer: reg})
	if err != nil {
		return nil, err
	}
	calls, err := grpc.New(cfg.grpc, grpc.Deps{Methods: grpc.Part.In(watch), Registerer: reg})
	if err != nil {
		return nil, err
	}
	t := &targets{byDefault: clock.TargetStream, streams: stream.New(), webhooks: hooks, grpc: calls,
		name: "the stream"}
	t.pulls = pull.New(t.streams.SignalApplications)
	t.routes = []*ring.Route{streamRoute(t.streams), webhookRoute(hooks), grpcRoute(calls), pullRoute(t.pulls)}
	if cfg.usesKafka() {
		if t.kafka, err = kafka.New(cfg.kafka, kafka.Deps{Topics: kafka.Part.In(watch), Log: log}); err != nil {
			return nil, err
		}
		t.routes = append(t.routes, kafkaRoute(t.kafka))
	}
	if !cfg.usesBroker() {
		return t, nil
	}
	session, err := rabbit.New(cfg.rabbit, rabbit.Deps{Destination: rabbit.Part.In(watch), Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	t.byDefault, t.sessions, t.name = clock.TargetAMQP, []*rabbit.Session{session}, fmt.Sprintf("exchange %q",
		cfg.AMQPExchange)
	t.routes = append([]*ring.Route{rabbitRoute(session)}, t.routes...)
	return t, nil
}

// routeOf returns the route of an addressee: the route to the target that its alarms name, if the settings of the
// application allow it. Otherwise it is the route to the target that the settings name, or to the default target. It
// returns nil if this process has no such target, and if the settings cannot be read: another target must not get the
// rings.
func (t *targets) routeOf(snapshot *settings.Snapshot, to store.Addressee) *ring.Route {
	kind, err := t.kindOf(snapshot, to)
	if err != nil {
		return nil
	}
	for _, r := range t.routes {
		if r.Kind == kind {
			return r
		}
	}
	return nil
}

// kindOf returns the target that the settings give an addressee. The error is why they cannot be read.
func (t *targets) kindOf(snapshot *settings.Snapshot, to store.Addressee) (clock.TargetKind, error) {
	s := snapshot.Of(to.Application)
	switch {
	case s == nil:
		return t.byDefault, nil
	case s.Unreadable != nil:
		return clock.NoTarget, s.Unreadable
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
		return fmt.Sprintf("its settings cannot be read: %s", err)
	}
	return fmt.Sprintf("this node has no target %s", kind)
}

// mayRingTo reports whether alarms of the application ring to the target in this process: all of them, or those that
// name it.
func (t *targets) mayRingTo(snapshot *settings.Snapshot, application string, target clock.TargetKind) bool {
	return slices.ContainsFunc([]clock.TargetKind{clock.NoTarget, target}, func(named clock.TargetKind) bool {
		route := t.routeOf(snapshot, store.Addressee{Application: application, Target: named})
		return route != nil && route.Kind == target
	})
}

// missing returns the first target of an application's settings that this process does not have, NoTarget if it has all
// of them.
func (t *targets) missing(snapshot *settings.Snapshot, s *settings.Current) clock.TargetKind {
	for _, target := range append([]clock.TargetKind{s.Target}, s.Allowed...) {
		if t.routeOf(snapshot, store.Addressee{Application: s.Stored.Application, Target: target}) == nil {
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

// lacks returns the abilities that an application's settings demand and this process has no target for.
func (t *targets) lacks(snapshot *settings.Snapshot) []string {
	missing := map[clock.TargetKind]string{}
	if len(t.sessions) == 0 {
		missing[clock.TargetAMQP] = lease.AbilityAMQP
	}
	if t.kafka == nil {
		missing[clock.TargetKafka] = lease.AbilityKafka
	}
	if len(missing) == 0 {
		return nil
	}
	var lacks []string
	for _, s := range snapshot.All() {
		for target, ability := range missing {
			if s.Unreadable == nil && s.Allows(target) {
				lacks = append(lacks, ability)
				delete(missing, target)
			}
		}
	}
	slices.Sort(lacks)
	return lacks
}

func rabbitRoute(s *rabbit.Session) *ring.Route {
	return &ring.Route{Name: "rabbitmq", Target: s, Kind: clock.TargetAMQP, HoldsClaims: true,
		Ability: lease.AbilityAMQP}
}

// streamRoute returns the route to the stream. It has no ability, because a subscriber serves one application only.
func streamRoute(s *stream.Target) *ring.Route {
	return &ring.Route{Name: "stream", Target: s, Kind: clock.TargetStream, HoldsClaims: true, SeparateReplies: true}
}

// webhookRoute returns the route to webhooks. It has no ability, because each application has an endpoint of its own.
// Its claims do not hold their transactions, because requests may take long.
func webhookRoute(t *webhook.Target) *ring.Route {
	return &ring.Route{Name: "webhook", Target: t, Kind: clock.TargetWebhook, SeparateReplies: true}
}

// grpcRoute returns the route to methods of gRPC. As with webhooks, it has no ability, and its claims do not hold their
// transactions.
func grpcRoute(t *grpc.Target) *ring.Route {
	return &ring.Route{Name: "grpc", Target: t, Kind: clock.TargetGRPC, SeparateReplies: true}
}

// pullRoute returns the route to workers that reserve rings. It has no ability, because a worker serves one application
// only.
func pullRoute(t *pull.Target) *ring.Route {
	return &ring.Route{Name: "pull", Target: t, Kind: clock.TargetPull, HoldsClaims: true, SeparateReplies: true}
}

// kafkaRoute returns the route to Kafka. Its claims hold their transactions, because brokers reply in milliseconds, and
// the wait for replies is bounded, as with RabbitMQ. A broker replies to the rings of several applications at once, so
// replies are not separate.
func kafkaRoute(t *kafka.Target) *ring.Route {
	return &ring.Route{Name: "kafka", Target: t, Kind: clock.TargetKafka, HoldsClaims: true,
		Ability: lease.AbilityKafka}
}

// settingsChanged tells the targets that settings have changed.
func (t *targets) settingsChanged() {
	t.webhooks.EndpointsChanged()
	t.grpc.EndpointsChanged()
	for _, s := range t.sessions {
		s.DestinationsChanged()
	}
	if t.kafka != nil {
		t.kafka.TopicsChanged()
	}
}

// refusesDestination reports whether the settings of an application name an exchange of RabbitMQ that this process does
// not allow.
func (t *targets) refusesDestination(application string) bool {
	for _, s := range t.sessions {
		if s.Accepts(application) != nil {
			return true
		}
	}
	return false
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
