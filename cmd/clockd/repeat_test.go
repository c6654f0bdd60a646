package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// occurrenceCounts are the counts of a repeating alarm, as a response shows them.
type occurrenceCounts struct {
	State      string `json:"state"`
	Occurrence struct {
		Triggered *string `json:"triggered_at"`
		Backfill  struct{ Left, Rung, Failed int64 }

		Rung    int64 `json:"rung"`
		Missed  int64 `json:"missed"`
		Skipped int64 `json:"skipped"`
		Failed  int64 `json:"failed"`
	} `json:"occurrence"`
	LastError string `json:"last_error"`
}

// occurrences reads the counts of an alarm.
func (p *process) occurrences(application, id string) occurrenceCounts {
	p.t.Helper()
	var counts occurrenceCounts
	eventually(p.t, "the alarm is read", func() bool { // 503 while the database is busy
		counts = occurrenceCounts{}
		status, _, err := p.decode(http.MethodGet, alarmPath(application, id), nil, &counts)
		return err == nil && status == http.StatusOK
	})
	return counts
}

// TestEachOccurrenceRingsOrIsCounted sets alarms that repeat every second, and kills the node twice. Each occurrence
// ends exactly once: it rings, or is counted with its reason. With missed "all" an occurrence does not ring only if the
// ring before it was in doubt. A ring that was on its way at a kill may have arrived although its occurrence counts as
// missed or skipped. Copies carry the message id, and the time, of their ring, and no two occurrences have one message
// id.
func TestEachOccurrenceRingsOrIsCounted(t *testing.T) {
	t.Parallel()
	const definitions, times, kills = 20, 9, 2
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		receivers := []*receiver{receiveFrom(p, b, "shop")}
		anchor := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
		first := map[string]time.Time{} // of each alarm: one that is set late begins later
		for i := range definitions {
			for _, missed := range []string{"all", "once"} {
				id := fmt.Sprintf("%s-%d", missed, i)
				first[id] = p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{
					"repeat":  map[string]any{"every": "1s", "anchor": anchor.UnixMilli(), "times": times, "missed": missed},
					"payload": i,
				}).RingAt
			}
		}
		for kill := range kills {
			latest := receivers[len(receivers)-1]
			before := latest.number()
			eventually(t, "some ring", func() bool { return latest.number() > before+(2-kill)*definitions })
			p.kill()
			p = startOn(t, databaseURL, b)
			if b == nil {
				receivers = append(receivers, p.listen("shop"))
			}
		}
		eventually(t, "all alarms are over",
			func() bool { return p.inState("shop", clock.Rung)+p.inState("shop", clock.Expired) == 2*definitions })
		for i := range definitions {
			for _, missed := range []string{"all", "once"} {
				id := fmt.Sprintf("%s-%d", missed, i)
				c := p.occurrences("shop", id).Occurrence
				if c.Rung+c.Missed+c.Skipped != times || missed == "all" && c.Missed != 0 || c.Failed != 0 || c.Rung == 0 {
					t.Errorf("%s: %+v", id, c)
				}
				var arrived map[time.Duration]bool
				eventually(t, "the rings of "+id+" arrive", func() bool {
					arrived = occurrencesOf(t, receivers, id, first[id])
					return int64(len(arrived)) >= c.Rung
				})
				for after := range arrived {
					if after%time.Second != 0 || after < 0 || after >= times*time.Second {
						t.Errorf("%s has no occurrence %s after the first one", id, after)
					}
				}
				if int64(len(arrived)) > c.Rung+kills {
					t.Errorf("%s rang %d occurrences, and counts %+v", id, len(arrived), c)
				}
			}
		}
	})
}

// TestTriggeredAlarmsRingAtOnce triggers alarms that are due tomorrow. The repeating one rings twice, and its occurrences
// stay as they are.
func TestTriggeredAlarmsRingAtOnce(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		r := receiveFrom(p, b, "shop")
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "once"), map[string]any{"delay": "24h"})
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "repeats"), map[string]any{"repeat": map[string]any{"every": "24h"}})
		for n := range 2 {
			p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "repeats")+"/trigger", nil)
			eventually(t, "the triggered ring arrives", func() bool { return r.number() == n+1 })
			eventually(t, "it is over", func() bool { return p.occurrences("shop", "repeats").Occurrence.Triggered == nil })
		}
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "once")+"/trigger", nil)
		eventually(t, "the alarm that rings once rings", func() bool { return r.number() == 3 && p.inState("shop", clock.Rung) == 1 })
		if c := p.occurrences("shop", "repeats"); c.State != "scheduled" || c.Occurrence.Rung != 0 {
			t.Errorf("the repeating alarm is %+v", c)
		}
	})
}

