package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/ring"
)

// Deps is what a Session works with. Nil fields are allowed: nothing is logged, metrics are not registered.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Session is the broker as a target. Run keeps it usable; Lane gives ways in. Any goroutine.
type Session struct {
	cfg        Config
	address    string      // of the broker, without user and password
	management *management // nil: not asked
	log        *slog.Logger
	metrics    *metrics
	health     *health

	probeNow chan struct{} // capacity 1: a lane met trouble
	again    chan struct{} // capacity 1: a lane met a missing or forbidden exchange
}

var _ ring.Target = (*Session)(nil)

// New returns a session that is not usable until Run has connected. It does no I/O. The error holds every rule that cfg
// breaks; or the metrics are registered already.
func New(cfg Config, deps Deps) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	uri, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	api, err := newManagement(cfg.ManagementURL, uri.Vhost)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Session{
		cfg: cfg, address: address(uri), management: api, log: log, metrics: m, health: newHealth(m),
		probeNow: make(chan struct{}, 1),
		again:    make(chan struct{}, 1),
	}, nil
}

// Usable returns nil when rings can be handed over now: the control connection is up, the exchange is there, the last
// probe was confirmed and no connection is blocked. Else it says why not, without any secret.
func (s *Session) Usable() error { return s.health.answer() }

// Accepts reports true for every application: whether a queue is bound is learnt by ringing.
func (s *Session) Accepts(string) bool { return true }

// Changed returns a channel of capacity 1 that is signalled at each flip of Usable.
func (s *Session) Changed() <-chan struct{} { return s.health.changed }

// Warnings returns what does not keep rings from being handed over, but a person should look at; nil when all is well.
func (s *Session) Warnings() []string { return s.health.warned() }

// Lane returns a new lane. It connects when it is opened or first delivers.
func (s *Session) Lane() ring.Lane { return newLane(s) }

// Run connects and reconnects the control connection until ctx ends; then it closes it and returns nil. Lanes are closed
// by who asked for them.
func (s *Session) Run(ctx context.Context) error {
	defer s.health.down("the session has ended")
	s.persist(ctx, roleControl, func(ctx context.Context) (bool, error) {
		c := &control{s: s}
		err := c.attend(ctx)
		if ctx.Err() == nil {
			s.health.down(err.Error())
		}
		return c.passed, err
	})
	return nil
}

// suspect asks for a probe: a lane met trouble that may be the broker's, or only that lane's or queue's.
func (s *Session) suspect() { signal(s.probeNow) }

// distrust makes the target unusable until a probe has passed: a lane was blocked.
func (s *Session) distrust(why string) {
	s.health.question(why)
	signal(s.probeNow)
}

// renew makes the target unusable until the control connection has been opened anew and a probe has passed on it: a lane
// met a missing exchange, or one that it may not write to (the broker remembers permissions for a channel's life).
func (s *Session) renew(why string) {
	signal(s.again) // first, or a probe that begins between the two would dispel the doubt
	s.health.question(why)
}

// errAgain ends a control connection so that a new one is opened.
var errAgain = errors.New("a lane met a missing or forbidden exchange: connecting anew")

// swallowed warns that returns do not come.
func (s *Session) swallowed() string {
	return fmt.Sprintf("mandatory is defeated on exchange %q: a probe that no queue is bound for was confirmed without being returned. "+
		"An alternate exchange (a policy, mostly) or a queue bound with an empty routing key takes what is meant for nobody, "+
		"so rings of applications without a queue count as rung", s.cfg.Exchange)
}
