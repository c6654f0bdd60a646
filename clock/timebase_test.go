package clock

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// remoteClock is a database's clock behind a slow connection, under synctest's time.
type remoteClock struct {
	mu       sync.Mutex
	base     time.Time
	offset   int64                // time by this clock at base, in µs since the epoch
	ppm      int64                // rate above the local clock's, in millionths
	up, down func() time.Duration // duration of the request and of the reply
	err      error                // error of each read; nil: reads succeed
	asked    atomic.Int64         // reads
}

func newRemoteClock() *remoteClock {
	none := func() time.Duration { return 0 }
	return &remoteClock{base: time.Now(), offset: 1_900_000_000_000_000, up: none, down: none}
}

// micros returns the database's time, in microseconds since the epoch.
func (c *remoteClock) micros() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Since(c.base).Microseconds()
	return c.offset + passed + passed*c.ppm/1_000_000
}

func (c *remoteClock) set(change func(c *remoteClock)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *remoteClock) Time(ctx context.Context) (int64, error) {
	c.asked.Add(1)
	c.mu.Lock()
	up, down, err := c.up(), c.down(), c.err
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, up); err != nil {
		return 0, err
	}
	us := c.micros()
	return us, sleep(ctx, down)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 { // in a bubble under -race, Go 1.26 crashes on a timer with no time left (runtime.maybeRunChan)
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inBubble runs f in a synctest bubble, with a Timebase that follows c. f may change c.
func inBubble(t *testing.T, f func(t *testing.T, c *remoteClock, tb *Timebase)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newRemoteClock()
		tb := newTestTimebase(t, TimebaseDeps{Source: c})
		var run sync.WaitGroup
		run.Go(func() {
			if err := tb.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		defer run.Wait()
		defer cancel()
		f(t, c, tb)
	})
}

// checkBound demands that Now is not ahead of the database's clock, and at most the duration most behind it.
func checkBound(t *testing.T, c *remoteClock, tb *Timebase, most time.Duration) {
	t.Helper()
	now, err := tb.AtLeast()
	if err != nil {
		t.Fatalf("Now: %v", err)
	}
	behind := time.Duration(c.micros()-int64(now)*1000) * time.Microsecond
	if behind < 0 || behind > most {
		t.Fatalf("Now is %s behind the database's clock, want from 0 to %s", behind, most)
	}
}

// checkView demands that the database's clock lies within the bounds of the view.
func checkView(t *testing.T, c *remoteClock, tb *Timebase) {
	t.Helper()
	v, err := tb.View()
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	ahead := time.Duration(c.micros()-time.Now().UnixMicro())*time.Microsecond - v.Offset
	if ahead < 0 || ahead > v.Uncertainty || v.Age > 2*time.Second {
		t.Fatalf("the database's clock is %s ahead of the bound, %+v", ahead, v)
	}
}

func TestTimebaseIsALowerBound(t *testing.T) {
	for _, c := range []struct {
		name           string
		up, down       time.Duration
		jitUp, jitDown time.Duration
		ppm            int64
		most           time.Duration
	}{
		{"near", 0, 0, 0, 0, 0, 2 * time.Millisecond},
		{"slow to ask", 80 * time.Millisecond, 0, 0, 0, 0, 3 * time.Millisecond},
		{"slow to answer", 0, 80 * time.Millisecond, 0, 0, 0, 83 * time.Millisecond},
		{"jitter to ask", 0, 0, 100 * time.Millisecond, 0, 0, 3 * time.Millisecond},
		{"jitter to answer", 0, 0, 0, 100 * time.Millisecond, 0, 103 * time.Millisecond},
		{"slower by 500 ppm", 0, 0, 20 * time.Millisecond, 20 * time.Millisecond, -500, 30 * time.Millisecond},
		{"faster by 500 ppm", 0, 0, 20 * time.Millisecond, 20 * time.Millisecond, 500, 30 * time.Millisecond},
		{"far faster", 0, 0, 0, 0, 10_000, 15 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, clock *remoteClock, tb *Timebase) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rnd := rand.New(rand.NewPCG(seed, 0))
				jitter := func(least, more time.Duration) func() time.Duration {
					return func() time.Duration { return least + time.Duration(rnd.Int64N(int64(more)+1)) }
				}
				clock.set(func(r *remoteClock) { r.up, r.down, r.ppm = jitter(c.up, c.jitUp), jitter(c.down, c.jitDown), c.ppm })
				time.Sleep(2 * time.Second)
				for range 2000 {
					checkBound(t, clock, tb, c.most)
					if c.ppm <= driftPPM {
						checkView(t, clock, tb)
					}
					time.Sleep(time.Duration(time.Now().UnixNano()*7919%97_000_000 + 1)) // not in step with the samples
				}
			})
		})
	}
}

