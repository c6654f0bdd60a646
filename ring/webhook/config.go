package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Config says how requests are sent.
type Config struct {
	InFlight        int           // most requests under way at once, also requests whose reply is late; default 512
	HostConcurrency int           // most requests and connections to one host at once; default 64
	ConnectTimeout  time.Duration // time to resolve a name, connect and shake hands; default 5s
	Allow           []string      // addresses and hosts that are allowed although they are not public; see NewGuard; default none
	// EnvironmentProxy sends requests through the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name. The proxy then resolves the hosts, and
	// the guard checks only the proxy's own address. Default false.
	EnvironmentProxy bool
	UserAgent        string // default clockd
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{InFlight: 512, HostConcurrency: 64, ConnectTimeout: 5 * time.Second, UserAgent: "clockd"}
}

// Validate returns nil for a valid configuration, else all broken rules, joined.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(c.InFlight >= 4 && c.InFlight <= 1<<16, "webhook requests in flight must be from 4 to 65536: slow applications have half of them")
	check(c.HostConcurrency >= 2 && c.HostConcurrency <= c.InFlight, "webhook requests to one host must be from 2 to the number in flight: one application has at most half of them")
	check(c.ConnectTimeout >= 100*time.Millisecond && c.ConnectTimeout <= time.Minute, "the webhook connect timeout must be from 100ms to 1m")
	check(clock.IsHeaderValue(c.UserAgent), "the webhook user agent must be printable ASCII")
	_, err := NewGuard(c.Allow...)
	return errors.Join(append(errs, err)...)
}

// Deps are the parts that a Target works with.
type Deps struct {
	// Endpoints returns the endpoint of an application, and false if the application has none. It must not block. Any goroutine may call it. A
	// changed endpoint is another pointer; the caller then calls Target.EndpointsChanged.
	Endpoints  func(application string) (*clock.Webhook, bool)
	Registerer prometheus.Registerer
	RootCAs    *x509.CertPool // authorities of the receivers' certificates; nil: the system's authorities
	// Dial connects to the address of a host, instead of a Guard. Nil: a Guard with Config.Allow.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}
