package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Why a transaction was begun again. An adapter names its own reasons; these are the ones that it may.
const (
	ReplayDeadlock      = "deadlock"
	ReplaySerialization = "serialization" // also a conflict at COMMIT in a cluster
	ReplayLockTimeout   = "lock_timeout"
	ReplayKeyExists     = "key_exists" // it was inserted elsewhere meanwhile
	ReplayMigrated      = "migrated"   // a prepared statement whose table was migrated under it
	replayRowsChanged   = "rows_changed"
)

// Kinds of errors.
const (
	kindUnavailable = "unavailable"
	kindUnconfirmed = "unconfirmed"
	kindTimeout     = "timeout" // unavailable within the call's deadline
	kindReadOnly    = "read_only"
	kindCancelled   = "cancelled" // by the caller
)

// ErrReadOnly is within the error of a call that met a server which takes no writes: a replica, or a former primary.
var ErrReadOnly = errors.New("the server is read-only")

// Metrics counts what adapters meet.
type Metrics struct {
	replays *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

// NewMetrics registers the metrics; reg may be nil, then nobody sees them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		replays: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_store_replays_total", Help: "Transactions begun again after a definite rollback, by reason.",
		}, []string{"reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_store_errors_total", Help: "Calls of the database that failed, by kind.",
		}, []string{"kind"}),
	}
	for _, reason := range []string{ReplayDeadlock, ReplaySerialization, ReplayLockTimeout, ReplayKeyExists, ReplayMigrated, replayRowsChanged} {
		m.replays.WithLabelValues(reason)
	}
	for _, kind := range []string{kindUnavailable, kindUnconfirmed, kindTimeout, kindReadOnly, kindCancelled} {
		m.errors.WithLabelValues(kind)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.replays, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("store: register metrics: %w", err)
		}
	}
	return m, nil
}

// Failed counts the error of a call, mapped to a kind of package clock, and returns it; nil is not counted.
func (m *Metrics) Failed(err error) error {
	if err == nil {
		return nil
	}
	kind := kindUnavailable
	switch {
	case errors.Is(err, clock.ErrUnconfirmed):
		kind = kindUnconfirmed
	case errors.Is(err, ErrReadOnly):
		kind = kindReadOnly
	case errors.Is(err, context.Canceled):
		kind = kindCancelled
	case errors.Is(err, context.DeadlineExceeded):
		kind = kindTimeout
	}
	m.errors.WithLabelValues(kind).Inc()
	return err
}