// TestBackfillRingsForEachOccurrenceOfItsRange kills the node in the middle of a backfill. Each occurrence of the range
// arrives, and none that is not in it.
func TestBackfillRingsForEachOccurrenceOfItsRange(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		const rings = 8
		p := startOn(t, databaseURL, b)
		receivers := []*receiver{receiveFrom(p, b, "shop")}
		anchor := time.Now().Truncate(time.Second).Add(-rings * time.Hour)
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "hourly"),
			map[string]any{"repeat": map[string]any{"every": "1h", "anchor": anchor.UnixMilli()}})
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "hourly")+"/backfill",
			map[string]any{"from": anchor.UnixMilli(), "until": anchor.Add(rings*time.Hour - 1).UnixMilli(), "pace": "300ms"})
		eventually(t, "rings arrive", func() bool { return receivers[0].number() >= 2 })
		p.kill()
		p = startOn(t, databaseURL, b)
		if b == nil {
			receivers = append(receivers, p.listen("shop"))
		}
		eventually(t, "the backfill is over", func() bool { return p.occurrences("shop", "hourly").Occurrence.Backfill.Left == 0 })
		c := p.occurrences("shop", "hourly")
		if c.State != "scheduled" || c.Occurrence.Rung != 0 || c.Occurrence.Backfill.Rung != rings || c.Occurrence.Backfill.Failed != 0 {
			t.Errorf("the alarm is %+v", c)
		}
		found, ringOf := map[time.Duration]bool{}, map[string]time.Time{}
		eventually(t, "the rings arrive", func() bool {
			for _, r := range receivers {
				for _, g := range r.all() {
					if before, copied := ringOf[g.messageID]; copied && !before.Equal(g.occurrence) {
						t.Errorf("ring %s is of %s, and was of %s", g.messageID, g.occurrence, before)
					}
					ringOf[g.messageID], found[g.occurrence.Sub(anchor)] = g.occurrence, true
				}
			}
			return len(found) >= rings
		})
		for after := range found {
			if after%time.Hour != 0 || after < 0 || after >= rings*time.Hour {
				t.Errorf("a ring of the occurrence %s after the first one", after)
			}
		}
	})
}

// TestEndsOfAlarmsAndOccurrencesAreCounted lets rings fail, because nothing is bound to the exchange, and lets
// occurrences pass while the alarm waits for a resume. The metrics and the alarms have the same counts.
func TestEndsOfAlarmsAndOccurrencesAreCounted(t *testing.T) {
	t.Parallel()
	forCluster(t, "postgresql", func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		never := map[string]any{"limit": 0}
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "once"), map[string]any{"delay": 0, "retry": never})
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "pausing"), map[string]any{
			"repeat": map[string]any{"every": "1s", "pause_after": 2}, "retry": never,
		})
		eventually(t, "the alarm is dead", func() bool { return p.inState("shop", clock.Dead) == 1 })
		eventually(t, "the alarm pauses", func() bool { return p.inState("shop", clock.Paused) == 1 })
		c := p.occurrences("shop", "pausing")
		if c.Occurrence.Failed != 2 || !strings.HasPrefix(c.LastError, "paused, because 2 occurrences in a row failed") {
			t.Errorf("the paused alarm is %+v", c)
		}
		paused := time.Now()
		eventually(t, "occurrences pass", func() bool { return time.Since(paused) > 2500*time.Millisecond })
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "pausing")+"/resume", nil)
		eventually(t, "the resumed alarm counts them", func() bool {
			c = p.occurrences("shop", "pausing")
			return c.Occurrence.Missed > 0
		})
		p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "pausing"), nil)
		c = p.occurrences("shop", "pausing")
		for metric, want := range map[string]float64{
			`clockd_ring_ended_total{state="dead"}`:        1,
			`clockd_clock_occurrences_total{end="failed"}`: float64(c.Occurrence.Failed),
			`clockd_clock_occurrences_total{end="missed"}`: float64(c.Occurrence.Missed),
			`clockd_clock_occurrences_total{end="rung"}`:   0,
		} {
			eventually(t, metric, func() bool { return p.metric(metric) == want })
		}
		if p.metric(`clockd_ring_ended_total{state="paused"}`) < 1 {
			t.Error("no pause is counted")
		}
	})
}

// occurrencesOf returns the times of the alarm's occurrences that the receivers got, counted from an instant.
func occurrencesOf(t *testing.T, receivers []*receiver, id string, from time.Time) map[time.Duration]bool {
	t.Helper()
	found, ringOf := map[time.Duration]bool{}, map[string]time.Time{}
	for _, r := range receivers {
		for _, g := range r.all() {
			if g.businessID != id {
				continue
			}
			if before, copied := ringOf[g.messageID]; copied && !before.Equal(g.target) {
				t.Errorf("ring %s of %s is at %s, and was at %s", g.messageID, id, g.target, before)
			}
			if ringOf[g.messageID] = g.target; g.arrived.Before(g.target) {
				t.Errorf("%s at %s arrived at %s", id, g.target, g.arrived)
			}
			found[g.target.Sub(from)] = true
		}
	}
	return found
}
