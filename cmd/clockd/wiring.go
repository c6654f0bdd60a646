package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/store"
)

// service is the running whole, as far as serve needs to see it.
type service struct {
	cfg      *config
	log      *slog.Logger
	server   *clockhttp.Server
	store    store.Store
	self     *identity
	draining *atomic.Bool
}

// parts are the components that run, in the order in which they start.
type parts struct {
	fx.In

	Timebase  *clock.Timebase
	Broker    *rabbit.Session
	Loop      *ring.Loop
	WakeUps   *wakeUps
	Preloader *preload.Preloader
	Service   *clock.Service
	Retention *store.Retention
	Overdue   *preload.Overdue
	Audit     *audit
	Answers   *rabbit.Answers
	Server    *clockhttp.Server
	Keeper    *preload.Keeper
}

// options joins the parts with fx.
func options(cfg *config, log *slog.Logger, reg *prometheus.Registry, st store.Store) fx.Option {
	return fx.Options(
		fx.WithLogger(func() fxevent.Logger {
			l := &fxevent.SlogLogger{Logger: log}
			l.UseLogLevel(slog.LevelDebug)
			return l
		}),
		fx.StartTimeout(cfg.StartTimeout+stopTimeout), fx.StopTimeout(stopTimeout),
		fx.Supply(cfg, log, reg),
		fx.Provide(
			func() store.Store { return st }, func() prometheus.Registerer { return reg },
			newDraining, newTimebase, newHeap, newIdentity, newKeeper, newCluster, newBroker, newTarget, newPreloader, newWakeUps, newLoop,
			newClockService, newAnswers, newRetention, newOverdue, newAudit, newReadiness, newServer, newService,
		),
		fx.Invoke(own),
	)
}

