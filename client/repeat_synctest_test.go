//go:build go1.25

package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/client"
)

// waits returns the waits between the tries of a call that always gets this response.
func waits(t *testing.T, retryAfter string) (waits []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		transport := roundTrips(func(*http.Request) (*http.Response, error) {
			if !last.IsZero() {
				waits = append(waits, time.Since(last))
			}
			last = time.Now()
			return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {retryAfter}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
		c, newErr := client.New("http://clockd", client.WithHTTPClient(&http.Client{Transport: transport}),
			client.WithTries(8))
		if newErr != nil {
			t.Fatal(newErr)
		}
		limited, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		_, err = c.Get(limited, "shop", "x")
	})
	return waits, err
}

func TestWaitsGrowAndFollowRetryAfter(t *testing.T) {
	t.Parallel()
	got, err := waits(t, "")
	refused(t, err, "")
	for i, wait := range got {
		if longest := min(100*time.Millisecond<<i, 5*time.Second); wait > longest || wait < longest/2 {
			t.Errorf("wait %d is %s, the longest is %s", i+1, wait, longest)
		}
	}
	if len(got) != 7 {
		t.Errorf("waited %d times", len(got))
	}
	got, err = waits(t, "30")
	if failed := refused(t, err, ""); failed.RetryAfter != 30*time.Second || len(got) < 2 || len(got) > 3 {
		t.Errorf("%+v after %v: a wait beyond the deadline is not begun", failed, got)
	}
	for _, wait := range got {
		if wait < 30*time.Second || wait > 45*time.Second {
			t.Errorf("waited %s for a Retry-After of 30 s", wait)
		}
	}
	if got, _ = waits(t, "61"); len(got) != 0 {
		t.Errorf("waited %v for a Retry-After of 61 s", got)
	}
}
