package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config holds the address and the limits of the port.
type Config struct {
	Listen string   // address to listen on; default 127.0.0.1:8080
	TLS    TLSFiles // certificate of the port; default: plain HTTP
	Hosts  []string // names of this server, besides IP addresses and loopback names; without port

	ReadHeaderTimeout time.Duration // longest time for a request's head; default 10s
	WriteTimeout      time.Duration // longest time for one write of a response; default 30s
	IdleTimeout       time.Duration // longest time of a connection between two requests; default 2m

	MaxHeaderBytes int   // bytes of a request's head; default 8 KiB
	BodyBytes      int64 // bytes of all bodies and windows held at once; beyond them requests get 503; default 128 MiB
	ResponseBytes  int64 // bytes of all responses that wait for their clients; beyond them reads get 503; default 32 MiB

	Connections           int // open connections; further connections are refused; default 4096
	ConnectionsPerAddress int // open connections of one remote address; 0: no limit; default 2048
}

// DefaultConfig returns the default that the comment of each field names.
func DefaultConfig() Config {
	return Config{
		Listen:            "127.0.0.1:8080",
		ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 8 << 10, BodyBytes: 128 << 20, ResponseBytes: 32 << 20,
		Connections: 4096, ConnectionsPerAddress: 2048,
	}
}

// Validate returns all errors of the configuration, joined, or nil. It does not read the files of TLS: TLSFiles.Validate
// does. The least memory of bodies and responses is the affair of those who take it.
func (c Config) Validate() error {
	errs := CheckTimeouts(Timeout{"read header timeout", c.ReadHeaderTimeout}, Timeout{"write timeout", c.WriteTimeout},
		Timeout{"idle timeout", c.IdleTimeout})
	if c.Listen == "" {
		errs = append(errs,
			errors.New("listen address must be given (CLOCKD_LISTEN), like 127.0.0.1:8080; in a container 0.0.0.0:8080, published as 127.0.0.1:8080:8080"))
	} else {
		errs = append(errs, CheckListen("listen", "CLOCKD_LISTEN", c.Listen))
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
	return errors.Join(errs...)
}

// Timeout is a limit of time, with its name for a person.
type Timeout struct {
	Name  string
	Value time.Duration
}

// CheckTimeouts returns an error for each limit that is not positive.
func CheckTimeouts(limits ...Timeout) (errs []error) {
	for _, l := range limits {
		if l.Value <= 0 {
			errs = append(errs,
				fmt.Errorf("%s must be positive: without it, a client can hold a connection for ever", l.Name))
		}
	}
	return errs
}

// CheckListen returns the fault of the address to listen on that a variable gives, or nil. kind is its name for people.
func CheckListen(kind, variable, address string) error {
	if err := checkListen(address); err != nil {
		return fmt.Errorf("%s address %q must be like 127.0.0.1:8080 or :8080 (%s): %w", kind, address, variable, err)
	}
	return nil
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
