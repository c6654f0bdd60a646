package clock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// RetryPolicy says when a try that failed is repeated. Doubtful tries do not count and do not wait by it.
type RetryPolicy struct {
	Initial time.Duration // the first wait
	Factor  float64       // each wait is that many times the one before; 1: fixed
	Cap     time.Duration // the longest wait
	Limit   int           // retries before the alarm is dead; NoLimit: until latest_ring_at
}

// NoLimit as a RetryPolicy's Limit: tried again until latest_ring_at, for ever where there is none.
const NoLimit = -1

// DefaultRetryPolicy waits 1 s, 2 s, 4 s ... up to 30 s, without limit.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Initial: time.Second, Factor: 2, Cap: 30 * time.Second, Limit: NoLimit}
}

// Wait returns how long to wait after failed tries, the last one included (so at least 1): initial * factor^(failed-1),
// at most cap, of which fraction (0 to 1) decides between half and the whole, in whole milliseconds.
func (p RetryPolicy) Wait(failed int, fraction float64) time.Duration {
	whole := min(float64(p.Initial)*math.Pow(p.Factor, float64(failed-1)), float64(p.Cap)) / float64(time.Millisecond)
	drawn := math.Ceil(whole * (0.5 + fraction/2)) // up, or 1 ms would become no wait at all
	return time.Duration(min(drawn, math.Floor(whole))) * time.Millisecond
}

// draw returns Wait with a random fraction, so that what failed together does not come back together.
func (p RetryPolicy) draw(failed int) time.Duration { return p.Wait(failed, rand.Float64()) }

// Exhausted reports whether failed tries, the last one included, are more than the policy repeats.
func (p RetryPolicy) Exhausted(failed int) bool { return p.Limit != NoLimit && failed > p.Limit }

// Validate returns an ErrInvalid *Error with the field, or nil.
func (p RetryPolicy) Validate() error {
	switch {
	case p.Initial < time.Millisecond || p.Initial > maxRetryWait || !wholeMillis(p.Initial):
		return invalid(CodeOutOfRange, "retry.initial", "retry.initial must be from 1ms to 24h, in whole milliseconds")
	case p.Cap < p.Initial || p.Cap > maxRetryWait || !wholeMillis(p.Cap):
		return invalid(CodeOutOfRange, "retry.cap", "retry.cap must be from retry.initial to 24h, in whole milliseconds")
	case math.IsNaN(p.Factor) || p.Factor < 1 || p.Factor > 100:
		return invalid(CodeOutOfRange, "retry.factor", "retry.factor must be from 1 to 100")
	case p.Limit < NoLimit || p.Limit > maxRetryLimit:
		return invalid(CodeOutOfRange, "retry.limit", fmt.Sprintf("retry.limit must be null or from 0 to %d", maxRetryLimit))
	}
	return nil
}

// wholeMillis: what is stored in milliseconds must not come back changed, or a repeated set would not be the same.
func wholeMillis(d time.Duration) bool { return d%time.Millisecond == 0 }

const (
	maxRetryWait  = 24 * time.Hour
	maxRetryLimit = 1_000_000
)

// storedRetryPolicy is a policy as the column retry_policy keeps it.
type storedRetryPolicy struct {
	Initial int64   `json:"initial"` // ms
	Factor  float64 `json:"factor"`
	Cap     int64   `json:"cap"` // ms
	Limit   *int    `json:"limit"`
}

// Encode returns the policy as it is stored: JSON with waits in milliseconds, empty for the default.
func (p RetryPolicy) Encode() string {
	if p == DefaultRetryPolicy() {
		return ""
	}
	s := storedRetryPolicy{Initial: p.Initial.Milliseconds(), Factor: p.Factor, Cap: p.Cap.Milliseconds()}
	if p.Limit != NoLimit {
		s.Limit = &p.Limit
	}
	b, err := json.Marshal(s)
	if err != nil { // a NaN, which Validate refuses
		panic("clock: encode an invalid retry policy: " + err.Error())
	}
	return string(b)
}

// DecodeRetryPolicy reads what Encode wrote of a valid policy. An error means that the column was changed by other hands.
func DecodeRetryPolicy(stored string) (RetryPolicy, error) {
	if stored == "" {
		return DefaultRetryPolicy(), nil
	}
	var s storedRetryPolicy
	if err := json.Unmarshal([]byte(stored), &s); err != nil {
		return RetryPolicy{}, fmt.Errorf("decode retry policy %q: %w", stored, err)
	}
	initial, err1 := durationOf(s.Initial)
	longest, err2 := durationOf(s.Cap)
	p := RetryPolicy{Initial: initial, Factor: s.Factor, Cap: longest, Limit: NoLimit}
	if s.Limit != nil {
		p.Limit = *s.Limit
	}
	if err := cmp.Or(err1, err2, p.Validate()); err != nil {
		return RetryPolicy{}, fmt.Errorf("decode retry policy %q: %w", stored, err)
	}
	return p, nil
}
