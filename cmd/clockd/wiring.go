package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/fx"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/bulk"
	"github.com/clockd/clockd/clock/clockgrpc"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/console"
	"github.com/clockd/clockd/clock/manifest"
	"github.com/clockd/clockd/clock/quota"
	"github.com/clockd/clockd/clock/recompute"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/clock/stats"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/preload/wake"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/inbox"
	"github.com/clockd/clockd/store"
)

// service has the parts of the running service that serve needs.
type service struct {
	cfg      *config
	log      *slog.Logger
	store    store.Store
	targets  *targets
	access   *access.Watch
	self     *identity
	draining *atomic.Bool
}

// parts are the parts that run as components.
type parts struct {
	fx.In

	Config     *config
	Timebase   *clock.Timebase
	Settings   *settings.Watch
	Gate       *claimGate
	Access     *access.Watch
	Trail      *access.Trail
	Targets    *targets
	Loop       *ring.Loop
	WakeUps    *wakeUps
	Sender     *wake.Sender
	Reads      *preload.Reads
	Abilities  *abilities
	Preloader  *preload.Preloader
	Service    *clock.Service
	Retention  *store.Retention
	Overdue    *preload.Overdue
	Durability *durability
	Answers    []*inbox.Answers
	Intakes    []*inbox.Intake
	Server     *clockhttp.Server
	Port       *clockhttp.Port
	Keeper     *lease.Keeper
	Tracing    *tracing
	Recorder   *stats.Recorder
	Figures    *stats.Writer
	Quotas     *quota.Keeper
	Recomputer *recompute.Recomputer
	Bulk       *bulk.Runner
}

// options joins the parts with fx.
func options(cfg *config, log *slog.Logger, reg *prometheus.Registry, st store.Store, port *clockhttp.Port) fx.Option {
	return fx.Options(
		fx.NopLogger, // fx returns its errors; each component logs its own events
		fx.StartTimeout(cfg.StartTimeout+stopTimeout), fx.StopTimeout(stopTimeout),
		fx.Supply(cfg, log, reg, port),
		fx.Provide(
			func() store.Store { return st }, func() prometheus.Registerer { return reg },
			newDraining, newTimebase, newSettings, newTrail, newAccess,
			newSessions, newHeap, newIdentity, newReads, newAbilities,
			newClaimGate, newKeeper, newCluster, newTargets, newSubscribers, newSender, newPreloader, newWakeUps,
			newLoop,
			newTracing, newRecorder, newRecent, newFigures, newJoiner, newCountOccurrences, newQuotas, newClockService,
			newAnswers, newIntakes, newRecomputer, newRetention, newOverdue,
			newDurability, newReadiness, newBlockers, newBulk, newServer, newService,
		),
		fx.Invoke(own),
	)
}