// The best sample counts, not the newest, so jitter does not move Now.
func TestTimebaseTakesTheBestSample(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		time.Sleep(1500 * time.Millisecond)
		c.set(func(c *remoteClock) { c.down = func() time.Duration { return 200 * time.Millisecond } })
		for range 10 {
			time.Sleep(time.Second)
			checkBound(t, c, tb, 10*time.Millisecond)
		}
		time.Sleep(90 * time.Second) // until the sample of the fast connection is dropped
		checkBound(t, c, tb, 205*time.Millisecond)
		if now, _ := tb.AtLeast(); int64(now)*1000 > c.micros()-199_000 {
			t.Error("the sample of the fast connection still counts")
		}
	})
}

func TestTimebaseFollowsAClockSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		for _, by := range []int64{10_000, 5_000_000, 3_600_000_000} {
			time.Sleep(20 * time.Second)
			checkBound(t, c, tb, 5*time.Millisecond)
			c.set(func(c *remoteClock) { c.offset -= by })
			time.Sleep(1100 * time.Millisecond) // one sample
			checkBound(t, c, tb, 5*time.Millisecond)
		}
	})
}

func TestTimebaseFollowsAClockSetForward(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		time.Sleep(20 * time.Second)
		c.set(func(c *remoteClock) { c.offset += 3_600_000_000 })
		time.Sleep(1100 * time.Millisecond)
		checkBound(t, c, tb, 5*time.Millisecond)
	})
}

// In is never early, whatever the network does, and late by the time of a sample at most. It is exact again after the
// clock was set.
func TestInIsNeverEarly(t *testing.T) {
	for _, ppm := range []int64{-500, 0, 500} {
		inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd, jitter := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1)) // jitter is for the goroutine that samples
			trip := func() time.Duration { return time.Duration(jitter.Int64N(int64(20 * time.Millisecond))) }
			c.set(func(c *remoteClock) { c.up, c.down, c.ppm = trip, trip, ppm })
			time.Sleep(2 * time.Second)
			for i := range 1000 {
				if i%100 == 99 {
					// a step of less than two trips may hide between the bounds of the samples
					step := []int64{-3_600_000_000, 45_000, 3_600_000_000}[rnd.IntN(3)]
					c.set(func(c *remoteClock) { c.offset += step })
					time.Sleep(1100 * time.Millisecond) // one sample
				}
				time.Sleep(time.Duration(rnd.Int64N(int64(5 * time.Second)))) // samples are rare in between
				d := time.Duration(rnd.Int64N(int64(time.Hour)))
				at, err := tb.In(d)
				if err != nil {
					t.Fatal(err)
				}
				late := time.Duration(int64(at)*1000-c.micros())*time.Microsecond - d.Truncate(time.Microsecond)
				if late < 0 || late > 45*time.Millisecond {
					t.Fatalf("%d ppm: in %s is late by %s", ppm, d, late)
				}
			}
			if at, err := tb.In(100 * 365 * 24 * time.Hour); err != nil || !at.Valid() {
				t.Errorf("in 100 years: %d, %v", at, err)
			}
		})
	}
}

// TestTimebaseSamplesMoreOftenBeforeAnInstant counts samples while nothing is due, and before an instant for which
// Until was asked.
func TestTimebaseSamplesMoreOftenBeforeAnInstant(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		samplesIn := func(d time.Duration) int64 {
			before := c.asked.Load()
			time.Sleep(d)
			return c.asked.Load() - before
		}
		until := func(ahead time.Duration) {
			now, err := tb.AtLeast()
			if err != nil {
				t.Fatal(err)
			}
			tb.Until(now.Add(ahead))
		}
		time.Sleep(3100 * time.Millisecond)
		if n := samplesIn(20 * time.Second); n != 20 {
			t.Errorf("%d samples in 20 idle seconds, want 20", n)
		}
		until(time.Minute)
		if n := samplesIn(5 * time.Second); n != 5 {
			t.Errorf("%d samples in 5 s for an instant that is far, want 5", n)
		}
		time.Sleep(500 * time.Millisecond) // in the middle between two samples
		until(1900 * time.Millisecond)
		until(100 * time.Millisecond) // shortens nothing
		if n := samplesIn(1900 * time.Millisecond); n < 7 || n > 9 {
			t.Errorf("%d samples in the 1.9 s before an instant, want one each 250 ms", n)
		}
		if v, _ := tb.View(); v.Age > 250*time.Millisecond {
			t.Errorf("at the instant the newest sample is %s old", v.Age)
		}
		time.Sleep(time.Second)
		if n := samplesIn(10 * time.Second); n != 10 {
			t.Errorf("%d samples in the 10 s afterwards, want 10", n)
		}
		time.Sleep(500 * time.Millisecond)
		until(-time.Second) // overdue
		if n := samplesIn(100 * time.Millisecond); n != 1 {
			t.Errorf("%d samples at once for an overdue instant, want 1", n)
		}
	})
}

