package clock

import (
	"math/rand/v2"
	"time"
)

// Backoff is the rule for waits between failures in a row of one background task. Retries of rings have a RetryPolicy.
type Backoff struct {
	First time.Duration // longest wait after the first failure
	Last  time.Duration // longest wait of all
}

// Wait returns a wait after a failure. failures counts the failures in a row before it. The longest wait doubles with
// each of them, up to Last. The wait is drawn from half of that to the whole, so that tasks which failed together do
// not return together.
func (b Backoff) Wait(failures int) time.Duration {
	longest := min(b.Last, b.First<<min(failures, 20))
	return longest/2 + rand.N(longest/2+1)
}
