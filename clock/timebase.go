package clock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// TimebaseConfig configures how a Timebase follows the database's clock.
type TimebaseConfig struct {
	Interval time.Duration // time between samples while FollowClosely demands it, or Until for an instant within the next 2s; default 250ms
	Idle     time.Duration // time between samples otherwise; default 1s
	MaxAge   time.Duration // age of the newest sample beyond which the time is unknown; default 15s
}

// DefaultTimebaseConfig returns the default configuration.
func DefaultTimebaseConfig() TimebaseConfig {
	return TimebaseConfig{Interval: 250 * time.Millisecond, Idle: time.Second, MaxAge: 15 * time.Second}
}

// Validate returns all faults of the configuration, joined, or nil.
func (c TimebaseConfig) Validate() error {
	var errs []error
	if c.Interval < 10*time.Millisecond || c.Interval > time.Minute {
		errs = append(errs,
			errors.New("time sample interval must be from 10ms to 1m: the longer, the later rings are, by 0.5ms a second"))
	}
	if c.Idle < c.Interval {
		errs = append(errs, errors.New("time sample idle must be at least the interval"))
	}
	if c.MaxAge < 3*c.Idle {
		errs = append(errs,
			errors.New("time sample max age must be at least three times idle, or one slow sample makes the time unknown"))
	}
	return errors.Join(errs...)
}

// Timebase is this process's view of the database's clock. A sample is an instant of the database's clock with the
// local monotonic time at which it was received; by then the database's clock has advanced. The Timebase adds the
// sample's age by the local monotonic clock, less an allowance for drift, so the result is a lower bound. AtLeast
// allows for the drift of clocks that keep time (500 ppm). Floor also allows for clocks that are slewed. In counts from
// an upper bound: the time since the request of a sample, with the allowance, is added to the sample. Between a step or
// a slew of the database's clock and the next sample, AtLeast may be ahead of it. A claim therefore compares its rows
// with the database's own clock (store.ClaimRequest.ServerClock).
//
// Of the last samples, the sample with the closest bound counts. A newer sample that contradicts the older samples,
// after a clock was set or slewed, drops them. A sample that comes after MaxAge drops them too, because the
// contradiction cannot be checked.
type Timebase struct {
	cfg     TimebaseConfig
	source  TimeSource
	log     *slog.Logger
	created time.Time
	// needed is until when samples are taken every Interval, in nanoseconds since created. wake is signalled when it
	// grows; capacity 1.
	needed atomic.Int64
	wake   chan struct{}

	mu      sync.RWMutex
	samples []sample // newest last, at most keptSamples
	best    sample   // sample with the highest lower bound; all bounds advance alike, so only a new or a dropped sample changes it
	tight   sample   // sample with the lowest upper bound
}

type sample struct {
	database int64         // time by the database's clock, in microseconds since the epoch
	received time.Time     // local time at which the sample was received
	took     time.Duration // time from request to reply; database is at most that old when it is received
}

// lowerBound returns the least time of the database's clock at the local time, in microseconds.
func (s sample) lowerBound(local time.Time) int64 {
	age := local.Sub(s.received).Microseconds()
	return s.database + age - drift(age)
}

// upperBound returns the latest time of the database's clock at the local time, in microseconds.
func (s sample) upperBound(local time.Time) int64 {
	age := local.Sub(s.received.Add(-s.took)).Microseconds() + 1
	return s.database + age + drift(age)
}

// drift returns how far two clocks may drift apart in age microseconds, in microseconds.
func drift(age int64) int64 { return (max(age, -age)*driftPPM + 999_999) / 1_000_000 }

// nearby is how far ahead an instant may be for which Until demands samples every Interval. It is longer than the ring
// loop sleeps. It is also how long samples are frequent after In.
const nearby = 2 * time.Second

// notableStep is the smallest step back of the database's clock that is logged.
const notableStep = 10 * time.Millisecond

