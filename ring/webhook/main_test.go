package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Secrets of 24 and 32 bytes.
const (
	oldSecret Secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	newSecret Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
)

// directory is the Endpoints of a Target.
type directory struct {
	mu        sync.Mutex
	endpoints map[string]*Endpoint
}

func (d *directory) get(application string) *Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endpoints[application]
}

func (d *directory) set(application string, e *Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endpoints == nil {
		d.endpoints = map[string]*Endpoint{}
	}
	d.endpoints[application] = e
}

// bench is a Target with its endpoints.
type bench struct {
	*Target

	t         *testing.T
	endpoints directory
}

// openTarget returns a target that may connect to this host, and that has much patience.
func openTarget(t *testing.T, change ...func(*Config, *Deps)) *bench {
	t.Helper()
	b := &bench{t: t}
	cfg, deps := DefaultConfig(), Deps{Endpoints: b.endpoints.get, Own: b.own, Registerer: prometheus.NewRegistry()}
	cfg.Allow = []string{"127.0.0.0/8", "::1"}
	for _, c := range change {
		c(&cfg, &deps)
	}
	var err error
	if b.Target, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	b.SetPatience(time.Minute, time.Minute) // a slow machine changes no outcome
	t.Cleanup(b.Close)
	return b
}

// own returns the endpoint of another application for a ring, as targettest demands.
func (b *bench) own(r *clock.Ring) (*Endpoint, error) {
	if r.Own.Fields == targettest.Withdrawn {
		return nil, targettest.ErrWithdrawn
	}
	return b.endpoints.get(r.Own.Fields), nil
}

// serve starts a server for an application's rings.
func (b *bench) serve(application string, handle http.HandlerFunc, change ...func(*Endpoint)) *httptest.Server {
	b.t.Helper()
	server := httptest.NewServer(handle)
	b.t.Cleanup(func() {
		b.Close() // a server waits for the requests under way
		server.Close()
	})
	b.point(application, server.URL, change...)
	return server
}

// point gives an application an endpoint.
func (b *bench) point(application, address string, change ...func(*Endpoint)) {
	b.t.Helper()
	e := NewEndpoint(address, newSecret)
	for _, c := range change {
		c(e)
	}
	if err := Part.Validate(e); err != nil {
		b.t.Fatal(err)
	}
	b.endpoints.set(application, e)
}

// deliver delivers rings in a round of the quarantine, and waits for late replies.
func (b *bench) deliver(rings ...clock.Ring) []clock.Outcome {
	b.t.Helper()
	return b.deliverWith(ampleLimits(), rings...)
}

func (b *bench) deliverWith(limits ring.Limits, rings ...clock.Ring) []clock.Outcome {
	b.t.Helper()
	var late ring.LateRings
	limits.Await = func(l ring.LateRings) { late = l }
	outcomes := b.Lane(1).Deliver(b.t.Context(), rings, limits)
	if late == nil {
		return outcomes
	}
	return awaitAll(b.t, late)
}

// awaitAll waits until no outcome is Awaited.
func awaitAll(t *testing.T, late ring.LateRings) []clock.Outcome {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		outcomes := late.Outcomes()
		if count(outcomes)[clock.Awaited] == 0 {
			return outcomes
		}
		<-time.After(2 * time.Millisecond)
	}
	t.Fatalf("rings are still awaited: %v", count(late.Outcomes()))
	return nil
}

func ampleLimits() ring.Limits {
	return ring.Limits{WriteBy: time.Now().Add(20 * time.Second), ReplyBy: time.Now().Add(25 * time.Second)}
}

func rings(application string, n int) []clock.Ring {
	all := make([]clock.Ring, n)
	for i := range all {
		all[i] = clock.Ring{
			AlarmID: int64(i + 1), Key: clock.Key{Application: application, BusinessID: fmt.Sprint("b", i)},
			Generation: 1, RingNo: 1,
			RingAt: 1_700_000_000_000, RungAt: clock.Instant(time.Now().UnixMilli()), ClaimID: "claim",
			Payload:     []byte(`{"n":1}`),
			PayloadKind: clock.JSON, ContentType: "application/json",
		}
	}
	return all
}

func count(outcomes []clock.Outcome) map[clock.OutcomeKind]int {
	counts := map[clock.OutcomeKind]int{}
	for _, o := range outcomes {
		counts[o.Kind]++
	}
	return counts
}

func wantKinds(t *testing.T, outcomes []clock.Outcome, want clock.OutcomeKind) {
	t.Helper()
	if counts := count(outcomes); counts[want] != len(outcomes) {
		t.Errorf("outcomes %v, want only %s; the first is %+v", counts, want, outcomes[0])
	}
}

// dialTo returns a Dial that connects to a server, whatever the address is.
func dialTo(server *httptest.Server) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) {
		d.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
	}
}
