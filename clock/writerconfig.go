package clock

import (
	"errors"
	"fmt"
	"time"
)

// WriterConfig has the limits of the Writer, which commits ops in groups.
type WriterConfig struct {
	Committers   int           // concurrent write transactions, at most, on disjoint keys; default 2
	GroupOps     int           // ops of a transaction, at most; default 500
	GroupBytes   int           // bytes of a transaction's ops, at most; default 4 MiB
	QueueBytes   int           // bytes of all ops queued or in transactions, at most; three quarters for one application; default 16 MiB
	QueueWait    time.Duration // expected wait for a group beyond which a set is refused; other ops beyond twice as long; default 4s
	LoadBytes    int           // bytes of stored payloads that a transaction loads, at most, but always one payload; default 8 MiB
	KeyOps       int           // ops on one key queued or in transactions, at most; default 100
	LockedWrites int           // concurrent transactions that may wait for a locked row; default 8
	LockWait     time.Duration // longest wait of a request for a locked row; default 5s
}

// DefaultWriterConfig returns the default configuration.
func DefaultWriterConfig() WriterConfig {
	return WriterConfig{
		Committers: 2, GroupOps: 500, GroupBytes: 4 << 20, QueueBytes: 16 << 20, QueueWait: 4 * time.Second,
		LoadBytes: 8 << 20, KeyOps: 100,
		LockedWrites: 8, LockWait: 5 * time.Second,
	}
}

// Validate returns all faults of the configuration, joined, or nil.
func (c WriterConfig) Validate() error {
	var errs []error
	for _, f := range []struct {
		name       string
		value, min int
		max        int
	}{
		{"write committers", c.Committers, 1, 64},
		{"write group ops", c.GroupOps, 1, 5000},
		{"write group bytes", c.GroupBytes, 64 << 10, 8 << 20}, // a statement must stay below max_allowed_packet, 16 MiB
		{"write queue bytes", c.QueueBytes, c.GroupBytes, 1 << 30},
		{"write load bytes", c.LoadBytes, 64 << 10, 1 << 30},
		{"write ops on a key", c.KeyOps, 1, 10_000},
		{"locked writes", c.LockedWrites, 1, 64},
	} {
		if f.value < f.min || f.value > f.max {
			errs = append(errs, fmt.Errorf("%s must be from %d to %d", f.name, f.min, f.max))
		}
	}
	if c.QueueWait <= 0 || c.QueueWait >= RequestTimeout/2 {
		errs = append(errs,
			fmt.Errorf("queue wait must be positive and below %s, half of the time limit of a request",
				RequestTimeout/2))
	}
	if c.LockWait <= 0 || c.LockWait >= RequestTimeout {
		errs = append(errs,
			fmt.Errorf("lock wait must be positive and below %s, the time limit of a request", RequestTimeout))
	}
	return errors.Join(errs...)
}

// writeTimeout is the most time for a transaction, so that a server that stopped replying does not occupy a committer
// for ever. Validate accepts no LockWait that is longer.
const writeTimeout = RequestTimeout
