package clockhttp

import (
	"errors"
	"fmt"
	"time"
)

// Caps that are part of the contract.
const (
	BatchBytes = 8 << 20   // of a JSON batch
	BatchItems = 1000      // of a JSON batch, sets and cancels together
	LineBytes  = 128 << 10 // of an NDJSON line, without its line break
)

// Config bounds the server.
type Config struct {
	Listen   string // address; default 127.0.0.1:8080
	Exchange string // where rings go without Streams, for people; default "clock"

	ReadHeaderTimeout time.Duration // for a request's head; default 10s
	ReadTimeout       time.Duration // for each read of a body; default 30s
	BodyTimeout       time.Duration // for a whole body that is not a stream; default 60s
	WriteTimeout      time.Duration // for each write of an answer; default 30s
	IdleTimeout       time.Duration // of a connection between requests; default 2m
	DrainTimeout      time.Duration // for requests under way when Run's context ends; default 8s
	Heartbeat         time.Duration // between comments on a silent rings stream; default 15s

	MaxHeaderBytes int   // of a request's head; default 16 KiB
	BodyBytes      int64 // of all bodies and windows held at once, beyond which requests get 503; default 128 MiB
	WindowOps      int   // lines of a stream that may wait for their answers; default 2048
	WindowBytes    int   // bytes of them; default 2 MiB
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080", Exchange: "clock",
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, BodyTimeout: time.Minute,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, DrainTimeout: 8 * time.Second,
		Heartbeat: 15 * time.Second, MaxHeaderBytes: 16 << 10,
		BodyBytes: 128 << 20, WindowOps: 2048, WindowBytes: 2 << 20,
	}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"read header timeout", c.ReadHeaderTimeout},
		{"read timeout", c.ReadTimeout},
		{"body timeout", c.BodyTimeout},
		{"write timeout", c.WriteTimeout},
		{"idle timeout", c.IdleTimeout},
		{"drain timeout", c.DrainTimeout},
		{"heartbeat", c.Heartbeat},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("%s must be positive: a connection without it can be held for ever", f.name))
		}
	}
	return errors.Join(append(errs, c.validateSizes()...)...)
}

func (c Config) validateSizes() (errs []error) {
	if c.Listen == "" {
		errs = append(errs, errors.New("listen address must be given, like 127.0.0.1:8080"))
	}
	if c.MaxHeaderBytes < 4<<10 {
		errs = append(errs, errors.New("max header bytes must be at least 4 KiB: a business id may take 384 bytes in a path, a cursor 200"))
	}
	if c.BodyBytes < 2*BatchBytes {
		errs = append(errs, errors.New("body bytes must be at least 16 MiB: a buffer that grows to a batch holds up to twice its size"))
	}
	if c.WindowOps < 1 || c.WindowBytes < LineBytes {
		errs = append(errs, fmt.Errorf("window must be at least 1 line and %d bytes, the longest line", LineBytes))
	}
	return errs
}
