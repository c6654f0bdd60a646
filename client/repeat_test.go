package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/faulty"
)

// absolute is a set that may be repeated.
var absolute = client.Set{When: client.At(time.Date(2091, 1, 1, 0, 0, 0, 0, time.UTC))}

func TestCallsAreRepeatedAfterFaultsThatPass(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulty.Fault{
		"connection closed": faulty.Cut, "response lost": faulty.Lose, "response cut": faulty.Half,
		"unavailable": busy("unavailable", "0"), "unconfirmed": busy("unconfirmed", "0"),
		"overloaded":  busy("overloaded", "0"),
		"bad gateway": faulty.Respond(502, "<html>"), "gateway timeout": faulty.Respond(504, ""), "too many": faulty.Respond(429, ""),
		"timeout":     faulty.Respond(408, "{}"),
		"proxy's 503": faulty.Respond(503, "<html>down</html>"),
	} {
		t.Run(name, func(t *testing.T) {
			c, server := dialFaulty(t, times(2, fault))
			a, err := c.Set(t.Context(), applicationOf(t), "x", absolute)
			if err != nil || a.Generation != 1 || tries(server) != 3 {
				t.Fatalf("%+v, %v after %d tries", a, err, tries(server))
			}
			if a, err = c.Cancel(t.Context(), applicationOf(t), "x"); err != nil || a.State != client.Cancelled {
				t.Errorf("cancel: %+v, %v", a, err)
			}
		})
	}
}

func TestFaultsThatStayAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, c2 := range map[string]struct {
		fault  faulty.Fault
		status int
		code   string
		doubt  bool
	}{
		"internal":         {faulty.Respond(500, `{"code":"internal","detail":"x"}`), 500, "internal", true},
		"refused":          {faulty.Respond(409, `{"code":"ring_in_doubt","detail":"x","alarm":{"business_id":"x","state":"ringing"}}`), 409, client.CodeRingInDoubt, false},
		"not found, proxy": {faulty.Respond(404, "<html>"), 404, "", false},
		"redirect":         {faulty.Respond(307, "", "Location", "/elsewhere"), 307, "", false},
		"no JSON":          {faulty.Respond(200, "<html>welcome</html>"), 200, "", true},
		"other JSON":       {faulty.Respond(200, `{"a":1}`), 200, "", true},
		"half an alarm":    {faulty.Respond(200, `{"business_id":"x","state":"rung","ring_at":"no time"}`), 200, "", true},
		"too much":         {faulty.Respond(200, manyBytes), 200, "", true},
		"long wait":        {busy("overloaded", "3600"), 503, client.CodeOverloaded, false},
		"garbage in alarm": {faulty.Respond(412, `{"code":"condition_failed","alarm":17}`), 412, client.CodeConditionFailed,
			false},
		"garbage in header": {faulty.Respond(422, `{"code":"required","field":"delay"}`, "Retry-After", "soon"), 422,
			"required", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, server := dialFaulty(t, times(5, c2.fault))
			_, err := c.Set(t.Context(), applicationOf(t), "x", absolute)
			failed := refused(t, err, c2.code)
			if failed.Status != c2.status || failed.Unconfirmed != c2.doubt || tries(server) != 1 ||
				err.Error() == "" {
				t.Errorf("%+v after %d tries", failed, tries(server))
			}
		})
	}
}

func TestTriesEnd(t *testing.T) {
	t.Parallel()
	c, server := dialFaulty(t, times(9, busy("unavailable", "0")), client.WithTries(3))
	_, err := c.Get(t.Context(), applicationOf(t), "x")
	if failed := refused(t, err, client.CodeUnavailable); tries(server) != 3 || failed.Unconfirmed {
		t.Errorf("%+v after %d tries", failed, tries(server))
	}
}

