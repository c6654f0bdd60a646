package ring

import (
	"errors"
	"time"
)

// Config says how rings are claimed and delivered.
type Config struct {
	Workers    int           // batches in flight at once, each with a lane and a database connection; default 3
	BatchRows  int           // alarms a batch, at most; default 300
	BatchBytes int           // payload bytes a batch, at most; default 4 MiB
	Write      time.Duration // from the claim's begin: no byte of a ring leaves later; default 1s
	Answer     time.Duration // from the claim's begin: what is unanswered by then is in doubt; default 2s
	Lease      time.Duration // two-phase only: how long a claim lasts; default 10s
	TwoPhase   bool          // commit the claim before delivering, the outcome after it
	Probe      time.Duration // between tries for an application that is held; default 1s
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{
		Workers: 3, BatchRows: 300, BatchBytes: 4 << 20,
		Write: time.Second, Answer: 2 * time.Second, Lease: 10 * time.Second, Probe: time.Second,
	}
}

// idleInTransaction is the servers' limit on a silent transaction: a claim must be settled before it.
const idleInTransaction = 5 * time.Second

// Validate returns all reasons against the configuration, joined, or nil.
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
	check(c.Write > 0 && c.Write < c.Answer, "the write limit must lie before the answer limit, or what is written last has no time for its answer")
	check(c.TwoPhase || c.Answer < idleInTransaction, "the answer limit must be below 5s, when the database ends the silent transaction of a claim")
	check(!c.TwoPhase || c.Answer < c.Lease/2, "the answer limit must be below half of the lease, to leave time to write the outcome")
	check(c.Probe >= 100*time.Millisecond, "the probe interval must be at least 100ms")
	return errors.Join(errs...)
}
