package grpc

import (
	"context"
	"crypto/x509"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

// Config says how calls are sent.
type Config struct{ httpcall.Config }

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config { return Config{httpcall.DefaultConfig()} }

// Validate returns nil for a valid configuration, else all broken rules, joined.
func (c Config) Validate() error { return c.Config.Validate("grpc") }

// Deps are the parts that a Target works with.
type Deps struct {
	// Methods returns the method of a receiver (clock.ReceiverOf), nil if it has none. It must not block. Any goroutine
	// may call it. A changed method is another pointer; the caller then calls Target.EndpointsChanged.
	Methods func(receiver string) *Method
	// Own returns the method of a ring whose alarm brings fields of it itself; see httpcall.Deps.OwnSender.
	Own        func(r *clock.Ring) (*Method, error)
	Registerer prometheus.Registerer
	RootCAs    *x509.CertPool // authorities of the servers' certificates; nil: the system's authorities
	// Dial connects to the address of a host, instead of a httpcall.Guard. Nil: a guard with Config.Allow.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}