func TestSetWithDelayIsRepeatedOnlyIfAbsent(t *testing.T) {
	t.Parallel()
	for name, c2 := range map[string]struct {
		set   client.Set
		tries int
	}{
		"delay":         {client.Set{When: client.After(time.Hour)}, 1},
		"delay, later":  {client.Set{When: client.After(time.Hour), If: client.Later}, 1},
		"delay, absent": {client.Set{When: client.After(time.Hour), If: client.Absent}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			app := applicationOf(t)
			for _, f := range []faulty.Fault{faulty.Cut, busy("unavailable", "0")} {
				c, server := dialFaulty(t, times(1, f))
				_, err := c.Set(t.Context(), app, "x", c2.set)
				if (err == nil) != (c2.tries == 2) || tries(server) != c2.tries {
					t.Errorf("set: %v after %d tries", err, tries(server))
				}
				c, server = dialFaulty(t, times(1, f))
				_, err = c.Batch(t.Context(), app,
					[]client.Change{{BusinessID: "y", Set: &absolute}, {BusinessID: "z", Set: &c2.set}})
				if (err == nil) != (c2.tries == 2) || tries(server) != c2.tries {
					t.Errorf("batch: %v after %d tries", err, tries(server))
				}
				if _, err := c.Batch(t.Context(), app, []client.Change{{BusinessID: "x"}, {BusinessID: "y"}, {BusinessID: "z"}}); err != nil {
					t.Fatal(err)
				}
				app += "2" // a cancelled alarm is not absent
			}
		})
	}
}

// A repeat is refused because the first try created the alarm. The caller sees it by Unconfirmed, and has the alarm.
func TestRefusalAfterALostResponseIsMarked(t *testing.T) {
	t.Parallel()
	c, _ := dialFaulty(t, times(1, faulty.Lose))
	_, err := c.Set(t.Context(), applicationOf(t), "x", client.Set{When: client.After(time.Hour), If: client.Absent})
	failed := refused(t, err, client.CodeConditionFailed)
	if !failed.Unconfirmed || failed.Alarm == nil || failed.Alarm.Generation != 1 {
		t.Errorf("%+v", failed)
	}
}

func TestUnreachableServerChangesNothing(t *testing.T) {
	t.Parallel()
	c := dial(t, "http://user:secret@127.0.0.1:1", client.WithTries(2)) // nobody listens
	_, err := c.Set(t.Context(), "shop", "x", absolute)
	failed := refused(t, err, "")
	if failed.Status != 0 || failed.Unconfirmed || !errors.As(err, new(*net.OpError)) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%+v: %v", failed, err)
	}
}

// The first try gets no response until its time is over. The time of the second try is not limited, because a busy
// machine may need longer.
func TestSlowTryIsRepeated(t *testing.T) {
	t.Parallel()
	tries := 0
	network := &http.Transport{}
	t.Cleanup(network.CloseIdleConnections)
	transport := roundTrips(func(r *http.Request) (*http.Response, error) {
		if tries++; tries == 1 {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		r = r.Clone(context.WithoutCancel(r.Context()))
		r.Header.Del("Prefer") // else the service would keep the limit
		return network.RoundTrip(r)
	})
	c := dial(t, serverURL, client.WithTryTimeout(100*time.Millisecond),
		client.WithHTTPClient(&http.Client{Transport: transport}))
	a, err := c.Set(t.Context(), applicationOf(t), "x", absolute)
	if err != nil || a.Generation != 1 || tries != 2 {
		t.Errorf("%+v, %v after %d tries", a, err, tries)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the shop is closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	c, server := dialFaulty(t, []faulty.Fault{func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		cancel(cause)
		faulty.Stall(w, r, next)
	}})
	_, err := c.Set(ctx, applicationOf(t), "x", absolute)
	if failed := refused(t, err, ""); !errors.Is(err, cause) || !failed.Unconfirmed || tries(server) != 1 {
		t.Errorf("%+v after %d tries", failed, tries(server))
	}
}

func TestServiceIsToldAShortDeadline(t *testing.T) {
	t.Parallel()
	var told []string
	note := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		told = append(told, r.Header.Get("Prefer"))
		next.ServeHTTP(w, r)
	}
	c, _ := dialFaulty(t, times(2, note))
	ctx, cancel := context.WithTimeout(t.Context(), 9400*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), ctx} {
		if _, err := c.Set(ctx, applicationOf(t), "x", absolute); err != nil {
			t.Fatal(err)
		}
	}
	if told[0] != "" || !strings.HasPrefix(told[1], "wait=") || told[1] > "wait=8" || len(told[1]) != len("wait=8") {
		t.Errorf("told %q", told)
	}
}

