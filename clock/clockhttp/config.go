package clockhttp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/clockd/clockd/clock/front"
)

// Limits that the contract names.
const (
	BatchBytes = 8 << 20   // bytes of a JSON batch
	BatchItems = 1000      // items of a JSON batch, sets and cancels together
	LineBytes  = 128 << 10 // bytes of an NDJSON line, without its line break
)

// Config holds the address, the timeouts and the limits of the server.
type Config struct {
	front.Config
	MetricsListen string // address of a further port for metrics, probes and profiles; default: none
	Exchange      string // RabbitMQ exchange that an error names when Deps.Streams is nil; default "clock"

	ReadTimeout  time.Duration // longest time for one read of a body; default 30s
	BodyTimeout  time.Duration // longest time for a whole body or a whole response, streams excepted; default 60s
	BodyGrace    time.Duration // time before a whole body must arrive at BodyRate; default 10s
	DrainTimeout time.Duration // time for running requests after Run's context ends; default 5s, because rings need the rest of a stop
	DrainBody    time.Duration // time for unfinished bodies after Run's context ends; default 1s
	Heartbeat    time.Duration // time between two comments on a silent rings stream; default 15s

	BodyRate int // bytes a second at which a whole body must arrive; default 16 KiB

	WindowOps   int // lines of one stream that may wait for their results; default 2048
	WindowBytes int // bytes of these lines; default 2 MiB
}

// DefaultConfig returns the default that the comment of each field names.
func DefaultConfig() Config {
	return Config{
		Config: front.DefaultConfig(), Exchange: "clock",
		ReadTimeout: 30 * time.Second, BodyTimeout: time.Minute, BodyGrace: 10 * time.Second,
		DrainTimeout: 5 * time.Second, DrainBody: time.Second, Heartbeat: 15 * time.Second,
		BodyRate: 16 << 10, WindowOps: 2048, WindowBytes: 2 << 20,
	}
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := append(front.CheckTimeouts(
		front.Timeout{Name: "read timeout", Value: c.ReadTimeout},
		front.Timeout{Name: "body timeout", Value: c.BodyTimeout},
		front.Timeout{Name: "body grace", Value: c.BodyGrace},
		front.Timeout{Name: "drain timeout", Value: c.DrainTimeout},
		front.Timeout{Name: "drain body", Value: c.DrainBody},
		front.Timeout{Name: "heartbeat", Value: c.Heartbeat},
	), c.validateSizes()...)
	if c.MetricsListen != "" {
		errs = append(errs, front.CheckListen("metrics", "CLOCKD_METRICS_LISTEN", c.MetricsListen))
		if c.MetricsListen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			errs = append(errs, errors.New("CLOCKD_METRICS_LISTEN and CLOCKD_LISTEN are the same address: "+
				"the metrics need a port of their own"))
		}
	}
	return errors.Join(append(errs, c.Config.Validate())...)
}

func (c Config) validateSizes() (errs []error) {
	if least := 2*BatchBytes + int64(c.Connections)*front.FirstBuffer; c.BodyBytes < least {
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
