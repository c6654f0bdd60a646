//go:build go1.25

package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/client"
)

// pipedStream is the client of a service that a test plays in a bubble: it writes the events of each stream, and sees
// the answers.
func pipedStream(
	t *testing.T, stream func(ctx context.Context, n int, w io.Writer), answer func(n int) int,
) *client.Client {
	t.Helper()
	var streams, answers int
	c, err := client.New("http://service", client.WithHTTPClient(&http.Client{Transport: roundTrips(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			answers++
			status := answer(answers)
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"business_id":"x","state":"rung"}`))}, nil
		}
		streams++
		read, write := io.Pipe()
		go func(n int) {
			stream(r.Context(), n, write)
			_ = write.Close()
		}(streams)
		context.AfterFunc(r.Context(), func() { _ = read.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Body: read}, nil
	})}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ringEvent(id string) string {
	return "event: ring\nid: " + id + "\ndata: {\"message_id\":\"" + id + "\",\"business_id\":\"x\",\"ack_timeout\":\"1m\"}\n\n"
}

func TestConsumerLeavesASilentStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var begins []time.Time
		c := pipedStream(t, func(ctx context.Context, n int, w io.Writer) {
			begins = append(begins, time.Now())
			switch n {
			case 1:
				time.Sleep(49 * time.Second)
				_, _ = io.WriteString(w, ": clockd\n\n") // a comment is a sign of life
				<-ctx.Done()
			case 2: // handlers that are slow are no silence
				_, _ = io.WriteString(w, ringEvent("1.1.1")+ringEvent("2.1.1")+ringEvent("3.1.1")+ringEvent("4.1.1"))
				_, _ = io.WriteString(w, ringEvent("5.1.1")) // read when the handlers have made room
			default:
				cancel()
			}
		}, func(int) int { return 200 })
		handled := 0
		err := c.Consume(ctx, "shop", client.Consumer{ReadAhead: 1, Drain: time.Hour, Handle: func(context.Context, *client.Ring) client.Answer {
			handled++
			time.Sleep(5 * time.Minute)
			return client.Answer{Kind: client.Acked}
		}})
		if err != nil || handled != 5 || len(begins) != 3 {
			t.Fatalf("%v after %d rings and %d streams", err, handled, len(begins))
		}
		if first := begins[1].Sub(begins[0]); first < 99*time.Second || first > 100*time.Second {
			t.Errorf("the silent stream was left after %s", first)
		}
		if second := begins[2].Sub(begins[1]); second < 10*time.Minute {
			t.Errorf("the stream of the slow handler was left after %s", second)
		}
	})
}

func TestCopyRepeatsOnlyAnAnswerThatWasNotAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var faults []error
		posts := 0
		c := pipedStream(t, func(ctx context.Context, n int, w io.Writer) {
			if n > 1 {
				<-ctx.Done()
				return
			}
			for range 4 {
				_, _ = io.WriteString(w, ringEvent("1.1.1"))
				time.Sleep(30 * time.Second)
			}
			cancel()
			<-ctx.Done()
		}, func(n int) int {
			if posts = n; n <= 5 { // all tries of the first answer
				return 503
			}
			return 200
		})
		handled := 0
		err := c.Consume(ctx, "shop", client.Consumer{
			Failed: func(err error) { faults = append(faults, err) },
			Handle: func(context.Context, *client.Ring) client.Answer {
				handled++
				return client.Answer{Kind: client.Acked}
			},
		})
		if err != nil || handled != 1 || posts != 6 || len(faults) != 1 {
			t.Errorf("%v: handled %d times, %d answers, faults %v", err, handled, posts, faults)
		}
	})
}

func TestConsumerDrainsWhatItHasRead(t *testing.T) {
	t.Parallel()
	for drain, want := range map[time.Duration]struct{ handled, answers int }{
		time.Minute:      {5, 5},
		35 * time.Second: {4, 3}, // the fourth handler ends with its context
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			answers := 0
			c := pipedStream(t, func(ctx context.Context, _ int, w io.Writer) {
				for i := range 5 {
					_, _ = io.WriteString(w, ringEvent(fmt.Sprintf("%d.1.1", i)))
				}
				_, _ = io.WriteString(w, ":\n\n")
				cancel()
				<-ctx.Done()
			}, func(n int) int { answers = n; return 200 })
			handled := 0
			err := c.Consume(ctx, "shop", client.Consumer{Drain: drain, Handle: func(ctx context.Context, _ *client.Ring) client.Answer {
				handled++
				select {
				case <-time.After(10 * time.Second):
					return client.Answer{Kind: client.Acked}
				case <-ctx.Done():
					return client.Answer{}
				}
			}})
			if handled != want.handled || answers != want.answers || (err == nil) != (want.handled == 5) {
				t.Errorf("drain %s: %v, %d handled, %d answered", drain, err, handled, answers)
			}
		})
	}
}
