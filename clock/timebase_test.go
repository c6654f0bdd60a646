package clock

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// remoteClock is a database's clock at the end of a slow line, under synctest's time.
type remoteClock struct {
	mu       sync.Mutex
	base     time.Time
	offset   int64 // µs since the epoch at base
	ppm      int64 // how much faster than the local clock it goes
	up, down func() time.Duration
	err      error
	asked    atomic.Int64
}

func newRemoteClock() *remoteClock {
	none := func() time.Duration { return 0 }
	return &remoteClock{base: time.Now(), offset: 1_900_000_000_000_000, up: none, down: none}
}

// micros is what the database's clock shows now.
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
	if d <= 0 { // a timer that is due at once makes Go 1.26 crash under -race in a bubble (runtime.maybeRunChan)
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inBubble runs f with a Timebase that follows c, which f may change.
func inBubble(t *testing.T, f func(t *testing.T, c *remoteClock, tb *Timebase)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newRemoteClock()
		tb := NewTimebase(DefaultTimebaseConfig(), c, quiet())
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

// checkBound demands that Now is not past the database's clock, and not further behind than most.
func checkBound(t *testing.T, c *remoteClock, tb *Timebase, most time.Duration) {
	t.Helper()
	now, err := tb.Now()
	if err != nil {
		t.Fatalf("Now: %v", err)
	}
	behind := time.Duration(c.micros()-int64(now)*1000) * time.Microsecond
	if behind < 0 || behind > most {
		t.Fatalf("Now is %s behind the database's clock, want from 0 to %s", behind, most)
	}
}

// checkView demands that the database's clock lies where the view says.
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

// The best sample counts, not the newest: jitter does not move Now about.
func TestTimebaseTakesTheBestSample(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		time.Sleep(1500 * time.Millisecond)
		c.set(func(c *remoteClock) { c.down = func() time.Duration { return 200 * time.Millisecond } })
		for range 10 {
			time.Sleep(time.Second)
			checkBound(t, c, tb, 10*time.Millisecond)
		}
		time.Sleep(20 * time.Second) // but it does not count for ever
		checkBound(t, c, tb, 205*time.Millisecond)
		if now, _ := tb.Now(); int64(now)*1000 > c.micros()-199_000 {
			t.Error("the sample of the quick line is still there")
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

func TestTimebaseAgesOutAndRecovers(t *testing.T) {
	down := errors.New("down")
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		time.Sleep(600 * time.Millisecond)
		c.set(func(c *remoteClock) { c.err = down })
		time.Sleep(14 * time.Second)
		checkBound(t, c, tb, 10*time.Millisecond)
		before := c.asked.Load()
		time.Sleep(time.Second) // 15.1 s since the last sample
		if now, err := tb.Now(); !errors.Is(err, ErrUnavailable) || now != NoInstant {
			t.Fatalf("after 15 s without a sample: %s, %v", now, err)
		}
		if tb.Until(MaxInstant) != 0 {
			t.Error("Until knows what Now does not")
		}
		if n := c.asked.Load() - before; n < 8 || n > 12 {
			t.Errorf("the database was asked %d times in a second of failures", n)
		}
		// The server that takes over is a second behind: no sample of the old one may count.
		c.set(func(c *remoteClock) { c.err, c.offset = nil, c.offset-1_000_000 })
		time.Sleep(150 * time.Millisecond)
		checkBound(t, c, tb, 5*time.Millisecond)
	})
}

func TestTimebaseGivesUpOnASampleWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		c.set(func(c *remoteClock) { c.up = func() time.Duration { return time.Hour } })
		time.Sleep(11 * time.Second) // the sample under way, one of 5 s, and the next
		c.set(func(c *remoteClock) { c.up = func() time.Duration { return 0 } })
		time.Sleep(6 * time.Second)
		checkBound(t, c, tb, 5*time.Millisecond)
	})
}

func TestTimebaseViewKnowsNothingAtFirst(t *testing.T) {
	tb := NewTimebase(DefaultTimebaseConfig(), newRemoteClock(), slog.New(slog.DiscardHandler))
	if v, err := tb.View(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestTimebaseKnowsNothingAtFirst(t *testing.T) {
	tb := NewTimebase(DefaultTimebaseConfig(), nil, quiet())
	var e *Error
	if now, err := tb.Now(); now != NoInstant || !errors.As(err, &e) || e.Kind != ErrUnavailable || e.Code != CodeUnavailable || e.RetryAfter <= 0 {
		t.Errorf("got %s, %v", now, err)
	}
	if got := tb.Until(5); got != 0 {
		t.Errorf("Until is %s", got)
	}
}

func TestTimebaseUntil(t *testing.T) {
	for _, ppm := range []int64{-500, 0, 500} {
		inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
			c.set(func(c *remoteClock) { c.ppm = ppm })
			time.Sleep(500 * time.Millisecond)
			for _, ahead := range []Instant{1, 2, 10, 499, 1000, 60_000, 3_600_000} {
				now, _ := tb.Now()
				wait := tb.Until(now + ahead)
				if wait <= 0 || wait > time.Duration(ahead+1)*time.Millisecond*1001/1000 {
					t.Errorf("%d ppm: until %d ms ahead: %s", ppm, ahead, wait)
				}
				time.Sleep(wait)
				if then, err := tb.Now(); err != nil || then < now+ahead {
					t.Errorf("%d ppm: awake %s before the instant (%v)", ppm, (now + ahead).Sub(then), err)
				}
			}
			now, _ := tb.Now()
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

func TestTimebaseConfig(t *testing.T) {
	if err := DefaultTimebaseConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, bad := range []TimebaseConfig{
		{}, {Interval: 9 * time.Millisecond, MaxAge: time.Second}, {Interval: 61 * time.Second, MaxAge: time.Hour},
		{Interval: time.Second, MaxAge: 2999 * time.Millisecond},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
