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

// TestEachOccurrenceRingsOrIsCounted sets alarms that repeat every second, and kills the node in the middle. With
// missed "all" each occurrence rings, or is skipped because the ring before it is in doubt; by default each one rings
// or is counted as missed. Copies carry the message id, and the time, of their ring, and no two occurrences have one
// message id.
func TestEachOccurrenceRingsOrIsCounted(t *testing.T) {
	t.Parallel()
	const definitions, times = 20, 6
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		receivers := []*receiver{receiveFrom(p, b, "shop")}
		anchor := time.Now().Add(2 * time.Second).UnixMilli()
		for i := range definitions {
			for _, missed := range []string{"all", "once"} {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("%s-%d", missed, i)), map[string]any{
					"repeat":  map[string]any{"every": "1s", "anchor": anchor, "times": times, "missed": missed},
					"payload": i,
				})
			}
		}
		eventually(t, "a third rings", func() bool { return receivers[0].number() > 2*definitions*times/3 })
		p.kill()
		p = startOn(t, databaseURL, b)
		if b == nil {
			receivers = append(receivers, p.listen("shop"))
		}
		eventually(t, "all alarms are over",
			func() bool { return p.inState("shop", clock.Rung)+p.inState("shop", clock.Expired) == 2*definitions })
		rung := int64(0)
		for i := range definitions {
			c := p.occurrences("shop", fmt.Sprintf("all-%d", i)).Occurrence
			if c.Rung+c.Skipped != times || c.Missed+c.Failed != 0 || c.Rung == 0 {
				t.Errorf("all-%d: %+v", i, c)
			}
			rung += c.Rung
			c = p.occurrences("shop", fmt.Sprintf("once-%d", i)).Occurrence
			if c.Rung+c.Missed+c.Skipped != times || c.Failed != 0 || c.Rung == 0 {
				t.Errorf("once-%d: %+v", i, c)
			}
		}
		eventually(t, "all rings arrive", func() bool { return int64(len(occurrencesOf(t, receivers))) >= rung })
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

// occurrencesOf returns the ring times of the alarms with missed "all" that the receivers got, each once.
func occurrencesOf(t *testing.T, receivers []*receiver) map[string]bool {
	t.Helper()
	found, ringOf := map[string]bool{}, map[string]string{}
	for _, r := range receivers {
		for _, g := range r.all() {
			occurrence := fmt.Sprintf("%s at %d", g.businessID, g.target.UnixMilli())
			if before, copied := ringOf[g.messageID]; copied && before != occurrence {
				t.Errorf("ring %s is of %s, and was of %s", g.messageID, occurrence, before)
			}
			ringOf[g.messageID] = occurrence
			if g.arrived.Before(g.target) {
				t.Errorf("%s arrived at %s", occurrence, g.arrived)
			}
			if len(g.businessID) > 4 && g.businessID[:4] == "all-" {
				found[occurrence] = true
			}
		}
	}
	return found
}