func TestTimebaseAgesOutAndRecovers(t *testing.T) {
	down := errors.New("down")
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		time.Sleep(600 * time.Millisecond)
		c.set(func(c *remoteClock) { c.err = down })
		time.Sleep(14 * time.Second)
		checkBound(t, c, tb, 10*time.Millisecond)
		before := c.asked.Load()
		time.Sleep(time.Second) // 15.1 s since the last sample
		if now, err := tb.AtLeast(); !errors.Is(err, ErrUnavailable) || now != NoInstant {
			t.Fatalf("after 15 s without a sample: %s, %v", now, err)
		}
		if tb.Until(MaxInstant) != 0 {
			t.Error("Until has a result although Now is unknown")
		}
		if n := c.asked.Load() - before; n < 8 || n > 12 {
			t.Errorf("the database was asked %d times in a second of failures", n)
		}
		// Another server takes over. Its clock is a second behind, so no sample of the old server may count.
		c.set(func(c *remoteClock) { c.err, c.offset = nil, c.offset-1_000_000 })
		time.Sleep(150 * time.Millisecond)
		checkBound(t, c, tb, 5*time.Millisecond)
	})
}

func TestTimebaseGivesUpOnASampleWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		c.set(func(c *remoteClock) { c.up = func() time.Duration { return time.Hour } })
		time.Sleep(11 * time.Second) // the sample that is running, a second sample of 5 s, and a part of the third
		c.set(func(c *remoteClock) { c.up = func() time.Duration { return 0 } })
		time.Sleep(6 * time.Second)
		checkBound(t, c, tb, 5*time.Millisecond)
	})
}

func TestTimebaseViewKnowsNothingAtFirst(t *testing.T) {
	tb := newTestTimebase(t, TimebaseDeps{Source: newRemoteClock()})
	if v, err := tb.View(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestTimebaseKnowsNothingAtFirst(t *testing.T) {
	tb := newTestTimebase(t, TimebaseDeps{})
	var e *Error
	if now, err := tb.AtLeast(); now != NoInstant || !errors.As(err, &e) || e.Kind != ErrUnavailable ||
		e.Code != CodeUnavailable || e.RetryAfter <= 0 {
		t.Errorf("got %s, %v", now, err)
	}
	if got := tb.Until(5); got != 0 {
		t.Errorf("Until is %s", got)
	}
}

func TestTimebaseUntilIsLongEnough(t *testing.T) {
	for _, ppm := range []int64{-500, 0, 500} {
		inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
			c.set(func(c *remoteClock) { c.ppm = ppm })
			time.Sleep(500 * time.Millisecond)
			for _, ahead := range []Instant{1, 2, 10, 499, 1000, 60_000, 3_600_000} {
				synctest.Wait() // lets a sample at this instant end
				now, _ := tb.AtLeast()
				wait := tb.Until(now + ahead)
				if wait <= 0 || wait > time.Duration(ahead+1)*time.Millisecond*1001/1000 {
					t.Errorf("%d ppm: until %d ms ahead: %s", ppm, ahead, wait)
				}
				time.Sleep(wait)
				if then, err := tb.AtLeast(); err != nil || then < now+ahead {
					t.Errorf("%d ppm: awake %s before the instant (%v)", ppm, (now + ahead).Sub(then), err)
				}
			}
			now, _ := tb.AtLeast()
			if got := tb.Until(now); got != 0 {
				t.Errorf("until now: %s", got)
			}
			if got := tb.Until(0); got != 0 {
				t.Errorf("until the epoch: %s", got)
			}
			if got := tb.Until(MaxInstant); got < 100*365*24*time.Hour {
				t.Errorf("until the last instant: %s", got)
			}
		})
	}
}

