package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/store"
)

// targets are the targets of this process, and the routes to them.
type targets struct {
	routes   []*ring.Route
	router   ring.Router       // route of each application; nil with one route
	sessions []*rabbit.Session // targets that are exchanges of RabbitMQ
	streams  *stream.Target    // target that is the stream; nil: no application rings to it
	name     string            // names the targets in the line that the service prints at its start
}

// newTargets returns the target that the configuration names. All applications ring to it.
func newTargets(cfg *config, log *slog.Logger, reg prometheus.Registerer) (*targets, error) {
	if !cfg.usesBroker() {
		streams := stream.New()
		return &targets{routes: []*ring.Route{streamRoute(streams)}, streams: streams, name: "the stream"}, nil
	}
	session, err := rabbit.New(cfg.rabbit, rabbit.Deps{Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	return &targets{
		routes: []*ring.Route{rabbitRoute(session)}, sessions: []*rabbit.Session{session}, name: fmt.Sprintf("exchange %q", cfg.AMQPExchange),
	}, nil
}

func rabbitRoute(s *rabbit.Session) *ring.Route {
	return &ring.Route{Name: "rabbitmq", Target: s, HoldsClaims: true, Ability: lease.AbilityAMQP}
}

// streamRoute returns the route to the stream. It has no ability, because a subscriber serves one application only.
func streamRoute(s *stream.Target) *ring.Route {
	return &ring.Route{Name: "stream", Target: s, HoldsClaims: true, SeparateReplies: true}
}

// warnings returns the topology warnings of all RabbitMQ sessions.
func (t *targets) warnings() (warnings []string) {
	for _, s := range t.sessions {
		warnings = append(warnings, s.Warnings()...)
	}
	return warnings
}

// findings asks all RabbitMQ sessions whether the bound queues keep what they have confirmed. The result is nil if none knows.
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
