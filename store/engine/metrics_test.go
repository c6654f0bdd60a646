package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
)

// deadlocks are the Errors of a driver whose only known error is a deadlock.
type deadlocks struct{ deadlock error }

func (d deadlocks) Classify(err error) Class {
	if errors.Is(err, d.deadlock) {
		return Deadlock
	}
	return Unavailable
}

func (deadlocks) DropConnections() {}

func TestReplaysAndErrorsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newMetrics(reg); err == nil {
		t.Error("one registry accepts two stores")
	}
	deadlock, other := errors.New("deadlock"), errors.New("other")
	c := &calls{metrics: m, errors: deadlocks{deadlock}}
	outcomes := []error{deadlock, fmt.Errorf("written: %w", ErrReplay), deadlock, other}
	tries := 0
	err = c.replay(t.Context(), func() error { tries++; return outcomes[tries-1] })
	if !errors.Is(err, other) || tries != 4 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	err = c.replay(t.Context(), func() error { tries++; return deadlock })
	if !errors.Is(err, deadlock) || tries != maxReplays+1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	tries = 0
	if err := c.replay(ended, func() error { tries++; return deadlock }); !errors.Is(err, deadlock) || tries > 2 {
		t.Errorf("after the context's end: %d tries, %v", tries, err)
	}
	for _, err := range []error{
		nil, clock.Unavailable(other), clock.Unavailable(context.Canceled), clock.Unavailable(context.DeadlineExceeded),
		clock.Unavailable(ErrReadOnly), clock.Unconfirmed(context.DeadlineExceeded),
	} {
		if got := m.countError(err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	want := `
# HELP clockd_store_errors_total Failed database calls, by kind.
# TYPE clockd_store_errors_total counter
clockd_store_errors_total{kind="cancelled"} 1
clockd_store_errors_total{kind="overloaded"} 0
clockd_store_errors_total{kind="read_only"} 1
clockd_store_errors_total{kind="timeout"} 1
clockd_store_errors_total{kind="unavailable"} 1
clockd_store_errors_total{kind="unconfirmed"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "clockd_store_errors_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.ToFloat64(m.replays.WithLabelValues(replayDeadlock)); n < 2+maxReplays {
		t.Errorf("%v replays of deadlocks", n)
	}
	if n := testutil.ToFloat64(m.replays.WithLabelValues(replayRowsChanged)); n != 1 {
		t.Errorf("%v replays of changed rows", n)
	}
}
