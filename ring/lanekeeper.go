package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
)

// Bounds of opening a lane again.
const (
	minReopenWait = 100 * time.Millisecond // wait after the first failure; each failure in a row doubles it
	maxReopenWait = 5 * time.Second        // longest wait
	laneTrial     = 2 * time.Second        // time after which an open lane counts as useful, even without any reply of the target
)

// Kinds of lane failures: values of the label reason of clockd_ring_lane_failures_total.
const (
	laneNotOpened = "open" // the lane could not be opened
	laneFull      = "full" // the lane could not be opened, because it awaits many late replies
	laneLost      = "lost" // the lane ended right after it was opened
)

// laneKeeper keeps the lane of one worker open, outside of claims. Only the worker's goroutine opens and uses the lane;
// any goroutine may ask for its state.
//
//	                      not opened: backoff, but none if full of late replies
//	                    ┌──────────┐
//	target usable       ▼          │       opened
//	──────────────▶  opening ──────┴──────────────────▶ open
//	                    ▲                                │
//	                    └────────────────────────────────┘
//	   lost: opening at once if the lane was useful, else after a backoff of minReopenWait to maxReopenWait, with jitter
type laneKeeper struct {
	lane    Lane   // set by crew.run
	name    string // name in logs: the worker's number, or the word quarantine and a number
	size    int    // most rings in one delivery
	target  Target
	log     *slog.Logger
	metrics *metrics
	usable  chan struct{} // capacity 1: the target may have become usable

	mu           sync.Mutex
	open         bool
	proven       bool      // the target has replied to a delivery since the lane was opened
	opened       time.Time // time of the last opening
	failures     int       // consecutive failures; 0: none
	flapping     bool      // a failure of this series was laneLost
	err          error     // last failure of the series; nil: none
	warned       bool      // the series was logged as a warning
	nextOpen     time.Time // earliest time of the next try to open
	shouldBeOpen bool      // the target was usable at the last check, so the lane should be open
	lastWorked   time.Time // last time at which the lane worked or the target became usable; zero before the first try
}

// newLanes returns one keeper per worker of a route: that many for healthy applications, then QuarantineWorkers. size
// is the most rings in one delivery. crew.run gives them their lanes.
func newLanes(shared, size int, r *Route, log *slog.Logger, m *metrics) []*laneKeeper {
	keepers := make([]*laneKeeper, shared+QuarantineWorkers)
	for i := range keepers {
		name := strconv.Itoa(i + 1)
		if i >= shared {
			name = fmt.Sprint("quarantine ", i+1-shared)
		}
		keepers[i] = &laneKeeper{
			name: name, size: size, target: r.Target, log: log.With("target", r.Name), metrics: m,
			usable: make(chan struct{}, 1),
		}
	}
	return keepers
}

// keep tries to open the lane until it is open or ctx ends. It reports whether the lane is open.
func (k *laneKeeper) keep(ctx context.Context) bool {
	for k.await(ctx) {
		err := k.lane.Open(ctx, k.size)
		switch {
		case err == nil:
			k.noteOpened()
			return true
		case ctx.Err() != nil:
			return false
		}
		k.noteNotOpened(err)
	}
	return false
}

// await blocks until the lane should be opened. It reports false when ctx ends earlier.
func (k *laneKeeper) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		wait, now := k.openWait(k.target.Usable() == nil)
		if now {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-k.usable:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// openWait returns the wait before the next check, or now if the lane should be opened now.
func (k *laneKeeper) openWait(usable bool) (wait time.Duration, now bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now()
	if usable && !k.shouldBeOpen {
		k.lastWorked = at // the target, not the lane, was unusable until now
	}
	k.shouldBeOpen = usable
	if !usable {
		return maxSleep, false
	}
	wait = k.nextOpen.Sub(at)
	return wait, wait <= 0
}

func (k *laneKeeper) noteOpened() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open, k.proven, k.opened = true, false, time.Now()
	k.metrics.openLanes.Inc()
	if k.failures > 0 && !k.flapping {
		k.log.Info("lane to the target is open again", "lane", k.name, "attempt", k.failures+1)
		k.warned = false
	}
}

// noteDelivery notes the outcomes of a delivery. A reply of the target proves the lane.
func (k *laneKeeper) noteDelivery(outcomes []clock.Outcome) {
	if !gotReply(outcomes) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proven = true
	k.forgetFailures()
}

// forgetFailures ends the series of failures. The caller holds mu.
func (k *laneKeeper) forgetFailures() {
	if k.flapping {
		k.log.Info("lane to the target stays open again", "lane", k.name, "attempt", k.failures)
	}
	k.failures, k.err, k.warned, k.flapping = 0, nil, false, false
}

// gotReply reports whether the target replied to at least one ring.
func gotReply(outcomes []clock.Outcome) bool {
	for i := range outcomes {
		switch outcomes[i].Kind {
		case clock.Confirmed, clock.Returned, clock.Nacked, clock.Refused:
			return true
		default:
		}
	}
	return false
}

// noteNotOpened notes that the lane could not be opened, and why.
func (k *laneKeeper) noteNotOpened(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !errors.Is(err, ErrLaneFull) {
		k.countFailure(laneNotOpened, err)
		return
	}
	k.countFailure(laneFull, err)
	k.nextOpen, k.failures = time.Time{}, 1 // it is not the lane's fault, and Open has waited
}

// noteLost notes that the open lane can no longer deliver, and why. A lane that got a reply, or stayed open for
// laneTrial, is opened again at once. A silent queue makes the lane give up its connection after Config.ReplyTimeout,
// and that is not the lane's fault. A lane that ends over and over right after its opening waits like a lane that
// cannot be opened.
func (k *laneKeeper) noteLost(err error) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.working(now) {
		k.lastWorked = now
	}
	k.open = false
	k.metrics.openLanes.Dec()
	if k.proven || now.Sub(k.opened) >= laneTrial {
		k.forgetFailures()
		return
	}
	k.flapping = true
	k.countFailure(laneLost, err)
}

// countFailure counts a failure and sets the time of the next try. It logs the first failure of a series as a warning.
// The caller holds mu.
func (k *laneKeeper) countFailure(reason string, err error) {
	k.metrics.laneFailures.WithLabelValues(reason).Inc()
	k.nextOpen = time.Now().Add(clock.Backoff{First: minReopenWait, Last: maxReopenWait}.Wait(k.failures))
	k.failures++
	k.err = err
	level := slog.LevelDebug
	if !k.warned {
		k.warned, level = true, slog.LevelWarn
	}
	k.log.Log(context.Background(), level, "lane to the target failed", "lane", k.name, "reason", reason, "attempt",
		k.failures, "err", err)
}

// working reports whether the lane is open and fit for use: the present series has no failure, or the lane has been
// open for laneTrial. The caller holds mu.
func (k *laneKeeper) working(now time.Time) bool {
	return k.open && (k.failures == 0 || now.Sub(k.opened) >= laneTrial)
}

// laneState is a copy of a laneKeeper's state.
type laneState struct {
	open, working bool
	lastWorked    time.Time // as in laneKeeper
	err           error     // last failure of the present series; nil: none
}

func (k *laneKeeper) state(now time.Time) laneState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return laneState{open: k.open, working: k.working(now), lastWorked: k.lastWorked, err: k.err}
}
