package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	proberConns = 4                     // connections of single sets and cancels beside other work
	proberPause = 20 * time.Millisecond // time between two of their requests
	floodConns  = 512                   // connections over which a flood arrives
	floodTimes  = 2                     // rate of a flood, times the best rate
)

// Targets of a flood of single requests.
const (
	goodputTarget  = 0.9
	floodP99Target = 5000 // milliseconds: a set waits at most 4 s in the queue of writes
	calmP99Target  = 2    // times the p99 before the flood
)

// probed calls do. Meanwhile some connections set and cancel one alarm after the other. It returns how long these
// requests took, and how many of them were refused.
func (r *run) probed(
	ctx context.Context, b *testbed, name string, do func(context.Context) error,
) (took spread, refused int, err error) {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var all []time.Duration
	conns, probing := errgroup.WithContext(probing)
	for i := range proberConns {
		conns.Go(func() error {
			s, dueAt := series(fmt.Sprintf("%s%d", name, i)), farAhead(b.now())
			return r.probe(probing, b.child.url, s, dueAt, func(d time.Duration, ok bool) {
				mu.Lock()
				defer mu.Unlock()
				if all = append(all, d); !ok {
					refused++
				}
			})
		})
	}
	err = do(ctx)
	stop()
	err = errors.Join(err, conns.Wait())
	return spreadOf(all), refused, err
}

// probe sets and cancels one alarm after the other until ctx ends. It calls done with the duration of each request, and
// whether it was accepted.
func (r *run) probe(
	ctx context.Context, base string, s series, dueAt func(n int) int64, done func(d time.Duration, ok bool),
) error {
	c, err := dialHTTP(ctx, base)
	if err != nil {
		return err
	}
	defer c.close()
	for n := 0; ctx.Err() == nil; n++ {
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			begun := time.Now()
			status, err := c.one(method, s, n, dueAt)
			if err != nil {
				return err
			}
			done(time.Since(begun), status < 300)
		}
		_ = sleep(ctx, proberPause)
	}
	return nil
}

// one sets or cancels alarm n and returns the status of the response.
func (c *httpConn) one(method string, s series, n int, dueAt func(n int) int64) (status int, err error) {
	c.head(method, append([]byte{'/'}, s.appendID(nil, n)...))
	if method == http.MethodDelete {
		return c.send(nil, nil)
	}
	return c.send(append(s.appendBody([]byte{'{'}, n, dueAt(n)), '}'), nil)
}

// flood measures the best rate of single sets. Then it sends twice as many for a while, whatever the service responds.
// Afterwards it measures how late alarms ring.
func (r *run) flood(ctx context.Context, b *testbed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	calm := steady{stage: stageOverload, what: "lateness", name: "calm", rate: r.cfg.Rate}
	before, err := r.ringSteadily(ctx, b, &calm)
	if err != nil {
		return err
	}
	step := singleSteps("best", farAhead(b.now()))[0]
	r.progress.say("overload: the best rate of single sets")
	took, best, err := eachRequest(ctx, b.child.url, singleConns, 0, r.cfg.Singles, step.do)
	if err != nil {
		return err
	}
	bestRate := rate(r.cfg.Singles, took)
	r.progress.say("overload: %d times %.0f single sets a second for %s", floodTimes, bestRate, r.cfg.floodFor)
	f, err := sendFlood(ctx, b.child.url, floodTimes*bestRate, r.cfg.floodFor, farAhead(b.now()))
	if err != nil {
		return err
	}
	if err := sleep(ctx, recoveredWithin*time.Second-r.cfg.ahead); err != nil {
		return err
	}
	calm.name = "after"
	after, err := r.ringSteadily(ctx, b, &calm)
	if err != nil {
		return err
	}
	const what = "twice the load"
	accepted := spreadOf(f.took)
	r.add(stageOverload,
		Figure{What: what + ", accepted", Unit: perSecond,
			Value: float64(len(f.took)) / f.lasted.Seconds()}.beside("best rate", bestRate).ratioAtLeast(goodputTarget),
		Figure{What: what + ", refused", Unit: perSecond, Value: float64(f.refused) / f.lasted.Seconds()},
		Figure{What: what + ", not sent, because all connections waited", Unit: perSecond,
			Value: float64(f.unsent) / f.lasted.Seconds()},
		Figure{What: what + ", accepted, p99", Unit: millis, Value: ms(accepted.P99)}.beside("best rate",
			ms(best.P99)).atMost(floodP99Target),
		Figure{What: fmt.Sprintf("lateness %d s after the flood, p99", recoveredWithin), Unit: millis,
			Value: ms(after.P99)}.
			beside("before it", ms(before.P99)).ratioAtMost(calmP99Target),
	)
	return nil
}

// floodResult is the result of a flood.
type floodResult struct {
	took            []time.Duration // of the accepted requests
	refused, unsent int             // unsent: when their time came, all connections waited for responses
	lasted          time.Duration
}

// sendFlood sends single sets at a rate, whether or not the earlier ones have been answered.
func sendFlood(
	ctx context.Context, base string, perSecond float64, lasts time.Duration, dueAt func(n int) int64,
) (f floodResult, err error) {
	const s = series("flood")
	n := int(perSecond * lasts.Seconds())
	arrivals := make(chan int) // unbuffered: an arrival that no connection takes is not sent
	var mu sync.Mutex
	var refused atomic.Int64
	conns, ctx := errgroup.WithContext(ctx)
	for range floodConns {
		conns.Go(func() error {
			c, err := dialHTTP(ctx, base)
			if err != nil {
				return err
			}
			defer c.close()
			var took []time.Duration
			for n := range arrivals {
				sent := time.Now()
				status, err := c.one(http.MethodPut, s, n, dueAt)
				switch {
				case err != nil:
					return err
				case status < 300:
					took = append(took, time.Since(sent))
				default:
					refused.Add(1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			f.took = append(f.took, took...)
			return nil
		})
	}
	begun := time.Now()
	for i := 0; i < n && ctx.Err() == nil; i++ {
		if ahead := time.Until(begun.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))); ahead > time.Millisecond {
			_ = sleep(ctx, ahead)
		}
		select {
		case arrivals <- i:
		default:
			f.unsent++
		}
	}
	f.lasted = time.Since(begun)
	close(arrivals)
	err = conns.Wait()
	f.refused = int(refused.Load())
	return f, err
}