func TestTimebaseConfigRefusesInvalidValues(t *testing.T) {
	if err := DefaultTimebaseConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, bad := range []TimebaseConfig{
		{}, {Interval: 9 * time.Millisecond, Idle: time.Second, MaxAge: time.Minute},
		{Interval: 61 * time.Second, Idle: time.Hour, MaxAge: 3 * time.Hour},
		{Interval: time.Second, Idle: 999 * time.Millisecond, MaxAge: time.Minute},
		{Interval: 250 * time.Millisecond, Idle: time.Second, MaxAge: 2999 * time.Millisecond},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// slew makes the clock run faster than the local clock by ppm from now on.
func (c *remoteClock) slew(ppm int64) {
	c.set(func(c *remoteClock) {
		passed := time.Since(c.base).Microseconds()
		c.offset += passed + passed*c.ppm/1_000_000
		c.base, c.ppm = time.Now(), ppm
	})
}

// The floor holds also while samples are rare, and is then at most 154 ms behind.
func TestFloorOfAnIdleTimebaseIsNeverAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		rnd := rand.New(rand.NewPCG(1, 0))
		var ahead, behind time.Duration
		time.Sleep(2 * time.Second)
		for range 1500 {
			c.slew([]int64{0, -83_333, -153_846, 83_333}[rnd.IntN(4)])
			time.Sleep(time.Duration(rnd.Int64N(int64(900 * time.Millisecond))))
			floor, err := tb.Floor()
			if err != nil {
				t.Fatal(err)
			}
			off := time.Duration(int64(floor)*1000-c.micros()) * time.Microsecond
			ahead, behind = max(ahead, off), max(behind, -off)
		}
		if ahead > 0 || behind > 300*time.Millisecond { // twice 154 ms, because the clock may also run fast
			t.Errorf("the floor was ahead by up to %s, and behind by up to %s", ahead, behind)
		}
		if n := c.asked.Load(); n > 800 {
			t.Errorf("%d samples in about 675 s: the Timebase was not idle", n)
		}
	})
}

// chrony begins and ends a slew of the database's clock at any moment, at up to its default maximum. The clock never
// falls behind the floor, even if chrony slews the local clock in the opposite direction.
func TestFloorOfASlewedClockIsNeverAhead(t *testing.T) {
	for name, ppm := range map[string]int64{"database": -83_333, "both": -153_846} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rnd := rand.New(rand.NewPCG(seed, 0))
				jitter := rand.New(rand.NewPCG(seed, 1)) // for the goroutine that samples
				trip := func() time.Duration {
					return 100*time.Microsecond + time.Duration(jitter.Int64N(int64(2*time.Millisecond)))
				}
				c.set(func(c *remoteClock) { c.up, c.down = trip, trip })
				tb.FollowClosely(time.Hour)
				time.Sleep(2 * time.Second)
				var ahead, behind time.Duration
				for range 1500 {
					c.slew([]int64{0, ppm, ppm, -ppm}[rnd.IntN(4)])
					time.Sleep(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
					floor, err := tb.Floor()
					if err != nil {
						t.Fatal(err)
					}
					off := time.Duration(int64(floor)*1000-c.micros()) * time.Microsecond
					ahead, behind = max(ahead, off), max(behind, -off)
				}
				if ahead > 0 || behind > 100*time.Millisecond {
					t.Errorf("the floor was ahead by up to %s, and behind by up to %s", ahead, behind)
				}
			})
		})
	}
}

// A slew is not logged as a step. A step is logged once.
func TestOnlyAStepBackIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, c := &strings.Builder{}, newRemoteClock()
		tb := newTestTimebase(t, TimebaseDeps{Source: c, Log: slog.New(slog.NewTextHandler(log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = tb.Run(ctx) })
		time.Sleep(time.Second)
		for range 20 {
			c.slew(-83_333)
			time.Sleep(time.Second)
			c.slew(0)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("slewing is logged:\n%s", log)
		}
		c.set(func(c *remoteClock) { c.offset -= 60_000_000 })
		time.Sleep(1100 * time.Millisecond) // one sample
		stop()
		run.Wait()
		if n := strings.Count(log.String(), "set back"); n != 1 {
			t.Errorf("%d lines of the step in\n%s", n, log)
		}
	})
}

func TestFloorIsUnknownAtFirst(t *testing.T) {
	if now, err := newTestTimebase(t, TimebaseDeps{}).Floor(); now != NoInstant || !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %s, %v", now, err)
	}
}

func TestNewTimebaseRefusesABrokenConfiguration(t *testing.T) {
	_, err := NewTimebase(TimebaseConfig{Interval: time.Hour, Idle: time.Hour}, TimebaseDeps{})
	for _, reason := range []string{"interval must be", "max age must be"} {
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("the error does not name %q: %v", reason, err)
		}
	}
}
