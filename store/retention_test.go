package store

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// recordedPurge records the arguments of the last Purge.
type recordedPurge struct{ before, settled clock.Instant }

func (p *recordedPurge) Purge(_ context.Context, before, settled clock.Instant, _ int) (int, error) {
	p.before, p.settled = before, settled
	return 0, nil
}

// fixedClock is a clock that stands still.
type fixedClock clock.Instant

func (f fixedClock) Now() (clock.Instant, error) { return clock.Instant(f), nil }

// Even without a retention, an alarm in doubt is kept as long as its claim may be settled.
func TestAlarmsInDoubtOutliveTheRetention(t *testing.T) {
	for keep, want := range map[time.Duration]recordedPurge{
		0:         {before: 1_000_000, settled: 940_000},
		time.Hour: {before: 0, settled: 940_000},
	} {
		cfg := DefaultRetentionConfig()
		cfg.Keep = keep
		var asked recordedPurge
		r, err := NewRetention(cfg, RetentionDeps{
			Purger: &asked, Time: fixedClock(1_000_000), Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.purge(t.Context()); err != nil || asked != want {
			t.Errorf("retention %s: %+v, %v; want %+v", keep, asked, err, want)
		}
	}
	short := DefaultRetentionConfig()
	short.KeepInDoubt = time.Second
	if short.Validate() == nil {
		t.Error("Validate accepts a time that is shorter than a claim")
	}
}
