package clock

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRetryWaitsGrowUpToTheCap(t *testing.T) {
	fixed := RetryPolicy{Initial: 10 * time.Second, Factor: 1, Cap: time.Minute, Limit: NoLimit}
	for _, c := range []struct {
		p           RetryPolicy
		failed      int
		half, whole time.Duration
	}{
		{DefaultRetryPolicy(), 1, 500 * time.Millisecond, time.Second},
		{DefaultRetryPolicy(), 2, time.Second, 2 * time.Second},
		{DefaultRetryPolicy(), 5, 8 * time.Second, 16 * time.Second},
		{DefaultRetryPolicy(), 6, 15 * time.Second, 30 * time.Second},
		{DefaultRetryPolicy(), 1_000_000, 15 * time.Second, 30 * time.Second},
		{fixed, 1, 5 * time.Second, 10 * time.Second},
		{fixed, 1000, 5 * time.Second, 10 * time.Second},
		{RetryPolicy{Initial: time.Millisecond, Factor: 1, Cap: time.Millisecond}, 3, time.Millisecond,
			time.Millisecond},
		{RetryPolicy{Initial: time.Millisecond, Factor: 1.5, Cap: time.Second}, 2, time.Millisecond, time.Millisecond},
		{RetryPolicy{Initial: time.Millisecond, Factor: 2.5, Cap: time.Second}, 2, 2 * time.Millisecond,
			2 * time.Millisecond},
		{RetryPolicy{Initial: 24 * time.Hour, Factor: 100, Cap: 24 * time.Hour}, 400, 12 * time.Hour, 24 * time.Hour},
	} {
		if got := c.p.Wait(c.failed, 0); got != c.half {
			t.Errorf("%+v after %d: shortest wait %s, want %s", c.p, c.failed, got, c.half)
		}
		if got := c.p.Wait(c.failed, 1); got != c.whole {
			t.Errorf("%+v after %d: longest wait %s, want %s", c.p, c.failed, got, c.whole)
		}
	}
}

func genRetryPolicy(t *rapid.T) RetryPolicy {
	const day = 24 * 60 * 60 * 1000
	initial := rapid.IntRange(1, day).Draw(t, "initial")
	return RetryPolicy{
		Initial: time.Duration(initial) * time.Millisecond,
		Factor:  rapid.Float64Range(1, 100).Draw(t, "factor"),
		Cap:     time.Duration(rapid.IntRange(initial, day).Draw(t, "cap")) * time.Millisecond,
		Limit:   rapid.IntRange(NoLimit, 1_000_000).Draw(t, "limit"),
	}
}

func TestRetryWaitsLieBetweenHalfAndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genRetryPolicy(t)
		failed := rapid.IntRange(1, 2000).Draw(t, "failed")
		whole := float64(p.Initial)
		for i := 1; i < failed && whole < float64(p.Cap); i++ {
			whole *= p.Factor
		}
		whole = min(whole, float64(p.Cap))
		got := p.Wait(failed, rapid.Float64Range(0, 1).Draw(t, "fraction"))
		const rounding = 1e-9
		if f := float64(got); f < whole/2*(1-rounding) || f > whole*(1+rounding) || !wholeMillis(got) || got <= 0 {
			t.Fatalf("%s is not from half of %s to the whole", got, time.Duration(whole))
		}
	})
}

func TestRetriesAreExhaustedBeyondTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit, failed int
		want          bool
	}{{0, 1, true}, {1, 1, false}, {1, 2, true}, {NoLimit, math.MaxInt32, false}} {
		if got := (RetryPolicy{Limit: c.limit}).Exhausted(c.failed); got != c.want {
			t.Errorf("limit %d, %d failed: %v", c.limit, c.failed, got)
		}
	}
}

func TestStoredRetryPolicyIsReadUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genRetryPolicy(t)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRetryPolicy(p.Encode())
		if got != p || err != nil {
			t.Fatalf("%q is read as %+v, %v; was %+v", p.Encode(), got, err, p)
		}
	})
}

func TestRetryPolicyIsStoredAsJSON(t *testing.T) {
	if got := DefaultRetryPolicy().Encode(); got != "" {
		t.Errorf("the default is stored as %q", got)
	}
	for want, p := range map[string]RetryPolicy{
		`{"initial":1500,"factor":1,"cap":60000,"limit":3}`: {Initial: 1500 * time.Millisecond, Factor: 1,
			Cap: time.Minute, Limit: 3},
		`{"initial":1000,"factor":2,"cap":30000,"limit":0}`: {Initial: time.Second, Factor: 2,
			Cap: 30 * time.Second},
		`{"initial":1000,"factor":1.5,"cap":1000,"limit":null}`: {Initial: time.Second, Factor: 1.5, Cap: time.Second,
			Limit: NoLimit},
	} {
		if got := p.Encode(); got != want {
			t.Errorf("%+v is stored as %s, want %s", p, got, want)
		}
	}
}

func TestDecodeRetryPolicyRefusesInvalidPolicies(t *testing.T) {
	for _, bad := range []string{
		"x", "null", "{}", "[]", `{"initial":0,"factor":2,"cap":30000}`, `{"initial":1000,"factor":0,"cap":30000}`,
		`{"initial":9223372036854775807,"factor":2,"cap":9223372036854775807}`, `{"initial":-1,"factor":2,"cap":30000}`,
		`{"initial":1000,"factor":2,"cap":30000,"limit":-2}`,
	} {
		if p, err := DecodeRetryPolicy(bad); err == nil || p != (RetryPolicy{}) {
			t.Errorf("%s is read as %+v, %v", bad, p, err)
		}
	}
}

func FuzzDecodeRetryPolicy(f *testing.F) {
	f.Add("")
	f.Add(`{"initial":1500,"factor":1.5,"cap":60000,"limit":3}`)
	f.Add(`{"initial":1000,"factor":2,"cap":30000,"limit":null}`)
	f.Add(`{"initial":1e3,"factor":1e2}`)
	f.Fuzz(func(t *testing.T, stored string) {
		p, err := DecodeRetryPolicy(stored)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("%q gives an invalid policy: %v", stored, err)
		}
		if again, err := DecodeRetryPolicy(p.Encode()); again != p || err != nil {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
		if w := p.Wait(1, 0); w <= 0 || w > p.Cap {
			t.Fatalf("%+v waits %s", p, w)
		}
	})
}

// invalidField returns the field and the code of an error about invalid input, empty for another error.
func invalidField(err error) (field, code string) {
	var e *Error
	if errors.As(err, &e) && (errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge)) && e.Detail != "" {
		return e.Field, e.Code
	}
	return "", ""
}
