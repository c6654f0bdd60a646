package client

import (
	"encoding/json"
	"time"
)

// Retry is the policy for rings that fail: the longest wait is Initial * Factor^(tries-1), at most Cap. Each wait is
// random, from half of the longest wait to the whole. In a Set, a field that is 0 has its default.
type Retry struct {
	Initial time.Duration // default 1 s
	Factor  float64       // default 2; 1: all waits are the same
	Cap     time.Duration // default 30 s
	Limit   *int          // retries until the alarm is dead; nil: until LatestRingAt
}

// retryFields are the members of a policy in JSON.
type retryFields struct {
	Initial *duration `json:"initial,omitempty"`
	Factor  float64   `json:"factor,omitempty"`
	Cap     *duration `json:"cap,omitempty"`
	Limit   *int      `json:"limit"`
}

// MarshalJSON writes the policy without its defaults.
func (r Retry) MarshalJSON() ([]byte, error) {
	return json.Marshal(retryFields{Initial: given(r.Initial), Factor: r.Factor, Cap: given(r.Cap), Limit: r.Limit})
}

// UnmarshalJSON reads the policy of an alarm.
func (r *Retry) UnmarshalJSON(b []byte) error {
	var f struct {
		Initial, Cap duration
		Factor       float64
		Limit        *int
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = Retry{Initial: time.Duration(f.Initial), Factor: f.Factor, Cap: time.Duration(f.Cap), Limit: f.Limit}
	return nil
}
