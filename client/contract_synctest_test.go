//go:build go1.25

package client

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// contractCalls are the calls of which the contract says whether they are repeated.
func contractCalls() map[string]func(ctx context.Context, c *Client) error {
	alarm := func(_ *Alarm, err error) error { return err }
	set := func(s Set) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { return alarm(c.Set(ctx, "shop", "x", s)) }
	}
	batch := func(w When) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			_, err := c.Batch(ctx, "shop", []Change{{BusinessID: "x", Set: &Set{When: w}}})
			return err
		}
	}
	answer := func(k AnswerKind) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			return alarm(c.Answer(ctx, "shop", "1.1.1", Answer{Kind: k}))
		}
	}
	return map[string]func(ctx context.Context, c *Client) error{
		"get":    func(ctx context.Context, c *Client) error { return alarm(c.Get(ctx, "shop", "x")) },
		"cancel": func(ctx context.Context, c *Client) error { return alarm(c.Cancel(ctx, "shop", "x")) },
		"list": func(ctx context.Context, c *Client) error {
			for _, err := range c.List(ctx, "shop", Filter{}) {
				return err
			}
			return nil
		},
		"ack": answer(Acked), "release": answer(Released), "bury": answer(Buried), "touch": answer(Touched),
		"set with ring_at": set(Set{When: At(time.Now())}), "set with delay": set(Set{When: After(0)}),
		"set with delay, absent": set(Set{When: After(0), If: Absent}),
		"batch with ring_at":     batch(At(time.Now())), "batch with a delay": batch(After(0)),
		"reserve": func(ctx context.Context, c *Client) error {
			_, err := c.Reserve(ctx, "shop", 1, 0)
			return err
		},
	}
}

func TestContractOfRepeats(t *testing.T) {
	t.Parallel()
	repeats := readContract[map[string]string](t, "repeats")
	calls := contractCalls()
	if want := slices.Sorted(maps.Keys(repeats)); !slices.Equal(slices.Sorted(maps.Keys(calls)), want) {
		t.Fatalf("the calls are not %v", want)
	}
	failures := readContract[[]contractFailure](t, "failures")
	synctest.Test(t, func(t *testing.T) {
		for name, call := range calls {
			for _, f := range failures {
				tries := 0
				c := played(t, func(*http.Request) (*http.Response, error) {
					tries++
					return f.play()
				})
				if err := call(t.Context(), c); err == nil {
					t.Errorf("%s, %s: no error", name, f.Name)
				}
				want := 1
				if f.Again && (repeats[name] == "always" || repeats[name] == "unsent" && !f.Sent) {
					want = c.tries
				}
				if tries != want {
					t.Errorf("%s, %s: %d tries, want %d", name, f.Name, tries, want)
				}
			}
		}
	})
}

func TestContractOfWebhooks(t *testing.T) {
	t.Parallel()
	c := readContract[struct {
		Published string
		Secrets   []struct {
			Secrets []string
			Valid   bool
		}
		Requests []struct {
			Name, Want       string
			NowS             int64 `json:"now_s"`
			ToleranceS       int   `json:"tolerance_s"`
			Secrets          []string
			Headers, Changed map[string]string
			Body             *string
		}
		Headers map[string]string
		Body    string
	}](t, "webhooks")
	for _, s := range c.Secrets {
		if _, err := NewVerifier(s.Secrets...); (err == nil) != s.Valid {
			t.Errorf("%v: %v", s.Secrets, err)
		}
	}
	faults := map[string]error{"valid": nil, "headers": ErrWebhookHeaders, "time": ErrWebhookTime, "signature": ErrWebhookSignature}
	for _, r := range c.Requests {
		secrets, headers, body := r.Secrets, r.Headers, c.Body
		if secrets == nil {
			secrets = []string{c.Published}
		}
		if headers == nil {
			headers = maps.Clone(c.Headers)
			maps.Copy(headers, r.Changed)
		}
		if r.Body != nil {
			body = *r.Body
		}
		header := http.Header{}
		for name, value := range headers {
			header.Set(name, value)
		}
		v, err := NewVerifier(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		if r.ToleranceS != 0 {
			v = v.WithTolerance(time.Duration(r.ToleranceS) * time.Second)
		}
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Unix(r.NowS, 0)))
			if err := v.Verify(header, []byte(body)); !errors.Is(err, faults[r.Want]) || (err == nil) != (r.Want == "valid") {
				t.Errorf("%s: %v, want %s", r.Name, err, r.Want)
			}
		})
	}
}
