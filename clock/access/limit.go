package access

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

// LeastBurst is the number of operations that every token may do at once: a whole batch.
const LeastBurst = 1000

// newLimiter returns the limiter of a token, nil for no limit. Its burst is what it may do in a second, at least
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
	return &clock.Error{
		Kind: clock.ErrLimited, Code: clock.CodeRateLimited, RetryAfter: min(wait, time.Minute),
		Detail: fmt.Sprintf("the token %q may do %g operations a second here; nothing was changed", c.token.Name,
			float64(c.limiter.Limit())),
	}
}

// Wait counts an operation of the caller, and waits until it is allowed or ctx ends.
func (c *Caller) Wait(ctx context.Context) error {
	if c.limiter == nil {
		return nil
	}
	return c.limiter.Wait(ctx)
}

const (
	// startBurst is the number of sessions that may start at once at a node, for a token or for all people of a
	// provider, and startEvery the time after which one more may.
	startBurst = 20
	startEvery = 2 * time.Second
)

// newStarts returns the limiter of sessions.
func newStarts() *rate.Limiter { return rate.NewLimiter(rate.Every(startEvery), startBurst) }

const (
	// failureBurst is the number of failed authentications that an address may have at once.
	failureBurst = 20
	// failureEvery is the time after which it may have one more.
	failureEvery = 3 * time.Second
	// maxAddresses is the most addresses whose failures are counted.
	maxAddresses = 10_000
)

// failures counts failed authentications by address.
type failures struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]*rate.Limiter
}

func newFailures() *failures { return &failures{byAddress: map[netip.Addr]*rate.Limiter{}} }

// add counts a failed authentication. It returns the time to wait if the address has too many, else 0.
func (f *failures) add(address netip.Addr) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	limiter := f.byAddress[address]
	if limiter == nil {
		f.makeRoom()
		limiter = rate.NewLimiter(rate.Every(failureEvery), failureBurst)
		f.byAddress[address] = limiter
	}
	if limiter.Allow() {
		return 0
	}
	return failureEvery
}

// full reports whether the address has too many failures already.
func (f *failures) full(address netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	limiter := f.byAddress[address]
	return limiter != nil && limiter.Tokens() < 1
}

// makeRoom forgets the addresses that have had no failure lately. If they are too few, it forgets all of them.
func (f *failures) makeRoom() {
	if len(f.byAddress) < maxAddresses {
		return
	}
	for address, limiter := range f.byAddress {
		if limiter.Tokens() >= failureBurst {
			delete(f.byAddress, address)
		}
	}
	if len(f.byAddress) >= maxAddresses {
		clear(f.byAddress)
	}
}