const (
	keptSamples = 64
	samplePause = 100 * time.Millisecond // longest wait after a failed sample
	driftPPM    = 500                    // drift of two clocks that keep time, in millionths of a sample's age
	// slewPPM is the greatest rate at which the database's clock falls behind the local clock, while chrony slews both
	// in opposite directions at its default maxslewrate, a twelfth: 1 - (1 - 1/12) / (1 + 1/12).
	slewPPM = 153_847
)

// TimebaseDeps are the dependencies of a Timebase.
type TimebaseDeps struct {
	Source TimeSource
	Log    *slog.Logger // nil: no log
}

// NewTimebase returns a Timebase. Its time is unknown until Run or Sample has taken a sample.
func NewTimebase(cfg TimebaseConfig, deps TimebaseDeps) (*Timebase, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Timebase{cfg: cfg, source: deps.Source, log: deps.Log, created: time.Now(), wake: make(chan struct{}, 1)}, nil
}

// Run takes samples until ctx ends. It repeats a failed sample soon.
func (t *Timebase) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := t.Sample(ctx); err != nil && ctx.Err() == nil {
			t.log.Debug("could not sample the database's clock", "err", err)
			pause(ctx, min(t.cfg.Interval, samplePause), nil)
			continue
		}
		pause(ctx, t.cfg.Interval, nil)
		if idle := t.cfg.Idle - t.cfg.Interval; idle > 0 && time.Since(t.created) > time.Duration(t.needed.Load()) {
			pause(ctx, idle, t.wake)
		}
	}
	return nil
}

// pause waits for d, until wake is signalled or until ctx ends.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-wake:
	case <-time.After(d):
	}
}

// FollowClosely demands samples every Interval for d from now on. It never shortens an earlier demand.
func (t *Timebase) FollowClosely(d time.Duration) {
	until := int64(time.Since(t.created) + d)
	for {
		before := t.needed.Load()
		if until <= before {
			return
		}
		if t.needed.CompareAndSwap(before, until) {
			Signal(t.wake)
			return
		}
	}
}

// Sample reads the database's clock once.
func (t *Timebase) Sample(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.MaxAge/3)
	defer cancel()
	sent := time.Now()
	us, err := t.source.Time(ctx)
	if err != nil {
		return err
	}
	received := time.Now()
	t.add(sample{database: us, received: received, took: received.Sub(sent)}, sent)
	return nil
}

// add keeps s, whose request was sent at the local time sent. The lower bound of the older samples at that time must
// not be later than s, and their upper bound at the receipt of s must not be earlier; else they are dropped. They are
// also dropped if they are older than MaxAge, because another server may have taken over. A clock that is behind the
// floor was set back, not slewed.
func (t *Timebase) add(s sample, sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.lowerBound(sent)
	if ok && t.floor(sent)-s.database > notableStep.Microseconds() {
		t.log.Warn("the database's clock was set back", "by", time.Duration(at-s.database)*time.Microsecond)
	}
	if !ok || at > s.database || t.tight.upperBound(s.received) < s.database {
		t.samples = t.samples[:0]
	}
	if len(t.samples) == keptSamples {
		t.samples = append(t.samples[:0], t.samples[1:]...)
	}
	t.samples = append(t.samples, s)
	t.best = slices.MaxFunc(t.samples,
		func(a, b sample) int { return cmp.Compare(a.lowerBound(s.received), b.lowerBound(s.received)) })
	t.tight = slices.MinFunc(t.samples,
		func(a, b sample) int { return cmp.Compare(a.upperBound(s.received), b.upperBound(s.received)) })
}

// AtLeast returns a lower bound of the database's clock while that clock keeps time. It returns ErrUnavailable if the
// newest sample is too old. It never blocks on I/O.
func (t *Timebase) AtLeast() (Instant, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	us, ok := t.lowerBound(time.Now())
	if !ok {
		return NoInstant, t.unknown()
	}
	return Instant(us / 1000), nil
}

