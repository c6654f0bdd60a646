package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

// LeastBurst is the number of operations that every token may do at once: a whole batch.
const LeastBurst = 1000

// newLimiter returns the limiter of a token, nil for no limit. Its burst is one second of requests, at least
// LeastBurst.
func newLimiter(perSecond int) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(perSecond, LeastBurst))
}

// Spend counts operations of the caller: requests, items of batches. It returns a clock.ErrLimited, and counts none, if
// they are too many. A number above LeastBurst may never be allowed.
func (c *Caller) Spend(operations int) error {
	if c.limiter == nil || operations < 1 {
		return nil
	}
	r := c.limiter.ReserveN(time.Now(), operations)
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	r.Cancel()
	return limited(min(wait, time.Minute), fmt.Sprintf(
		"the token %q may do %g operations a second here; nothing was changed", c.token.Name, float64(c.limiter.Limit())))
}

// limited returns the error of a request that comes too soon.
func limited(wait time.Duration, detail string) error {
	return &clock.Error{Kind: clock.ErrLimited, Code: clock.CodeRateLimited, RetryAfter: wait, Detail: detail}
}

// Wait counts an operation of the caller, and waits until it is allowed or ctx ends.
func (c *Caller) Wait(ctx context.Context) error {
	if c.limiter == nil {
		return nil
	}
	return c.limiter.Wait(ctx)
}

const (
	// failureBurst is the number of failed authentications that an address may have at once, and failureEvery the time
	// after which it may have one more.
	failureBurst = 20
	failureEvery = 3 * time.Second
	// startBurst is the number of sessions that a token or a person may start at once at a node, and startEvery the time
	// after which they may start one more.
	startBurst = 20
	startEvery = 2 * time.Second
	// maxKeys is the most keys of limiters.
	maxKeys = 10_000
)

// limiters count events by key: failed authentications by address, starts of sessions by token or person. Their memory
// is bounded.
type limiters[K comparable] struct {
	every time.Duration
	burst int

	mu    sync.Mutex
	byKey map[K]*rate.Limiter
}

func newLimiters[K comparable](burst int, every time.Duration) *limiters[K] {
	return &limiters[K]{every: every, burst: burst, byKey: map[K]*rate.Limiter{}}
}

// add counts an event. It returns the time to wait if the key has too many, else 0.
func (l *limiters[K]) add(key K) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.byKey[key]
	if limiter == nil {
		l.makeRoom()
		limiter = rate.NewLimiter(rate.Every(l.every), l.burst)
		l.byKey[key] = limiter
	}
	if limiter.Allow() {
		return 0
	}
	return l.every
}

// full reports whether the key has too many events already.
func (l *limiters[K]) full(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.byKey[key]
	return limiter != nil && limiter.Tokens() < 1
}

// makeRoom forgets the keys that have had no event lately. If they are too few, it forgets all of them.
func (l *limiters[K]) makeRoom() {
	if len(l.byKey) < maxKeys {
		return
	}
	for key, limiter := range l.byKey {
		if limiter.Tokens() >= float64(l.burst) {
			delete(l.byKey, key)
		}
	}
	if len(l.byKey) >= maxKeys {
		clear(l.byKey)
	}
}
