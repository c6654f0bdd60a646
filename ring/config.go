package ring

import (
	"errors"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
)

// Config says how rings are claimed and delivered.
type Config struct {
	Workers      int           // batches of healthy applications under way at once, each with a database connection; at least one a route; default 3
	BatchRows    int           // most alarms in a batch; default 300
	BatchBytes   int           // most payload bytes in a batch; default 4 MiB
	WriteTimeout time.Duration // time from the claim's begin after which no byte of a ring is written; default 1s
	ReplyTimeout time.Duration // time from the claim's begin for which a delivery waits for replies, at most; default 2s
	ClaimTimeout time.Duration // time after which a two-phase claim ends; default clock.ClaimTimeout
	Probe        time.Duration // time between two probes of a held application, at most 1s; default 1s
}

// DefaultConfig returns the defaults that the fields' comments name.
func DefaultConfig() Config {
	return Config{
		Workers: 3, BatchRows: 300, BatchBytes: 4 << 20,
		WriteTimeout: time.Second, ReplyTimeout: 2 * time.Second, ClaimTimeout: clock.ClaimTimeout, Probe: time.Second,
	}
}

// Validate returns nil for a valid configuration, else all broken rules, joined.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(c.Workers >= 1 && c.Workers <= 64, "ring workers must be from 1 to 64")
	check(c.BatchRows >= 1 && c.BatchRows <= 5000, "ring batch rows must be from 1 to 5000")
	check(c.BatchBytes >= 64<<10, "ring batch bytes must be at least 64 KiB")
	check(c.WriteTimeout > 0 && c.WriteTimeout < c.ReplyTimeout,
		"the write timeout must be below the reply timeout, or the last ring written has no time for its reply")
	check(c.ReplyTimeout < clock.IdleInTransaction,
		fmt.Sprintf("the reply timeout must be below %s, because the database then ends the idle transaction of a claim", clock.IdleInTransaction))
	check(c.ReplyTimeout < c.ClaimTimeout/2,
		"the reply timeout must be below half of the claim timeout, to leave time to write the outcome")
	check(c.Probe >= 100*time.Millisecond && c.Probe <= time.Second, "the probe interval must be from 100ms to 1s")
	return errors.Join(errs...)
}
