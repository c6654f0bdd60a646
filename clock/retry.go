package clock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// RetryPolicy decides when a failed try is repeated. A try with an unknown outcome is not counted, and its repeat does
// not wait.
type RetryPolicy struct {
	Initial time.Duration // first wait
	Factor  float64       // ratio of each wait to the wait before; 1: all waits are equal
	Cap     time.Duration // longest wait
	Limit   int           // retries before the alarm is dead; NoLimit: retries until latest_ring_at
}

// NoLimit is the Limit of a RetryPolicy that tries again until latest_ring_at, or for ever if the alarm has none.
const NoLimit = -1

// DefaultRetryPolicy waits 1 s, 2 s, 4 s ... up to 30 s, without limit.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Initial: time.Second, Factor: 2, Cap: 30 * time.Second, Limit: NoLimit}
}

// Wait returns the wait after the given number of failed tries, at least 1, in whole milliseconds. The whole wait is
// initial * factor^(failed-1), at most cap. fraction, from 0 to 1, selects a wait between half of it and the whole.
func (p RetryPolicy) Wait(failed int, fraction float64) time.Duration {
	whole := min(float64(p.Initial)*math.Pow(p.Factor, float64(failed-1)), float64(p.Cap)) / float64(time.Millisecond)
	drawn := math.Ceil(whole * (0.5 + fraction/2)) // rounded up: otherwise 1 ms could become no wait at all
	return time.Duration(min(drawn, math.Floor(whole))) * time.Millisecond
}

// Exhausted reports whether the policy allows no retry after the given number of failed tries.
func (p RetryPolicy) Exhausted(failed int) bool { return p.Limit != NoLimit && failed > p.Limit }

// Validate returns an *Error of kind ErrInvalid that names the field, or nil.
func (p RetryPolicy) Validate() error {
	switch {
	case p.Initial < time.Millisecond || p.Initial > maxRetryWait || !wholeMillis(p.Initial):
		return invalid(CodeOutOfRange, "retry.initial", "retry.initial must be from 1ms to 24h, in whole milliseconds")
	case p.Cap < p.Initial || p.Cap > maxRetryWait || !wholeMillis(p.Cap):
		return invalid(CodeOutOfRange, "retry.cap",
			"retry.cap must be from retry.initial to 24h, in whole milliseconds")
	case math.IsNaN(p.Factor) || p.Factor < 1 || p.Factor > 100:
		return invalid(CodeOutOfRange, "retry.factor", "retry.factor must be from 1 to 100")
	case p.Limit < NoLimit || p.Limit > maxRetryLimit:
		return invalid(CodeOutOfRange, "retry.limit",
			fmt.Sprintf("retry.limit must be null or from 0 to %d", maxRetryLimit))
	}
	return nil
}

// CheckDefaultCap refuses an initial wait that is longer than the default cap. given says whether the request has a cap
// of its own, which Validate checks.
func (p RetryPolicy) CheckDefaultCap(given bool) error {
	if given || p.Initial <= p.Cap {
		return nil
	}
	return invalid(CodeOutOfRange, "retry.cap",
		fmt.Sprintf("retry.initial is longer than retry.cap, whose default is %s: give retry.cap too", p.Cap))
}

// wholeMillis reports whether a column in milliseconds stores d exactly. A rounded duration would make a repeated set
// differ.
func wholeMillis(d time.Duration) bool { return d%time.Millisecond == 0 }

const (
	maxRetryWait  = 24 * time.Hour
	maxRetryLimit = 1_000_000
)

// storedRetryPolicy is the JSON of the column retry_policy.
type storedRetryPolicy struct {
	Initial int64   `json:"initial"` // ms
	Factor  float64 `json:"factor"`
	Cap     int64   `json:"cap"` // ms
	Limit   *int    `json:"limit"`
}

// Encode returns the policy for the column retry_policy: JSON with waits in milliseconds, empty for the default policy.
func (p RetryPolicy) Encode() string {
	if p == DefaultRetryPolicy() {
		return ""
	}
	s := storedRetryPolicy{Initial: p.Initial.Milliseconds(), Factor: p.Factor, Cap: p.Cap.Milliseconds()}
	if limit := p.Limit; limit != NoLimit { // a copy, so that only this branch allocates
		s.Limit = &limit
	}
	b, err := json.Marshal(s)
	if err != nil { // Factor is NaN, which Validate refuses
		panic("clock: encode an invalid retry policy: " + err.Error())
	}
	return string(b)
}

// DecodeRetryPolicy reads a policy that Encode wrote. An error means that another program has changed the column.
func DecodeRetryPolicy(stored string) (RetryPolicy, error) {
	if stored == "" {
		return DefaultRetryPolicy(), nil
	}
	var s storedRetryPolicy
	if err := json.Unmarshal([]byte(stored), &s); err != nil {
		return RetryPolicy{}, fmt.Errorf("decode retry policy %q: %w", stored, err)
	}
	initial, err1 := DurationOfMillis(s.Initial)
	longest, err2 := DurationOfMillis(s.Cap)
	p := RetryPolicy{Initial: initial, Factor: s.Factor, Cap: longest, Limit: NoLimit}
	if s.Limit != nil {
		p.Limit = *s.Limit
	}
	if err := cmp.Or(err1, err2, p.Validate()); err != nil {
		return RetryPolicy{}, fmt.Errorf("decode retry policy %q: %w", stored, err)
	}
	return p, nil
}
