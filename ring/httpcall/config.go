package httpcall

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Config bounds the requests of a target.
type Config struct {
	InFlight        int           // most requests under way at once; half of them are for requests whose reply is overdue; default 1024
	HostConcurrency int           // most requests to one host at once; half of them are for requests whose reply is overdue; default 128
	ConnectTimeout  time.Duration // time to resolve a name, connect and shake hands; default 5s
	Allow           []string      // addresses and hosts that are allowed although they are not public; see NewGuard; default none
	UserAgent       string        // default clockd
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{InFlight: 1024, HostConcurrency: 128, ConnectTimeout: 5 * time.Second, UserAgent: "clockd"}
}

// Validate returns nil for a valid configuration, else all broken rules, joined. kind names the target in them.
func (c Config) Validate(kind string) error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(kind+" "+reason))
		}
	}
	check(c.InFlight >= 4 && c.InFlight <= 1<<16,
		"requests in flight must be from 4 to 65536: requests whose reply is overdue have half of them")
	check(c.HostConcurrency >= 4 && c.HostConcurrency <= c.InFlight,
		"requests to one host must be from 4 to the number in flight: one application has at most a quarter of them")
	check(c.ConnectTimeout >= 100*time.Millisecond && c.ConnectTimeout <= time.Minute,
		"connect timeout must be from 100ms to 1m")
	check(isHeaderValue(c.UserAgent), "user agent must be printable ASCII")
	_, err := NewGuard(c.Allow...)
	return errors.Join(append(errs, err)...)
}

// Deps are the parts that a Target works with.
type Deps struct {
	// Endpoint returns the endpoint of a receiver (clock.ReceiverOf), and false if it has none. It must not block. Any
	// goroutine may call it. The caller calls Target.EndpointsChanged when its results have changed.
	Endpoint func(receiver string) (Endpoint, bool)
	// OwnSender returns the sender of a ring whose alarm brings fields of its endpoint itself. The error says why the
	// settings do not allow it any more, in the same words at each try. It must not block. Any goroutine may call it.
	// Nil: there are no such alarms.
	OwnSender  func(r *clock.Ring) (Sender, error)
	Registerer prometheus.Registerer
	Metrics    MetricNames
	// NewTransport returns a HTTP client that dials with Target.Dial, DialHTTP2 or DialTLS. The first delivery calls
	// it, or a later one.
	NewTransport func() Transport
	// Dial connects to the address of a host, instead of a Guard. Nil: a Guard with Config.Allow.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Transport is a HTTP client, as a http.Transport is.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// Endpoint says where the rings of one receiver go. Values are compared with ==: a changed endpoint is not equal to
// the one before.
type Endpoint interface {
	// NewSender returns the sender of the endpoint. The error says why the endpoint is not valid.
	NewSender() (Sender, error)
}

// Sender makes the requests of one endpoint. Any goroutine may use it.
type Sender interface {
	Address() string        // host and port, as AddressOf returns them
	Concurrency() int       // most requests of the application under way at once
	Timeout() time.Duration // time for the whole request, from its begin to its reply
	// NewExchange returns the exchange of a ring. The error says why the ring cannot be a request.
	NewExchange(r *clock.Ring) (Exchange, error)
}
