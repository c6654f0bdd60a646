package ring

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// crew is the workers of one route.
type crew struct {
	*Route

	index          int            // index in crews.all; the heap's index of the route
	rationed       RationedTarget // Route.Target, if it is one; else nil
	twoPhase       bool           // claims commit before the delivery, and outcomes after it
	work           chan batch     // batches of healthy applications
	quarantineWork chan batch     // rounds of applications in quarantine
	lanes          []*laneKeeper  // one per worker; the last QuarantineWorkers ones belong to the quarantine

	// owned by the goroutine of Loop.Run
	usable         bool // the target was usable at the present step
	busy           int  // batches of healthy applications that were handed out and are not complete
	free           int  // idle workers for healthy applications whose lane is open, less the batches in work
	freeQuarantine int  // idle workers of the quarantine whose lane is open, less the batches in quarantineWork
	silentRounds   int  // rounds of silent applications under way; at most QuarantineWorkers-1
	quarantined    int  // applications of the route in quarantine
	parked         int  // parked entries of these applications
	pace           pace // bounds the rows of a batch
}

// shared returns the lanes of the workers for healthy applications.
func (c *crew) shared() []*laneKeeper { return c.lanes[:len(c.lanes)-QuarantineWorkers] }

// crews are the workers of all routes. At most workers batches of healthy applications are under way at once. One of
// them is reserved for each route: a route whose target is slow takes all others, but not the last worker of another
// route.
type crews struct {
	all     []*crew
	router  Router                          // nil: all applications ring by the only route
	names   func(to store.Addressee) string // Deps.TargetName
	workers int                             // Config.Workers
	turns   []*crew                         // all crews, the least recently served first
}

// newCrews returns a crew per route. Loop.Run gives them their lanes.
func newCrews(cfg Config, deps Deps, m *metrics) crews {
	cs := crews{router: deps.Router, workers: cfg.Workers, names: deps.TargetName}
	shared := cfg.Workers - len(deps.Routes) + 1
	for i, r := range deps.Routes {
		rationed, _ := r.Target.(RationedTarget)
		cs.all = append(cs.all, &crew{
			Route: r, index: i, rationed: rationed, twoPhase: !r.HoldsClaims || !deps.Database.HoldsClaims(),
			work:           make(chan batch, shared),
			quarantineWork: make(chan batch, QuarantineWorkers), lanes: newLanes(shared, cfg.BatchRows, r, deps.Log, m),
			pace: newPace(cfg.BatchRows),
		})
	}
	cs.turns = slices.Clone(cs.all)
	return cs
}

// errNoRoute is the reason why no crew accepts an addressee without a route.
var errNoRoute = errors.New("the router names no route of this process for the application")

// errPaused is the reason why no crew accepts an addressee whose application is paused.
var errPaused = errors.New("the application is paused")

// nameOf returns the target that the alarms of an addressee name, for people.
func (cs *crews) nameOf(to store.Addressee) string {
	if cs.names == nil {
		return to.Target.String()
	}
	return cs.names(to)
}

// of returns the crew of an addressee's route. It is the first crew for an addressee without a route, whose rings no
// crew accepts.
func (cs *crews) of(to store.Addressee) *crew {
	if c := cs.find(to); c != nil {
		return c
	}
	return cs.all[0]
}

// find returns the crew of an addressee's route, nil if the router returns none of Deps.Routes.
func (cs *crews) find(to store.Addressee) *crew {
	if cs.router == nil {
		return cs.all[0]
	}
	route := cs.router(to)
	for _, c := range cs.all {
		if c.Route == route {
			return c
		}
	}
	return nil
}

// paused reports whether the addressee's application is paused.
func (cs *crews) paused(to store.Addressee) bool {
	return cs.router != nil && cs.router(to) == PausedRoute
}

// accepts returns nil if the addressee has a route, and the route's target accepts its receiver. Otherwise it returns
// the reason: errPaused, errNoRoute or the target's.
func (cs *crews) accepts(to store.Addressee) error {
	switch c := cs.find(to); {
	case c != nil:
		return c.Target.Accepts(to.Receiver())
	case cs.paused(to):
		return errPaused
	default:
		return errNoRoute
	}
}

// share returns the share that each route has of a limit for all routes.
func (cs *crews) share(limit int) int { return limit / len(cs.all) }

// lookAtTargets notes for each target whether it is usable. It reports whether at least one is usable.
func (cs *crews) lookAtTargets() bool {
	anyUsable := false
	for _, c := range cs.all {
		c.usable = c.Target.Usable() == nil
		anyUsable = anyUsable || c.usable
	}
	return anyUsable
}

// hasWorker reports whether c may have another batch of healthy applications: it has an idle worker with an open lane,
// and the batch leaves one worker to each other route.
func (cs *crews) hasWorker(c *crew) bool {
	left := cs.workers
	for _, other := range cs.all {
		left -= other.busy
		if other != c && other.busy == 0 {
			left--
		}
	}
	return c.free > 0 && left > 0
}

// byTurns calls serve with each crew until serve returns false for it. The least recently served crew comes first.
func (cs *crews) byTurns(serve func(c *crew) bool) {
	for i := 0; i < len(cs.turns); {
		c := cs.turns[i]
		if !serve(c) {
			i++
			continue
		}
		cs.turns = append(slices.Delete(cs.turns, i, i+1), c)
	}
}

// close ends the workers after their present batches.
func (cs *crews) close() {
	for _, c := range cs.all {
		close(c.work)
		close(c.quarantineWork)
	}
}

// run starts the crew's workers, which end after crews.close, and watch, which ends with ctx.
func (c *crew) run(ctx context.Context, l *Loop, workers *sync.WaitGroup) {
	for i, k := range c.lanes {
		w, work, maxLate := &worker{loop: l, crew: c, keeper: k}, c.work, sharedMaxLate
		if i >= len(c.shared()) {
			w.quarantine, work, maxLate = true, c.quarantineWork, quarantineMaxLate
		}
		k.lane = c.Target.Lane(maxLate)
		workers.Go(func() { w.run(ctx, work) })
	}
	workers.Go(func() { c.watch(ctx, l.changed) })
}

// watch tells the crew's workers, and the loop through changed, that the target has changed, until ctx ends.
func (c *crew) watch(ctx context.Context, changed chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.Target.Changed():
		}
		for _, k := range c.lanes {
			clock.Signal(k.usable)
		}
		clock.Signal(changed)
	}
}