// roundTrips answers requests without a network, so that a test can run in a bubble with its own time.
type roundTrips func(r *http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNewRefusesWrongSettings(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://user:secret@h ost", "http://h?q=1", "http://h#f"} {
		if _, err := client.New(server); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", server, err)
		}
	}
	for name, option := range map[string]client.Option{
		"no tries": client.WithTries(0), "broken token": client.WithToken("a\nb"), "no time": client.WithTryTimeout(0),
		"timeout": client.WithHTTPClient(&http.Client{Timeout: time.Second}),
	} {
		if _, err := client.New("http://h", option); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestServerBehindAPathIsReached(t *testing.T) {
	t.Parallel()
	var path string
	transport := roundTrips(func(r *http.Request) (*http.Response, error) {
		path = r.URL.EscapedPath()
		return &http.Response{StatusCode: 404, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})
	behind := dial(t, "http://proxy/clock%20d/", client.WithHTTPClient(&http.Client{Transport: transport}))
	_, _ = behind.Get(t.Context(), "shop", "..")
	if path != "/clock%20d/v1/applications/shop/alarms/%2E%2E" {
		t.Errorf("asked for %s", path)
	}
}

// A service that stops and starts again on its address is no error for a call that may be repeated.
func TestCallOutlastsARestartOfTheService(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clockd.db")
	url, stop := newService(t, file, "127.0.0.1:0")
	refusals := make(chan struct{}, 12)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			refusals <- struct{}{}
		}
		return conn, err
	}}
	c := dial(t, url, client.WithTries(12), client.WithHTTPClient(&http.Client{Transport: transport}))
	if _, err := c.Set(t.Context(), "shop", "x", absolute); err != nil {
		t.Fatal(err)
	}
	stop()
	type result struct {
		alarm *client.Alarm
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		a, err := c.Set(t.Context(), "shop", "x", absolute)
		ended <- result{a, err}
	}()
	<-refusals
	newService(t, file, strings.TrimPrefix(url, "http://"))
	if r := <-ended; r.err != nil || r.alarm.Generation != 1 {
		t.Errorf("%+v, %v", r.alarm, r.err)
	}
}

// A second reserve takes further rings, so it is sent only if the first one certainly reserved none.
func TestReserveIsNotRepeatedAfterALostResponse(t *testing.T) {
	t.Parallel()
	none := faulty.Respond(200, `{"rings":[]}`)
	for name, c2 := range map[string]struct {
		fault faulty.Fault
		tries int
	}{
		"connection closed": {faulty.Cut, 1}, "response cut": {faulty.Half, 1}, "bad gateway": {faulty.Respond(502, ""), 1},
		"gateway timeout": {faulty.Respond(504, ""), 1},
		"proxy's 503":     {faulty.Respond(503, ""), 1}, "no response": {faulty.Stall, 1},
		"unavailable": {busy("unavailable", "0"), 2}, "overloaded": {busy("overloaded", "0"), 2},
		"too many": {faulty.Respond(429, ""), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []client.Option
			if name == "no response" {
				options = append(options, client.WithTryTimeout(time.Second))
			}
			c, server := dialFaulty(t, []faulty.Fault{c2.fault, none}, options...)
			_, err := c.Reserve(t.Context(), applicationOf(t), 10, 100*time.Millisecond)
			if tries(server) != c2.tries {
				t.Errorf("%d tries, then %v", tries(server), err)
			}
			var failed *client.Error
			if errors.As(err, &failed) != (c2.tries == 1) || failed != nil && !failed.Unconfirmed {
				t.Errorf("got %+v", err)
			}
		})
	}
}

// Without a connection the service has reserved nothing.
func TestReserveIsRepeatedWithoutAConnection(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}}
	c, err := client.New("http://clockd.invalid", client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithTries(2))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Reserve(t.Context(), "shop", 1, time.Second)
	if failed := refused(t, err, ""); failed.Unconfirmed || dials.Load() != 2 {
		t.Errorf("%+v after %d connections", failed, dials.Load())
	}
}
