package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Limits that the contract names.
const (
	BatchBytes = 8 << 20   // bytes of a JSON batch
	BatchItems = 1000      // items of a JSON batch, sets and cancels together
	LineBytes  = 128 << 10 // bytes of an NDJSON line, without its line break
)

// Config holds the address, the timeouts and the limits of the server.
type Config struct {
	Listen   string   // address to listen on; default 127.0.0.1:8080
	Hosts    []string // names of this server, besides IP addresses and loopback names; without port
	Exchange string   // RabbitMQ exchange that an error names when Deps.Streams is nil; default "clock"

	ReadHeaderTimeout time.Duration // longest time for a request's head; default 10s
	ReadTimeout       time.Duration // longest time for one read of a body; default 30s
	BodyTimeout       time.Duration // longest time for a whole body or a whole response, streams excepted; default 60s
	BodyGrace         time.Duration // time before a whole body must arrive at BodyRate; default 10s
	WriteTimeout      time.Duration // longest time for one write of a response; default 30s
	IdleTimeout       time.Duration // longest time of a connection between two requests; default 2m
	DrainTimeout      time.Duration // time for running requests after Run's context ends; default 5s, because rings need the rest of a stop
	DrainBody         time.Duration // time for unfinished bodies after Run's context ends; default 1s
	Heartbeat         time.Duration // time between two comments on a silent rings stream; default 15s

	MaxHeaderBytes int   // bytes of a request's head; default 8 KiB
	BodyBytes      int64 // bytes of all bodies and windows held at once; beyond them requests get 503; default 128 MiB
	BodyRate       int   // bytes a second at which a whole body must arrive; default 16 KiB
	ResponseBytes  int64 // bytes of all responses that wait for their clients; beyond them reads get 503; default 32 MiB

	Connections           int // open connections; further connections are refused; default 4096
	ConnectionsPerAddress int // open connections of one remote address; 0: no limit; default 2048

	WindowOps   int // lines of one stream that may wait for their results; default 2048
	WindowBytes int // bytes of these lines; default 2 MiB
}

// DefaultConfig returns the default that the comment of each field names.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080", Exchange: "clock",
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, BodyTimeout: time.Minute,
		BodyGrace:    10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, DrainTimeout: 5 * time.Second,
		DrainBody: time.Second,
		Heartbeat: 15 * time.Second, MaxHeaderBytes: 8 << 10,
		BodyBytes: 128 << 20, BodyRate: 16 << 10, ResponseBytes: 32 << 20, Connections: 4096,
		ConnectionsPerAddress: 2048,
		WindowOps:             2048, WindowBytes: 2 << 20,
	}
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"read header timeout", c.ReadHeaderTimeout},
		{"read timeout", c.ReadTimeout},
		{"body timeout", c.BodyTimeout},
		{"body grace", c.BodyGrace},
		{"write timeout", c.WriteTimeout},
		{"idle timeout", c.IdleTimeout},
		{"drain timeout", c.DrainTimeout},
		{"drain body", c.DrainBody},
		{"heartbeat", c.Heartbeat},
	} {
		if f.value <= 0 {
			errs = append(errs,
				fmt.Errorf("%s must be positive: without it, a client can hold a connection for ever", f.name))
		}
	}
	return errors.Join(append(errs, c.validateSizes()...)...)
}

// checkListen returns the fault of a listen address, or nil.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if fault, is := errors.AsType[*net.AddrError](err); is {
		return errors.New(fault.Err)
	}
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // local: a number, or a name of a service
	}
	if err != nil {
		return fmt.Errorf("port %q is not a number up to 65535", port)
	}
	return nil
}

func (c Config) validateSizes() (errs []error) {
	switch err := checkListen(c.Listen); {
	case c.Listen == "":
		errs = append(errs,
			errors.New("listen address must be given (CLOCKD_LISTEN), like 127.0.0.1:8080; in a container 0.0.0.0:8080, published as 127.0.0.1:8080:8080"))
	case err != nil:
		errs = append(errs,
			fmt.Errorf("listen address %q must be like 127.0.0.1:8080 or :8080 (CLOCKD_LISTEN): %w", c.Listen, err))
	}
	for _, name := range c.Hosts {
		if name == "" || strings.ContainsAny(name, "/:* \t") {
			errs = append(errs,
				fmt.Errorf("host %q is not a host name: write it like clockd.example.com, without scheme, port or wildcard", name))
		}
	}
	if c.MaxHeaderBytes < 4<<10 {
		errs = append(errs,
			errors.New("max header bytes must be at least 4 KiB: a business id may take 384 bytes in a path, a cursor 200"))
	}
	if c.Connections < 1 || c.ConnectionsPerAddress < 0 {
		errs = append(errs,
			errors.New("connections must be at least 1, and connections per address at least 0 (0: no limit)"))
	}
	if least := 2*BatchBytes + int64(c.Connections)*firstBuffer; c.BodyBytes < least {
		errs = append(errs,
			fmt.Errorf("body bytes are %d and must be at least %d: 4 KiB for each of %d connections (CLOCKD_CONNECTIONS), and 16 MiB for the growing buffer of a batch",
				c.BodyBytes, least, c.Connections))
	}
	if c.BodyRate < 1 {
		errs = append(errs,
			errors.New("body rate must be at least 1 byte a second: without it, the server waits for stalled bodies"))
	}
	if c.ResponseBytes < 2*ListBytes {
		errs = append(errs,
			errors.New("response bytes must be at least 8 MiB: a growing page of a list holds up to twice its size"))
	}
	if c.WindowOps < 1 || c.WindowBytes < LineBytes {
		errs = append(errs, fmt.Errorf("window must be at least 1 line and %d bytes, the longest line", LineBytes))
	}
	return errs
}
