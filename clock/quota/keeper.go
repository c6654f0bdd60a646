package quota

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

const (
	// leastRound is the shortest time of a round over all shards.
	leastRound = 5 * time.Second
	// idlePause is the pause after a failed count, and while no application has the quota.
	idlePause = time.Second
	// rest is how much longer than a count the pause after it is.
	rest = 20
	// longestRest bounds that pause: the count may have waited for a lock.
	longestRest = 2 * time.Second
	// countLimit bounds the count of one shard.
	countLimit = 10 * time.Second
	// retryAfter is when a set that was refused for too many alarms may be repeated: alarms must ring first.
	retryAfter = 10 * time.Second
)

// Deps are the parts that a Keeper uses.
type Deps struct {
	Shards int // shards of the database
	// Count counts the pending alarms of one shard by application.
	Count func(ctx context.Context, shard int) (map[string]int64, error)
	// Limited returns the applications with a quota of pending alarms.
	Limited    func() []string
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Keeper keeps applications within their quotas, at this node. It is safe for concurrent use.
type Keeper struct {
	deps    Deps
	gauge   *prometheus.GaugeVec
	refused *prometheus.CounterVec

	mu           sync.Mutex
	applications map[string]*application

	failing bool // the last count failed; of Run's goroutine
}

var _ clock.QuotaKeeper = (*Keeper)(nil)

// application is what a Keeper knows of one application.
type application struct {
	sets    *rate.Limiter // nil: no quota
	pending *pending      // nil: no quota
}

// pending counts the pending alarms of an application.
type pending struct {
	counted []int64 // by shard: the last count
	since   []int64 // by shard: alarms that this node has added, less the ones it has ended, since that count began
	sum     int64   // of counted and since
	mark    int64   // since of the shard that is counted now, as its count began
	counts  int     // counts of shards; from Deps.Shards on, all shards are known
	taken   int64   // room that sets have taken whose decision is not committed
}

// New returns a Keeper. Run counts.
func New(deps Deps) *Keeper {
	k := &Keeper{
		deps: deps, applications: map[string]*application{},
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_quota_pending_alarms",
			Help: "Alarms that will ring, of each application with a quota for them, as this node knows.",
		}, []string{"application"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_quota_refused_sets_total",
			Help: "Sets that were refused because of a quota, by application and code.",
		}, []string{"application", "code"}),
	}
	deps.Registerer.MustRegister(k.gauge, k.refused)
	return k
}

// Admit judges a set or a cancel.
func (k *Keeper) Admit(op *clock.Op, q *clock.Quotas) (clock.Admission, error) {
	key := op.Key()
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.of(key.Application)
	if op.Set != nil && q.SetsPerSecond > 0 && !op.Paced {
		if wait := a.take(q.SetsPerSecond); wait > 0 {
			k.refused.WithLabelValues(key.Application, clock.CodeQuotaSets).Inc()
			return clock.Admission{}, &clock.Error{
				Kind: clock.ErrLimited, Code: clock.CodeQuotaSets, RetryAfter: wait,
				Detail: fmt.Sprintf("the quota sets_per_second of application %q is %d at each node", key.Application,
					q.SetsPerSecond),
			}
		}
	}
	if q.PendingAlarms == 0 {
		return clock.Admission{}, nil
	}
	t := &ticket{keeper: k, pending: k.pendingOf(a), key: key, quota: q.PendingAlarms}
	admission := clock.Admission{Ended: t.ended}
	if op.Set != nil {
		admission.Room = t
	}
	return admission, nil
}

// ticket is an op of an application with a quota of pending alarms.
type ticket struct {
	keeper  *Keeper
	pending *pending
	key     clock.Key
	quota   int
	taken   bool // it counts in pending.taken
	full    bool // the last Take found no room
}

var _ clock.Room = (*ticket)(nil)

// Take takes the room for a pending alarm.
func (t *ticket) Take() *clock.Error {
	t.keeper.mu.Lock()
	defer t.keeper.mu.Unlock()
	p := t.pending
	t.full = !t.taken && p.counts >= t.keeper.deps.Shards && p.sum+p.taken >= int64(t.quota)
	if t.full {
		return &clock.Error{
			Kind: clock.ErrLimited, Code: clock.CodeQuotaPending, RetryAfter: retryAfter,
			Detail: fmt.Sprintf("pending alarms of application %q: %d, and its quota pending_alarms is %d; alarms that it "+
				"has can be changed and cancelled", t.key.Application, p.sum+p.taken, t.quota),
		}
	}
	if !t.taken {
		t.taken = true
		p.taken++
	}
	return nil
}

