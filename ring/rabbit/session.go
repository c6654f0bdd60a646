package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/inbox"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Deps holds the dependencies of a Session. With a nil Log nothing is logged, with a nil Registerer metrics are not
// registered.
type Deps struct {
	// Destination returns where the rings of an application go, nil for the exchange of the session with the
	// application as routing key. It must not block. Nil: all go there.
	Destination func(receiver string) *Destination
	// Own returns where a ring goes whose alarm brings fields of its destination itself. The error says why the
	// settings do not allow it any more, in the same words at each try. It must not block. Nil: there are no such
	// alarms.
	Own func(r *clock.Ring) (*Destination, error)

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Session is the broker as a ring.Target. Run keeps it usable, and Lane returns lanes to it. Any goroutine may call its
// methods.
type Session struct {
	cfg          Config
	destinations func(receiver string) *Destination        // see Deps
	own          func(r *clock.Ring) (*Destination, error) // see Deps
	broker       *wire.Broker
	management   *management // nil without a ManagementURL
	log          *slog.Logger
	metrics      *metrics
	health       *health
	lastConfirms lastConfirms
	exchanges    exchanges // other exchanges that cannot be published to
	inboxes      inbox.Deps

	probeNow     chan struct{} // capacity 1; signalled when a lane asks for a probe
	reconnectNow chan struct{} // capacity 1; signalled when a lane found a missing or forbidden exchange
}

var _ ring.Target = (*Session)(nil)

// New returns a session. The session is not usable until Run has connected. New does no I/O. The error lists every rule
// that cfg breaks, or says that the metrics are registered already.
func New(cfg Config, deps Deps) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	hosts, err := wire.ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	api, err := newManagement(cfg.ManagementURL, hosts[0].VHost())
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	if deps.Destination == nil {
		deps.Destination = func(string) *Destination { return nil }
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	inboxMetrics, err := inbox.NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	h := newHealth(m)
	broker := wire.NewBroker(wire.BrokerConfig{
		Hosts: hosts, ConnectionName: cfg.ConnectionName, Heartbeat: cfg.Heartbeat, DialTimeout: cfg.DialTimeout,
		WriteTimeout: cfg.WriteTimeout, BackoffMin: cfg.BackoffMin, BackoffMax: cfg.BackoffMax,
		GatherBytes: cfg.GatherBytes, Log: log, Dials: m.dials, Connections: m.connections,
		DialErrors: m.errors.WithLabelValues(kindDial), Blocked: h.block, Unblocked: h.unblock,
	})
	return &Session{
		cfg: cfg, destinations: deps.Destination, own: deps.Own, management: api,
		log: log, metrics: m, health: h, broker: broker,
		inboxes: inbox.Deps{
			Broker: broker, Metrics: inboxMetrics, SetupErrors: m.errors.WithLabelValues(kindSetup), Log: log,
			Warn: h.warn,
		},
		probeNow:     make(chan struct{}, 1),
		reconnectNow: make(chan struct{}, 1),
	}, nil
}

// Answers returns a consumer of answers. It works while its own Run runs; the session's Run need not run.
func (s *Session) Answers(answerer inbox.Answerer) *inbox.Answers {
	return inbox.NewAnswers(s.inboxes, answerQueue(s.cfg.Exchange), s.cfg.AnswerPrefetch, answerer)
}

// Intake returns the intake, nil if the configuration names no queue. It works while its own Run runs; the session's
// Run need not run.
func (s *Session) Intake(setter inbox.Setter) *inbox.Intake {
	return inbox.NewIntake(s.inboxes, s.cfg.Intake, setter)
}

// Usable returns nil if rings can be handed over now: the control connection is up, the exchange exists, the last probe
// was confirmed, and no connection is blocked. Otherwise the error is the reason. It contains no secret.
func (s *Session) Usable() error { return s.health.usableErr() }

// Accepts returns nil if the receiver's rings go to an exchange that is allowed. Only a ring shows whether a queue is
// bound.
func (s *Session) Accepts(receiver string) error {
	exchange, _ := s.destinations(receiver).of("", s.cfg.Exchange)
	if !s.allows(exchange) {
		return fmt.Errorf("this node does not allow the exchange %q (CLOCKD_AMQP_EXCHANGES)", exchange)
	}
	return nil
}

// DestinationsChanged must be called when the results of Deps.Destination have changed.
func (s *Session) DestinationsChanged() { clock.Signal(s.health.changed) }

// Changed returns a channel of capacity 1. It is signalled whenever Usable changes between nil and an error, and when
// destinations have changed.
func (s *Session) Changed() <-chan struct{} { return s.health.changed }

// Warnings returns problems that a person should look at although rings can be handed over. It returns nil without a
// problem.
func (s *Session) Warnings() []string { return s.health.warned() }

// Lane returns a new lane. The lane is not open yet.
func (s *Session) Lane(maxLate int) ring.Lane { return newLane(s, maxLate) }

// Run connects and reconnects the control connection until ctx ends. Then it closes the connection and returns nil. The
// callers of Lane close their lanes.
func (s *Session) Run(ctx context.Context) error {
	defer s.health.connectionDown("the session has ended")
	s.broker.KeepConnected(ctx, roleControl, func(ctx context.Context) (bool, error) {
		c := &control{s: s}
		err := c.serve(ctx)
		if ctx.Err() == nil {
			s.health.connectionDown(s.broker.Reason(roleControl, err))
		}
		return c.established, err
	})
	return nil
}

// requestProbe asks for a probe. A lane calls it after an error that the broker, the lane or a queue may have caused.
func (s *Session) requestProbe() { clock.Signal(s.probeNow) }

// doubtUntilProbed makes the target unusable until a probe passes. A lane calls it when the broker has blocked its
// connection.
func (s *Session) doubtUntilProbed(why string) {
	s.health.raiseDoubt(why)
	clock.Signal(s.probeNow)
}

// requestReconnect makes the target unusable until a new control connection is open and a probe has passed on it. A
// lane calls it when the exchange is missing, or when the user may not write to it. A new connection is needed because
// the broker remembers permissions as long as a channel lives.
func (s *Session) requestReconnect(why string) {
	clock.Signal(s.reconnectNow) // before raiseDoubt: a probe that began between the two would clear the doubt
	s.health.raiseDoubt(why)
}

// errReconnect ends a control connection so that a new one is opened.
var errReconnect = errors.New("a lane found a missing or forbidden exchange: connecting again")

// swallowedWarning is the warning for probes that are confirmed without a return.
func (s *Session) swallowedWarning() string {
	return fmt.Sprintf("the mandatory flag has no effect on exchange %q: the broker confirmed a probe without a bound queue and did not return it. "+
		"An alternate exchange (usually from a policy) or a queue bound with an empty routing key takes unroutable messages, "+
		"so rings of applications without a queue count as rung", s.cfg.Exchange)
}
