package clock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
)

// TimebaseConfig says how the database's clock is followed.
type TimebaseConfig struct {
	Interval time.Duration // between samples; default 250ms
	MaxAge   time.Duration // without a sample for that long the time is unknown; default 15s
}

// DefaultTimebaseConfig returns the defaults that each field names.
func DefaultTimebaseConfig() TimebaseConfig {
	return TimebaseConfig{Interval: 250 * time.Millisecond, MaxAge: 15 * time.Second}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c TimebaseConfig) Validate() error {
	var errs []error
	if c.Interval < 10*time.Millisecond || c.Interval > time.Minute {
		errs = append(errs, errors.New("time sample interval must be from 10ms to 1m: the longer, the later rings are, by 0.5ms a second"))
	}
	if c.MaxAge < 3*c.Interval {
		errs = append(errs, errors.New("time sample max age must be at least three intervals, or one slow answer makes the time unknown"))
	}
	return errors.Join(errs...)
}

// Timebase is this process's view of the database's clock: a lower bound, so that nothing rings early. A sample is
// the database's instant and the local monotonic time at which it was received, when the database's clock had already gone
// on; carried on by the monotonic clock, less what the two may drift apart, it stays below. The best of the last
// samples counts; when the newest contradicts them (a clock set back), or comes too late to tell, they are dropped.
type Timebase struct {
	cfg    TimebaseConfig
	source TimeSource
	log    *slog.Logger

	mu      sync.RWMutex
	samples []sample // newest last, at most keptSamples
	best    sample   // of them: they age alike, so it is so until another comes or it goes
}

type sample struct {
	database int64 // microseconds since the epoch
	received time.Time
	took     time.Duration // from asking to the answer: so much later the database's clock may have been
}

// at returns the lower bound that s gives for the local time, in microseconds.
func (s sample) at(local time.Time) int64 {
	age := local.Sub(s.received).Microseconds()
	return s.database + age - drift(age)
}

// latest returns how late the database's clock may be at the local time, in microseconds.
func (s sample) latest(local time.Time) int64 {
	age := local.Sub(s.received.Add(-s.took)).Microseconds() + 1
	return s.database + age + drift(age)
}

// drift returns how much two clocks may drift apart in so many microseconds, in microseconds.
func drift(age int64) int64 { return (max(age, -age)*driftPPM + 999_999) / 1_000_000 }

// notableStep is more than clocks differ by being slewed.
const notableStep = 10 * time.Millisecond

const (
	keptSamples = 64
	samplePause = 100 * time.Millisecond // after a failed sample, at most
	driftPPM    = 500                    // of a sample's age: the fastest that NTP slews a clock
)

// NewTimebase returns a Timebase that knows nothing until Run or Sample.
func NewTimebase(cfg TimebaseConfig, source TimeSource, log *slog.Logger) *Timebase {
	return &Timebase{cfg: cfg, source: source, log: log}
}

// Run samples until ctx ends. A failed sample is repeated soon.
func (t *Timebase) Run(ctx context.Context) error {
	for {
		wait := t.cfg.Interval
		if err := t.Sample(ctx); err != nil && ctx.Err() == nil {
			t.log.Debug("could not sample the database's clock", "err", err)
			wait = min(wait, samplePause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Sample asks the database once.
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

// add keeps s. What the other samples say of the moment it was sent must not be later than s itself; samples too old to
// tell are dropped too, for another server may have taken over meanwhile.
func (t *Timebase) add(s sample, sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.micros(sent)
	if back := time.Duration(at-s.database) * time.Microsecond; ok && back > notableStep {
		t.log.Warn("the database's clock was set back", "by", back)
	}
	if !ok || at > s.database {
		t.samples = t.samples[:0]
	}
	if len(t.samples) == keptSamples {
		t.samples = append(t.samples[:0], t.samples[1:]...)
	}
	t.samples = append(t.samples, s)
	t.best = slices.MaxFunc(t.samples, func(a, b sample) int { return cmp.Compare(a.at(s.received), b.at(s.received)) })
}

// Now returns a lower bound of the database's clock, ErrUnavailable when the newest sample is too old. It never blocks
// on I/O.
func (t *Timebase) Now() (Instant, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	us, ok := t.micros(time.Now())
	if !ok {
		return NoInstant, t.unknown()
	}
	return Instant(us / 1000), nil
}

// unknown is the error of a time that is not known.
func (t *Timebase) unknown() error {
	return &Error{
		Kind: ErrUnavailable, Code: CodeUnavailable, RetryAfter: t.cfg.Interval,
		Detail: "the database's clock is not known", Cause: errNoSample,
	}
}

// TimeView is what a Timebase knows, for people.
type TimeView struct {
	Uncertainty time.Duration // so much later the database's clock may be
	Offset      time.Duration // the lower bound less this machine's clock
	Age         time.Duration // of the newest sample
}

// View returns what is known now; the error is Now's.
func (t *Timebase) View() (TimeView, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	local := time.Now()
	us, ok := t.micros(local)
	if !ok {
		return TimeView{}, t.unknown()
	}
	v := TimeView{
		Offset: time.Duration(us-local.UnixMicro()) * time.Microsecond, Age: local.Sub(t.samples[len(t.samples)-1].received),
		Uncertainty: math.MaxInt64,
	}
	for _, s := range t.samples {
		v.Uncertainty = min(v.Uncertainty, time.Duration(s.latest(local)-us)*time.Microsecond)
	}
	return v, nil
}

var errNoSample = errors.New("no recent sample")

// Until returns how long to sleep so that Now is at least i (at most 146 years); 0 when it is due or the time is unknown.
func (t *Timebase) Until(i Instant) time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	us, ok := t.micros(time.Now())
	if !ok {
		return 0
	}
	left := i.Sub(Instant(us/1000)) - time.Duration(us%1000)*time.Microsecond
	if left <= 0 {
		return 0
	}
	left = min(left, math.MaxInt64/2)
	return left + left/(1_000_000/driftPPM-1) + 2*time.Microsecond // the bound goes slower than the local clock
}

// micros returns the lower bound at the local time, in microseconds; the caller holds mu.
func (t *Timebase) micros(local time.Time) (int64, bool) {
	n := len(t.samples)
	if n == 0 || local.Sub(t.samples[n-1].received) > t.cfg.MaxAge {
		return 0, false
	}
	return t.best.at(local), true
}