// own hands the components to the runner: started in this order, stopped in the reverse one, and the store closed last.
func own(lc fx.Lifecycle, shutdown fx.Shutdowner, log *slog.Logger, st store.Store, p parts) {
	lc.Append(fx.StopHook(func() error { return st.Close() }))
	lc.Append(fx.StartHook(p.Timebase.Sample)) // so that the first request finds the time known
	r := &runner{log: log, shutdown: shutdown}
	r.own(lc, component{"database clock", p.Timebase.Run})
	if p.Broker != nil {
		r.own(lc, component{"broker", p.Broker.Run})
	}
	r.own(lc, component{"ring", p.Loop.Run})
	if p.WakeUps != nil {
		r.own(lc, component{"wake-ups", p.WakeUps.run})
	}
	r.own(lc, component{"preload", p.Preloader.Run})
	r.own(lc, component{"writer", p.Service.Run})
	r.own(lc, component{"retention", p.Retention.Run})
	r.own(lc, component{"overdue", p.Overdue.Run})
	r.own(lc, component{"audit", p.Audit.Run})
	if p.Answers != nil {
		r.own(lc, component{"answers", p.Answers.Run})
	}
	r.own(lc, component{"http", p.Server.Run})
	r.own(lc, component{"leases", p.Keeper.Run}) // the first to stop: the others ring on until somebody else has the shards
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

func newDraining() *atomic.Bool { return new(atomic.Bool) }

func newTimebase(st store.Store, log *slog.Logger, reg prometheus.Registerer) *clock.Timebase {
	tb := clock.NewTimebase(clock.DefaultTimebaseConfig(), st, log)
	watchTime(reg, tb)
	return tb
}

func newHeap(cfg *config) *ring.Heap { return ring.NewHeap(cfg.preload.Loaders, cfg.HeapEntries) }

// newKeeper returns who keeps this node's leases; streams is nil where rings go to the broker.
func newKeeper(cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, self *identity, streams *stream.Target) (*preload.Keeper, preload.Ownership, error) {
	c := preload.DefaultKeeperConfig()
	c.Name, c.Incarnation, c.Version, c.Streams = cfg.Node, self.incarnation, version, streams != nil
	deps := preload.KeeperDeps{Leaser: st, Time: tb, Address: self.whereabouts, Log: log, Registerer: reg}
	if streams != nil {
		deps.Streams = streams
	}
	k, err := preload.NewKeeper(c, deps)
	return k, k, err
}

func newCluster(st store.Store, tb *clock.Timebase, self *identity) *cluster {
	return &cluster{leaser: st, timebase: tb, self: self}
}

// newBroker returns nil where rings go to the stream.
func newBroker(cfg *config, log *slog.Logger, reg prometheus.Registerer) (*rabbit.Session, error) {
	if !cfg.usesBroker() {
		return nil, nil
	}
	return rabbit.New(cfg.rabbit, rabbit.Deps{Logger: log, Registerer: reg})
}

// newAnswers returns who takes answers to rings from the broker, nil where rings go to the stream.
func newAnswers(broker *rabbit.Session, s *clock.Service) *rabbit.Answers {
	if broker == nil {
		return nil
	}
	return broker.Answers(answerer{s})
}

// newTarget returns where rings go; streams is nil where that is the broker.
func newTarget(broker *rabbit.Session) (target ring.Target, streams *stream.Target) {
	if broker != nil {
		return broker, nil
	}
	s := stream.New()
	return s, s
}

func newPreloader(cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, heap *ring.Heap, tb *clock.Timebase, o preload.Ownership) (*preload.Preloader, error) {
	return preload.New(cfg.preload, preload.Deps{
		Loader: st, Heap: heap, Time: tb, Ownership: o, Log: log, Registerer: reg,
	})
}

func newLoop(cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, heap *ring.Heap, tb *clock.Timebase, p *preload.Preloader, target ring.Target) (*ring.Loop, error) {
	c := cfg.ring
	c.TwoPhase = !cfg.usesBroker() || !st.HoldsClaims()
	return ring.New(c, ring.Deps{
		Heap: heap, Database: st, Target: target, Time: tb, Reader: p, Timer: ring.PreciseTimer, Log: log, Registerer: reg,
	})
}

func newClockService(cfg *config, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, p *preload.Preloader) (*clock.Service, error) {
	s, err := clock.NewService(cfg.service, st, tb, p, clockMetrics(reg))
	if err == nil {
		watchQueue(reg, s)
	}
	return s, err
}

func newRetention(cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase) (*store.Retention, error) {
	return store.NewRetention(cfg.retention, st, tb, log, reg)
}

func newOverdue(log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, o preload.Ownership) *preload.Overdue {
	return preload.NewOverdue(st, o, tb, log, reg)
}

func newServer(cfg *config, log *slog.Logger, gatherer *prometheus.Registry, reg prometheus.Registerer, s *clock.Service, streams *stream.Target, nodes *cluster, ready *readiness) (*clockhttp.Server, error) {
	deps := clockhttp.Deps{Alarms: s, Nodes: nodes.look, Readiness: ready.look, Log: log, Registerer: reg, Gatherer: gatherer}
	if streams != nil {
		deps.Streams = streams
	}
	return clockhttp.New(cfg.http, deps)
}

func newService(cfg *config, log *slog.Logger, st store.Store, server *clockhttp.Server, self *identity, draining *atomic.Bool) *service {
	return &service{cfg: cfg, log: log, store: st, server: server, self: self, draining: draining}
}

// announce tells a person, in two lines, where the service listens and what to try next.
func (s *service) announce(out io.Writer) error {
	rings := "the stream"
	if s.cfg.usesBroker() {
		rings = fmt.Sprintf("exchange %q", s.cfg.AMQPExchange)
	}
	url := "http://" + s.server.Addr().String()
	_, err := fmt.Fprintf(out, "clockd %s listens on %s: alarms in %s, rings to %s\ntry: curl -X PUT %s/v1/applications/shop/alarms/order-1 -d '{\"delay\":\"5s\",\"payload\":{\"order\":1}}'\n",
		version, url, withoutPassword(s.cfg.DatabaseURL), rings, url)
	return err
}