// GiveBack gives the room back.
func (t *ticket) GiveBack() {
	t.keeper.mu.Lock()
	defer t.keeper.mu.Unlock()
	t.giveBack()
}

// giveBack gives the room back. keeper.mu is locked.
func (t *ticket) giveBack() {
	if t.taken {
		t.taken = false
		t.pending.taken--
	}
}

// ended notes the decision on the op.
func (t *ticket) ended(d *clock.Decision) {
	var added int64
	switch {
	case d.Verdict == clock.Create, d.Verdict == clock.Rearm:
		added = 1
	case d.Unscheduled:
		added = -1
	}
	k := t.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.Verdict == clock.Refuse && t.full {
		k.refused.WithLabelValues(t.key.Application, clock.CodeQuotaPending).Inc()
	}
	t.giveBack()
	t.pending.since[t.key.Shard(k.deps.Shards)] += added
	t.pending.sum += added
}

// take counts a set. It returns how long it must wait: 0 if it is allowed.
func (a *application) take(perSecond int) time.Duration {
	if a.sets == nil || a.sets.Burst() != perSecond {
		a.sets = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	}
	if a.sets.Allow() {
		return 0
	}
	r := a.sets.Reserve()
	defer r.Cancel()
	return r.Delay()
}

// of returns the application. k.mu is locked.
func (k *Keeper) of(name string) *application {
	a := k.applications[name]
	if a == nil {
		a = &application{}
		k.applications[name] = a
	}
	return a
}

// pendingOf returns the count of the application. k.mu is locked.
func (k *Keeper) pendingOf(a *application) *pending {
	if a.pending == nil {
		a.pending = &pending{counted: make([]int64, k.deps.Shards), since: make([]int64, k.deps.Shards)}
	}
	return a.pending
}

// Run counts the pending alarms of applications with the quota, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for shard := 0; ; {
		pause := idlePause
		if k.begin(shard) {
			began := time.Now()
			if counts := k.counted(ctx, shard); counts != nil {
				pause = min(rest*time.Since(began), longestRest)
				if k.end(shard, counts) {
					pause = max(pause, leastRound/time.Duration(k.deps.Shards))
				}
				shard = (shard + 1) % k.deps.Shards
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// begin prepares the count of a shard. It reports whether an application has the quota.
func (k *Keeper) begin(shard int) bool {
	limited := map[string]bool{}
	for _, name := range k.deps.Limited() {
		limited[name] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, a := range k.applications {
		if !limited[name] && a.pending != nil {
			a.pending = nil
			k.gauge.DeleteLabelValues(name)
		}
	}
	for name := range limited {
		p := k.pendingOf(k.of(name))
		p.mark = p.since[shard]
	}
	return len(limited) > 0
}

// counted returns the counts of a shard, nil if it cannot be counted.
func (k *Keeper) counted(ctx context.Context, shard int) map[string]int64 {
	bounded, stop := context.WithTimeout(ctx, countLimit)
	defer stop()
	counts, err := k.deps.Count(bounded, shard)
	if err == nil {
		k.failing = false
		return counts
	}
	if !k.failing && ctx.Err() == nil {
		k.deps.Log.Warn("pending alarms are not counted: quotas go by the last counts", "err", err)
	}
	k.failing = true
	return nil
}

// end takes the counts of a shard. It reports whether every application has had its first round, which is in haste.
func (k *Keeper) end(shard int, counts map[string]int64) (known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known = true
	for name, a := range k.applications {
		p := a.pending
		if p == nil {
			continue
		}
		p.sum += counts[name] - p.counted[shard] - p.mark
		p.counted[shard] = counts[name]
		p.since[shard] -= p.mark
		p.mark = 0
		if p.counts++; p.counts >= k.deps.Shards {
			k.gauge.WithLabelValues(name).Set(float64(max(0, p.sum)))
		} else {
			known = false
		}
	}
	return known
}
