package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// One application's trouble is not the others': what these tests run small on every change, the ones of isolation_soak_test.go
// run at full size and hold to the promised figures.

// metric returns the sum of a metric's samples whose name and labels begin with prefix.
func (p *process) metric(prefix string) float64 {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	sum := 0.0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, prefix) {
			sum += v
		}
	}
	return sum
}

// setMany is set from several clients at once.
func (p *process) setMany(application, prefix string, count int, due time.Time, payload any) {
	p.t.Helper()
	const clients = 8
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for from := c * 500; from < count; from += clients * 500 {
				sets := make([]map[string]any, min(500, count-from))
				for i := range sets {
					sets[i] = map[string]any{"business_id": fmt.Sprintf("%s-%d", prefix, from+i), "ring_at": due.UnixMilli(), "payload": payload}
				}
				a, err := p.do(http.MethodPost, "/v1/applications/"+application+"/alarms", map[string]any{"set": sets})
				if err != nil || a.Status != http.StatusOK {
					p.t.Errorf("set: %d %v", a.Status, err)
				}
			}
		})
	}
	wait.Wait()
}

// smallFlood: a flood of one application, due at one instant, does not delay another's ten a second, which begin before it and
// last for so many seconds.
func smallFlood(t *testing.T, databaseURL string, b *testBroker, count, seconds int, atMost time.Duration) {
	p := startOn(t, databaseURL, b)
	flood, few := b.count("flood"), b.receive("few")
	const perSecond = 10
	due := time.Now().Add(5*time.Second + time.Duration(count)*50*time.Microsecond)
	p.setMany("flood", "a", count, due, 1)
	p.set("few", "b", perSecond*seconds, func(i int) time.Time {
		return due.Add(-2*time.Second + time.Duration(i)*time.Second/perSecond)
	})
	eventually(t, 2*time.Minute+time.Duration(count)*100*time.Microsecond, "the few ring", func() bool {
		d, _ := few.byID()
		return len(d) == perSecond*seconds
	})
	during := flood.Load()
	lates := lateness(few.all())
	p99 := lates[len(lates)*99/100]
	t.Logf("%d of %d of the flood rung when all of the few were; the few were late by: median %s, 99%% %s, most %s",
		during, count, lates[len(lates)/2], p99, lates[len(lates)-1])
	if p99 > atMost {
		t.Errorf("99%% of the few rang up to %s late, more than %s", p99, atMost)
	}
	eventually(t, 2*time.Minute+time.Duration(count)*200*time.Microsecond, "the flood rings", func() bool { return flood.Load() >= int64(count) })
}

func TestFloodOfAnother(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		smallFlood(t, databaseURL, b, 10_000, 8, time.Second+slow)
	})
}

// unroutable: alarms without a queue cost a probe a second, however many.
func unroutable(t *testing.T, databaseURL string, b *testBroker, count int) {
	p := startOn(t, databaseURL, b)
	p.setMany("nobody", "c", count, time.Now(), 1)
	eventually(t, time.Minute, "the application is held", func() bool {
		return p.metric(`clockd_ring_unwell_applications{health="held"}`) == 1
	})
	settled := p.metric("clockd_ring_rings_total")
	eventually(t, time.Minute, "the batches that were under way are back", func() bool {
		<-time.After(time.Second)
		last := settled
		settled = p.metric("clockd_ring_rings_total")
		return settled-last <= 2
	})
	const watched = 10 * time.Second
	before, begun := p.metric("clockd_ring_rings_total"), time.Now()
	<-time.After(watched)
	tries := p.metric("clockd_ring_rings_total") - before
	perSecond := tries / time.Since(begun).Seconds()
	t.Logf("%d unroutable alarms, held: %.1f tries a second", count, perSecond)
	if perSecond > 2 || tries == 0 {
		t.Errorf("%d unroutable alarms cost %.1f tries a second, not one", count, perSecond)
	}
	got := b.receive("well")
	p.set("well", "d", 100, func(i int) time.Time { return time.Now().Add(time.Second + time.Duration(i)*10*time.Millisecond) })
	eventually(t, time.Minute, "another application rings", func() bool { d, _ := got.byID(); return len(d) == 100 })
	t.Logf("another application's rings were late by %s at most", lateness(got.all())[99])
}

func TestUnroutableCostAProbe(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) { unroutable(t, databaseURL, b, 3000) })
}
