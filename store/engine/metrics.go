package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Kinds of errors, as the metric counts them.
const (
	kindUnavailable = "unavailable"
	kindUnconfirmed = "unconfirmed"
	kindTimeout     = "timeout" // unavailable within the call's deadline
	kindReadOnly    = "read_only"
	kindCancelled   = "cancelled"  // the caller cancelled the call
	kindOverloaded  = "overloaded" // a read got no place in time
)

// ErrReadOnly is wrapped by the error of a call to a server that takes no writes: a replica, or a former primary.
var ErrReadOnly = errors.New("the server is read-only")

// metrics counts replays and errors of a store.
type metrics struct {
	replays *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

// newMetrics registers the metrics with reg. If reg is nil, the metrics count but are not exposed.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		replays: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_store_replays_total", Help: "Transactions run again after a definite rollback, by reason.",
		}, []string{"reason"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_store_errors_total", Help: "Failed database calls, by kind.",
		}, []string{"kind"}),
	}
	for _, reason := range []string{replayDeadlock, replaySerialization, replayLockTimeout, replayKeyExists, replayMigrated, replayRowsChanged} {
		m.replays.WithLabelValues(reason)
	}
	for _, kind := range []string{kindUnavailable, kindUnconfirmed, kindTimeout, kindReadOnly, kindCancelled, kindOverloaded} {
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

// countError counts an error that was mapped to a kind of package clock, and returns it. It counts neither nil
// nor clock.ErrNotFound, which is no failure.
func (m *metrics) countError(err error) error {
	if err == nil || errors.Is(err, clock.ErrNotFound) {
		return err
	}
	kind := kindUnavailable
	e, _ := errors.AsType[*clock.Error](err)
	switch {
	case e != nil && e.Code == clock.CodeOverloaded:
		kind = kindOverloaded
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
