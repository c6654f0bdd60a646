package webhook

import (
	"context"
	"crypto/x509"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

// Config says how requests are sent.
type Config struct {
	httpcall.Config

	// EnvironmentProxy sends requests through the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name. The proxy then
	// resolves the hosts and decides which addresses are allowed. The guard checks only connections without the proxy
	// (NO_PROXY). Default false.
	EnvironmentProxy bool
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config { return Config{Config: httpcall.DefaultConfig()} }

// Validate returns nil for a valid configuration, else all broken rules, joined.
func (c Config) Validate() error { return c.Config.Validate("webhook") }

// Deps are the parts that a Target works with.
type Deps struct {
	// Endpoints returns the endpoint of a receiver (clock.ReceiverOf), nil if it has none. It must not block. Any
	// goroutine may call it. A changed endpoint is another pointer; the caller then calls Target.EndpointsChanged.
	Endpoints func(receiver string) *Endpoint
	// Own returns the endpoint of a ring whose alarm brings fields of it itself; see httpcall.Deps.OwnSender.
	Own        func(r *clock.Ring) (*Endpoint, error)
	Registerer prometheus.Registerer
	RootCAs    *x509.CertPool // authorities of the receivers' certificates; nil: the system's authorities
	// Dial connects to the address of a receiver or a proxy, instead of a httpcall.Guard. Nil: a guard with
	// Config.Allow for receivers, and any address for the proxy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}