// In returns the first instant by which d has passed for certain, while the database's clock keeps time. It is later
// than d from AtLeast, by the uncertainty of the time. Sets with a delay come in numbers, so samples are taken every
// Interval for some time. It returns ErrUnavailable if the newest sample is too old. d must be from 0 to 100 years.
func (t *Timebase) In(d time.Duration) (Instant, error) {
	t.FollowClosely(nearby)
	t.mu.RLock()
	defer t.mu.RUnlock()
	local := time.Now()
	if _, ok := t.lowerBound(local); !ok {
		return NoInstant, t.unknown()
	}
	us := t.tight.upperBound(local) + (d + time.Microsecond - 1).Microseconds()
	return min(Instant((us+999)/1000), MaxInstant), nil
}

// Floor returns a lower bound of the database's clock that also holds while clocks are slewed. It lies behind AtLeast
// by up to 15.4 % of the newest sample's age: 40 ms at the default interval, 154 ms while idle. It returns
// ErrUnavailable if the newest sample is too old.
func (t *Timebase) Floor() (Instant, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	local := time.Now()
	if _, ok := t.lowerBound(local); !ok {
		return NoInstant, t.unknown()
	}
	return Instant(t.floor(local) / 1000), nil
}

// unknown returns the error for a time that is not known.
func (t *Timebase) unknown() error {
	return &Error{
		Kind: ErrUnavailable, Code: CodeUnavailable, RetryAfter: t.cfg.Idle,
		Detail: "the database's clock is not known", Cause: errNoSample,
	}
}

// TimeView describes the state of a Timebase, for people.
type TimeView struct {
	Uncertainty time.Duration // how far the database's clock may be ahead of AtLeast
	Offset      time.Duration // AtLeast less this machine's clock
	Age         time.Duration // age of the newest sample
}

// View returns the present state. Its error is the same as AtLeast's.
func (t *Timebase) View() (TimeView, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	local := time.Now()
	us, ok := t.lowerBound(local)
	if !ok {
		return TimeView{}, t.unknown()
	}
	return TimeView{
		Offset:      time.Duration(us-local.UnixMicro()) * time.Microsecond,
		Age:         local.Sub(t.samples[len(t.samples)-1].received),
		Uncertainty: time.Duration(t.tight.upperBound(local)-us) * time.Microsecond,
	}, nil
}

var errNoSample = errors.New("no recent sample")

// Until returns how long to sleep until AtLeast is at least i, at most 146 years. It returns 0 if i has passed or the
// time is unknown. If that is soon, samples are taken every Interval meanwhile.
func (t *Timebase) Until(i Instant) time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	us, ok := t.lowerBound(time.Now())
	if !ok {
		return 0
	}
	left := i.Sub(Instant(us/1000)) - time.Duration(us%1000)*time.Microsecond
	if left < nearby {
		t.FollowClosely(max(0, left))
	}
	if left <= 0 {
		return 0
	}
	left = min(left, math.MaxInt64/2)
	return left + left/(1_000_000/driftPPM-1) + 2*time.Microsecond // the bound advances more slowly than the local clock
}

// lowerBound returns AtLeast for the local time, in microseconds; false: it is unknown. The caller holds mu.
func (t *Timebase) lowerBound(local time.Time) (int64, bool) {
	n := len(t.samples)
	if n == 0 || local.Sub(t.samples[n-1].received) > t.cfg.MaxAge {
		return 0, false
	}
	return t.best.lowerBound(local), true
}

// floor returns Floor for the local time, in microseconds. There must be at least one sample. The caller holds mu.
func (t *Timebase) floor(local time.Time) (us int64) {
	for _, s := range t.samples {
		age := local.Sub(s.received).Microseconds()
		us = max(us, s.database+age-(max(age, -age)*slewPPM+999_999)/1_000_000)
	}
	return us
}