// own gives the components to the runner. They start in this order and stop in the reverse order. The store is closed
// last.
func own(lc fx.Lifecycle, shutdown fx.Shutdowner, log *slog.Logger, st store.Store, p parts) {
	lc.Append(fx.StopHook(func() error { return st.Close() }))
	lc.Append(fx.StopHook(p.Tracing.Close))
	p.Abilities.loop.Store(p.Loop)
	routeBySettings(p.Settings, p.Targets, p.Loop)
	for _, step := range []func(context.Context) error{
		p.Timebase.Sample, // so that the time is known before the first request
		p.Settings.Load,   // so that no ring goes to a target that is not its application's
		keysGiven(p.Config, p.Settings, log),
		bootstrap(p.Config, st, p.Timebase, log),
		p.Access.Load,     // so that no request passes as if it needed no token
		p.Recomputer.Join, // before this node computes a time
	} {
		lc.Append(fx.StartHook(untilAvailable(reported(p.Port.WaitsFor, "its settings are being read", step))))
	}
	r := &runner{log: log, shutdown: shutdown}
	r.own(lc, component{name: "database clock", run: p.Timebase.Run})
	r.own(lc, component{name: "settings", run: pollSettings(p.Settings, p.Gate)})
	r.own(lc, component{name: "access", run: p.Access.Run})
	r.own(lc, component{name: "audit", run: p.Trail.Run})
	r.own(lc, component{name: "stats", run: p.Recorder.Run})
	r.own(lc, component{name: "figures", run: p.Figures.Run})
	r.own(lc, component{name: "quotas", run: p.Quotas.Run})
	for _, target := range p.Targets.open {
		if target.run != nil {
			r.own(lc, component{name: target.Name, run: target.run})
		}
		if target.close != nil {
			lc.Append(fx.StopHook(target.close)) // runs after the loop has ended
		}
	}
	r.own(lc, component{name: "ring", run: p.Loop.Run, endBy: p.Loop.EndBy})
	if p.WakeUps != nil {
		r.own(lc, component{name: "wake-ups", run: p.WakeUps.run})
	}
	r.own(lc, component{name: "wake-up sender", run: p.Sender.Run})
	r.own(lc, component{name: "reads", run: p.Reads.Run})
	r.own(lc, component{name: "preload", run: p.Preloader.Run})
	r.own(lc, component{name: "writer", run: p.Service.Run})
	r.own(lc, component{name: "recompute", run: p.Recomputer.Run})
	r.own(lc, component{name: "retention", run: p.Retention.Run})
	r.own(lc, component{name: "overdue", run: p.Overdue.Run})
	r.own(lc, component{name: "durability", run: p.Durability.Run})
	r.own(lc, component{name: "bulk", run: p.Bulk.Run})
	for _, a := range p.Answers {
		r.own(lc, component{name: "answers", run: a.Run})
	}
	for _, in := range p.Intakes {
		r.own(lc, component{name: "intake", run: in.Run})
	}
	lc.Append(fx.StartHook(func() { p.Server.Attach(p.Port) }))
	r.own(lc, component{name: "http", run: p.Server.Run})
	r.own(lc, component{name: "leases", run: p.Keeper.Run}) // the first to stop: this node rings until other nodes own its shards
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

func newDraining() *atomic.Bool { return new(atomic.Bool) }

func newTimebase(st store.Store, log *slog.Logger, reg prometheus.Registerer) (*clock.Timebase, error) {
	tb, err := clock.NewTimebase(clock.DefaultTimebaseConfig(), clock.TimebaseDeps{Source: st, Log: log})
	if err == nil {
		registerTimeMetrics(reg, tb)
	}
	return tb, err
}

// newRecorder returns the recorder of rates and lateness.
func newRecorder(tb *clock.Timebase) *stats.Recorder { return stats.NewRecorder(tb) }

// newRecent returns the part that keeps a sample of the latest tries.
func newRecent() *stats.Recent { return new(stats.Recent) }

// newFigures returns the part that writes this node's rates and lateness for the other nodes.
func newFigures(log *slog.Logger, st store.Store, recorder *stats.Recorder, self *identity) *stats.Writer {
	return stats.NewWriter(stats.WriterDeps{
		Recorder: recorder, Steps: st, Sightings: st, Incarnation: self.incarnation, Log: log,
	})
}

// newJoiner returns the part that adds the rates and lateness of all nodes.
func newJoiner(
	cfg *config, log *slog.Logger, st store.Store, recorder *stats.Recorder, nodes *cluster,
) *stats.Joiner {
	return stats.NewJoiner(stats.JoinerDeps{
		Recorder: recorder, Steps: st, Self: nodes.node(cfg),
		Nodes: nodes.living, Log: log,
	})
}

// observeDeliveries returns the observer of the ring loop: it counts each delivery, makes its span if traces are sent,
// and logs its rings at level debug.
func observeDeliveries(
	recorder *stats.Recorder, recent *stats.Recent, traces *tracing, log *slog.Logger,
) func(ring.Delivery) {
	return func(d ring.Delivery) {
		recorder.Rung(d.Rings, d.Outcomes, d.Now)
		recent.Rung(d.Target, d.Rings, d.Outcomes, d.Now)
		traces.delivered(d)
		if log.Enabled(context.Background(), slog.LevelDebug) {
			logDelivery(log, &d)
		}
	}
}

// logDelivery logs each ring of a delivery whose outcome is known, for people who follow single alarms.
func logDelivery(log *slog.Logger, d *ring.Delivery) {
	for i := range d.Rings {
		r, outcome := &d.Rings[i], &d.Outcomes[i]
		if outcome.Kind == clock.Awaited {
			continue // its outcome comes in a late delivery
		}
		attributes := []slog.Attr{
			slog.String("application", r.Application), slog.String("business_id", r.BusinessID),
			slog.Int64("alarm_id", r.AlarmID),
			slog.String("message_id", r.MessageID()), slog.String("target", d.Target.String()),
			slog.String("outcome", outcome.Kind.String()),
			slog.String("due_at", r.RingAt.String()), slog.Duration("lateness", d.Now.Sub(r.RingAt)),
		}
		if outcome.Reason != "" {
			attributes = append(attributes, slog.String("reason", outcome.Reason))
		}
		log.LogAttrs(context.Background(), slog.LevelDebug, "ring ended", attributes...)
	}
}

// newReads returns the reads that loaders use.
func newReads(st store.Store) *preload.Reads { return preload.NewReads(st) }

func newHeap(cfg *config) *ring.Heap { return ring.NewHeap(cfg.preload.Loaders, cfg.HeapEntries) }

// newKeeper returns the keeper of this node's leases.
func newKeeper(
	cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, self *identity,
	targets *targets, subscribed *subscribers, nodeAbilities *abilities, gate *claimGate,
) (*lease.Keeper, preload.Ownership, error) {
	keeperConfig := lease.DefaultConfig()
	keeperConfig.Name, keeperConfig.Incarnation, keeperConfig.Version, keeperConfig.Streams = cfg.Node, self.incarnation, version, true
	keeperConfig.SecretKeys = cfg.form.Keys().IDs()
	deps := lease.Deps{
		Leaser: st, Time: tb, Address: self.httpAddress, Abilities: abilitiesOfTargets(),
		Lacks: nodeAbilities.lacks, Why: nodeAbilities.why,
		Settings: nodeAbilities.confirmedSettings, Joined: gate.joined, Log: log, Registerer: reg,
		Streams: subscribed,
	}
	k, err := lease.New(keeperConfig, deps)
	return k, k, err
}

func newCluster(st store.Store, tb *clock.Timebase, self *identity) *cluster {
	return &cluster{leaser: st, settings: st, timebase: tb, self: self}
}

// newAnswers returns the consumers of answers that arrive over RabbitMQ.
func newAnswers(targets *targets, service *clock.Service) (answers []*inbox.Answers) {
	for _, s := range targets.sessions {
		answers = append(answers, s.Answers(answerer{service}))
	}
	return answers
}

func newPreloader(
	cfg *config, log *slog.Logger, reg prometheus.Registerer, reads *preload.Reads, heap *ring.Heap, tb *clock.Timebase,
	ownership preload.Ownership, sender *wake.Sender,
) (*preload.Preloader, error) {
	return preload.New(cfg.preload, preload.Deps{
		Loader: reads, Heap: heap, Time: tb, Ownership: ownership, Announcer: sender, Log: log, Registerer: reg,
	})
}

func newLoop(
	cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, heap *ring.Heap, tb *clock.Timebase,
	preloader *preload.Preloader, targets *targets, gate *claimGate, traces *tracing, recorder *stats.Recorder,
	recent *stats.Recent, occurrences countOccurrences,
) (*ring.Loop, error) {
	return ring.New(cfg.ring, ring.Deps{
		Heap: heap, Database: st, Routes: targets.routes, Router: targets.routerOf(&settings.Snapshot{}),
		TargetName: targets.nameOf, Time: tb,
		Feeder: preloader, Timer: ring.PreciseTimer,
		Hold: gate.closed, Log: log, Registerer: reg, Observe: observeDeliveries(recorder, recent, traces, log),
		Occurrences: occurrences,
	})
}

func newQuotas(
	log *slog.Logger, reg prometheus.Registerer, st store.Store, watch *settings.Watch,
) *quota.Keeper {
	return quota.New(quota.Deps{
		Shards: st.ShardCount(), Count: st.CountPending, Limited: watch.WithPendingQuota, Log: log, Registerer: reg,
	})
}

func newClockService(
	cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, watch *settings.Watch,
	preloader *preload.Preloader, recorder *stats.Recorder, occurrences countOccurrences, quotas *quota.Keeper,
) (*clock.Service, error) {
	s, err := clock.NewService(cfg.service,
		clock.ServiceDeps{Store: st, Prober: st, Time: tb, Listener: preloader, Defaults: watch.Defaults,
			OwnReceiver: watch.OwnReceiver, Quotas: quotas,
			Metrics: clockMetrics(reg, recorder, occurrences), Log: log})
	if err == nil {
		registerQueueMetrics(reg, s)
	}
	return s, err
}

// newRecomputer returns the part that recomputes alarms when the time-zone data changes.
func newRecomputer(
	log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, service *clock.Service,
	self *identity,
) (*recompute.Recomputer, error) {
	return recompute.New(recompute.DefaultConfig(), recompute.Deps{
		Store: st, Alarms: service, Time: tb, Data: repeat.Data(), Incarnation: self.incarnation, Log: log,
		Registerer: reg,
	})
}

func newRetention(
	cfg *config, log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase,
) (*store.Retention, error) {
	return store.NewRetention(cfg.retention,
		store.RetentionDeps{Purger: st, Acts: st, Time: tb, Log: log, Registerer: reg})
}

func newOverdue(
	log *slog.Logger, reg prometheus.Registerer, st store.Store, tb *clock.Timebase, ownership preload.Ownership,
) *preload.Overdue {
	return preload.NewOverdue(preload.OverdueDeps{Counter: st, Owner: ownership, Time: tb, Log: log, Registerer: reg})
}

func newServer(
	cfg *config, log *slog.Logger, gatherer *prometheus.Registry, reg prometheus.Registerer, service *clock.Service,
	targets *targets, watch *settings.Watch, tokens *access.Watch, subscribed *subscribers, st store.Store,
	nodes *cluster, ready *readiness, traces *tracing, figures *stats.Joiner, recent *stats.Recent,
	jobs *bulk.Runner, why *blockers,
	sessions *access.Sessions,
) (*clockhttp.Server, error) {
	journal, err := ringstream.NewJournal(ringstream.Deps{Alarms: service, Registerer: reg})
	if err != nil {
		return nil, err
	}
	now := func(context.Context) (clock.Instant, error) { return nodes.timebase.AtLeast() }
	editor := settings.NewEditor(settings.EditorDeps{
		Form: cfg.form, Stored: guarded{st, cfg.form}, DefaultTarget: targets.byDefault,
		Now: now,
	})
	applied := &settingsView{Editor: editor, watch: watch, targets: targets, subscribers: subscribed}
	server, err := clockhttp.New(cfg.http, clockhttp.Deps{
		Alarms: service, Streams: targets.streams, Journal: journal, Pulls: targets.pulls, Stats: figures,
		Recent: clockhttp.Recent{Node: nodes.node(cfg), Tries: recent},
		Nodes:  nodes.view, Settings: applied,
		Manifests: manifest.NewApplier(manifest.Deps{Store: st, Settings: editor, Renew: watch.Renew, Alarms: service,
			Now: now}),
		Search: clock.NewSearch(st), Repeating: clock.NewRepeatingAlarms(st), Blockers: why.ofAlarm,
		Known:    newDirectory(st, nodes.timebase, applied, why).view,
		Forecast: forecastFrom(clock.NewForecasts(st), nodes.timebase), Bulk: jobs,
		Audit: st.Acts, Access: tokens, Sessions: sessions, SignIn: signInOf(cfg, nodes.timebase),
		Readiness: ready.view, Wrap: traces.wrap, Log: log, Registerer: reg, Gatherer: gatherer,
	})
	if err != nil {
		return nil, err
	}
	pages, err := console.New()
	if err != nil {
		return nil, err
	}
	server.MountPages(clockhttp.Pages{Name: "console", Path: "/ui", Handler: pages})
	rpc, err := clockgrpc.New(clockgrpc.Config{
		WriteTimeout: cfg.http.WriteTimeout, Heartbeat: cfg.http.Heartbeat, BatchBytes: clockhttp.BatchBytes,
		BatchItems: clockhttp.BatchItems,
	}, clockgrpc.Deps{Alarms: service, Streams: targets.streams, Journal: journal, Blockers: why.ofAlarm,
		Front: server.Front(), Settings: applied, RingsElsewhere: server.RingsElsewhere, Ready: server.Ready})
	if err != nil {
		return nil, err
	}
	for _, p := range rpc.Procedures() {
		server.Mount(p)
	}
	return server, nil
}

// newBulk returns the runner of jobs that change many alarms.
func newBulk(
	log *slog.Logger, st store.Store, tb *clock.Timebase, service *clock.Service, self *identity,
) *bulk.Runner {
	return bulk.NewRunner(bulk.Deps{Alarms: service, Store: st, Now: tb.AtLeast, Incarnation: self.incarnation, Log: log})
}

func newService(
	cfg *config, log *slog.Logger, st store.Store, targets *targets, tokens *access.Watch, self *identity,
	draining *atomic.Bool,
) *service {
	return &service{cfg: cfg, log: log, store: st, targets: targets, access: tokens, self: self, draining: draining}
}

// announce prints two lines for a person: the service's address and a request to try. Beside a log in JSON it logs them
// as one line, because many systems collect both streams of a process as its log.
func (s *service) announce(out io.Writer) error {
	url := s.self.url()
	if s.cfg.LogFormat == formatJSON {
		s.log.Info("listening", "address", url, "database", shownURL(s.cfg.DatabaseURL), "target", s.targets.name,
			"version", version)
		return nil
	}
	_, err := fmt.Fprintf(out, "clockd %s listens on %s: alarms in %s, rings to %s by default\n%s\n", version, url,
		shownURL(s.cfg.DatabaseURL), s.targets.name, s.toTry(url))
	return err
}

// toTry returns a line for a person with a request that the service accepts now, or with the command that makes the
// first token.
func (s *service) toTry(url string) string {
	token := ""
	if !s.access.Open() {
		if all, _ := s.access.Tokens(); all == 0 {
			return "every request needs an access token, and none exists: make one with " + access.HowToMake
		}
		token = `-H "Authorization: Bearer $CLOCKD_TOKEN" `
	}
	return fmt.Sprintf(`try: curl -X PUT %s%s/v1/applications/shop/alarms/order-1 -d '{"delay":"5s","payload":{"order":1}}'`, token, url)
}
