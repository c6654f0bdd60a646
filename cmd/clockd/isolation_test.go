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

// The faults of one application must not harm other applications. The tests in this file are small and run for every
// change. The tests in isolation_soak_test.go run the same flows at full size, and check the promised figures.

// metric returns the sum of the samples in /metrics whose name and labels begin with prefix.
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
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}

// setMany sets count alarms with the same due time, from several clients at once.
func (p *process) setMany(application, prefix string, count int, due time.Time, payload any) {
	p.t.Helper()
	const clients = 8
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for from := c * 500; from < count; from += clients * 500 {
				sets := make([]map[string]any, min(500, count-from))
				for i := range sets {
					sets[i] = map[string]any{"business_id": fmt.Sprintf("%s-%d", prefix, from+i),
						"ring_at": due.UnixMilli(), "payload": payload}
				}
				a, err := p.doWithRoom(http.MethodPost, "/v1/applications/"+application+"/alarms",
					map[string]any{"set": sets})
				if err != nil || a.Status != http.StatusOK {
					p.t.Errorf("set: %d %v", a.Status, err)
				}
			}
		})
	}
	wait.Wait()
}

// floodDelaysNoOther checks that a flood of one application, due at one instant, does not delay another application.
// The other has ten alarms a second, which begin before that instant and last for the given seconds. Its first alarm
// after the instant must ring before half of the flood has rung. A run with late claims or confirms says nothing about
// fairness, so it is repeated.
func floodDelaysNoOther(t *testing.T, databaseURL string, b *testBroker, count, seconds int) {
	p := startOn(t, databaseURL, b)
	for run, begun := 1, time.Now(); time.Since(begun) < giveUpAfter; run++ {
		faults := p.ringFaults()
		before := p.ringFlood(b, fmt.Sprint("-", run), count, seconds)
		if faults = p.ringFaults() - faults; faults > 0 {
			t.Logf("run %d says nothing: %.0f claims or confirms came too late", run, faults)
			continue
		}
		if before > count/2 {
			t.Errorf("the other's alarm waited for %d rings of the flood", before)
		}
		return
	}
	t.Fatal("in each run claims or confirms came too late")
}

// ringFaults returns how many claims have failed and how many rings have had no answer from the broker.
func (p *process) ringFaults() float64 {
	return p.metric("clockd_ring_database_errors_total") + p.metric(`clockd_ring_rings_total{outcome="in_doubt"}`)
}

// ringFlood rings a flood beside a few alarms of another application. It returns how many rings of the flood arrived
// before the other's first alarm that was due at the flood's instant or later. The suffix makes the names of the two
// applications.
func (p *process) ringFlood(b *testBroker, suffix string, count, seconds int) (before int) {
	t := p.t
	flood, few := b.receive("flood"+suffix), b.receive("few"+suffix)
	const perSecond = 10
	due := time.Now().Add(5*time.Second + time.Duration(count)*50*time.Microsecond)
	p.setMany("flood"+suffix, "a", count, due, 1)
	p.set("few"+suffix, "b", perSecond*seconds, func(i int) time.Time {
		return due.Add(-2*time.Second + time.Duration(i)*time.Second/perSecond)
	})
	eventually(t, "the few ring", func() bool {
		d, _ := few.byID()
		return len(d) == perSecond*seconds
	})
	lates := lateness(few.all())
	t.Logf("the few were late by: median %s, 99%% %s, most %s", lates[len(lates)/2], lates[len(lates)*99/100],
		lates[len(lates)-1])
	eventually(t, "the flood rings", func() bool { return flood.number() >= count })
	first := firstAfter(few.all(), due)
	for _, r := range flood.all() {
		if r.arrived.Before(first.arrived) {
			before++
		}
	}
	t.Logf("%d of %d of the flood rang before the other's first alarm after its instant", before, count)
	return before
}

// firstAfter returns the ring of the earliest alarm that was due at the instant or later.
func firstAfter(rings []receivedRing, due time.Time) (first receivedRing) {
	for _, r := range rings {
		if !r.target.Before(due.Truncate(time.Millisecond)) &&
			(first.target.IsZero() || r.target.Before(first.target)) {
			first = r
		}
	}
	return first
}

func TestFloodDelaysNoOtherApplication(t *testing.T) {
	t.Parallel()
	forCluster(t, "mariadb", func(t *testing.T, databaseURL string, b *testBroker) {
		floodDelaysNoOther(t, databaseURL, b, 10_000, 8)
	})
}

// unroutableCostsAProbe checks that the alarms of an application without a queue cost one probe a second, however many
// they are.
func unroutableCostsAProbe(t *testing.T, databaseURL string, b *testBroker, count int) {
	p := startOn(t, databaseURL, b)
	p.setMany("nobody", "c", count, time.Now(), 1)
	eventually(t, "the application is quarantined", func() bool {
		return p.metric(`clockd_ring_unwell_applications{health="held"}`) == 1
	})
	eventually(t, "the batches in flight are settled", func() bool { // eventually itself pauses between two looks
		before := p.metric("clockd_ring_rings_total")
		<-time.After(time.Second)
		return p.metric("clockd_ring_rings_total")-before <= 2
	})
	const watched = 10 * time.Second
	before, begun := p.metric("clockd_ring_rings_total"), time.Now()
	<-time.After(watched)
	tries := p.metric("clockd_ring_rings_total") - before
	perSecond := tries / time.Since(begun).Seconds()
	t.Logf("%d unroutable alarms in quarantine: %.1f tries a second", count, perSecond)
	eventually(t, "the application is probed", func() bool { return p.metric("clockd_ring_rings_total") > before })
	if perSecond > 2 {
		t.Errorf("%d unroutable alarms cost %.1f tries a second, not one", count, perSecond)
	}
	got := b.receive("well")
	p.set("well", "d", 100,
		func(i int) time.Time { return time.Now().Add(time.Second + time.Duration(i)*10*time.Millisecond) })
	eventually(t, "another application rings", func() bool { d, _ := got.byID(); return len(d) == 100 })
	t.Logf("another application's rings were late by %s at most", lateness(got.all())[99])
}

func TestUnroutableAlarmsCostOneProbeASecond(t *testing.T) {
	t.Parallel()
	forCluster(t, "postgresql",
		func(t *testing.T, databaseURL string, b *testBroker) { unroutableCostsAProbe(t, databaseURL, b, 3000) })
}
