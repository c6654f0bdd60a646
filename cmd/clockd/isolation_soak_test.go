//go:build soak

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A million alarms of one application due at one instant: ten a second of another keep within a second.
func TestSoakFloodOfAnother(t *testing.T) {
	for _, e := range engines[:2] { // one after the other: they share the machine
		t.Run(e.name, func(t *testing.T) {
			smallFlood(t, e.open(t), dialBroker(t, amqpURL()), 1_000_000, 30, time.Second)
		})
	}
}

// Two hundred thousand alarms of an application without a queue.
func TestSoakUnroutableCostAProbe(t *testing.T) {
	for _, e := range engines[:2] {
		t.Run(e.name, func(t *testing.T) { unroutable(t, e.open(t), dialBroker(t, amqpURL()), 200_000) })
	}
}

// sickness makes an application's queue sick.
type sickness struct {
	name string
	make func(t *testing.T, s *services, b *testBroker, application string)
}

var sicknesses = []sickness{
	{"nacks", func(t *testing.T, _ *services, b *testBroker, application string) {
		b.declare(application, amqp.Table{"x-queue-type": "classic", "x-max-length": int32(0), "x-overflow": "reject-publish"})
	}},
	// a quorum queue that has lost its majority answers nothing; here its process stands still
	{"never confirms", func(t *testing.T, s *services, b *testBroker, application string) {
		queue := b.declare(application, amqp.Table{"x-queue-type": "quorum"})
		s.do("ctl", "rabbitmq", "eval", fmt.Sprintf("sys:suspend('%%2F_%s').", queue))
		t.Cleanup(func() { s.do("ctl", "rabbitmq", "eval", fmt.Sprintf("sys:resume('%%2F_%s').", queue)) })
	}},
}

// An application whose queue never confirms or always nacks slows nobody else by more than a fifth.
func TestSoakSickQueueOfAnother(t *testing.T) {
	const herd, sick, rounds = 30_000, 30_000, 3
	for _, e := range engines[:2] {
		for _, illness := range sicknesses {
			t.Run(e.name+"-"+strings.ReplaceAll(illness.name, " ", "-"), func(t *testing.T) {
				s := privately(t, "rabbitmq")
				b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
				p := startOn(t, e.open(t), b)
				illness.make(t, s, b, "sick")
				got := b.count("well")
				total := int64(0)
				run := func(name string) time.Duration {
					due := time.Now().Add(5 * time.Second)
					p.setMany("well", name, herd, due, 1)
					total += herd
					eventually(t, 2*time.Minute, "the herd rings", func() bool { return got.Load() >= total })
					return time.Since(due)
				}
				alone, beside := time.Duration(1<<62), time.Duration(1<<62)
				for r := range rounds {
					alone = min(alone, run(fmt.Sprintf("alone-%d", r)))
				}
				p.setMany("sick", "s", sick, time.Now(), 1)
				for r := range rounds {
					beside = min(beside, run(fmt.Sprintf("beside-%d", r)))
				}
				ratio := float64(alone) / float64(beside)
				t.Logf("%d rung in %s alone, in %s beside %d of an application whose queue %s: %.2f of the rate",
					herd, alone.Round(time.Millisecond), beside.Round(time.Millisecond), sick, illness.name, ratio)
				if ratio < 0.8 {
					t.Errorf("the others rang at %.2f of their rate", ratio)
				}
			})
		}
	}
}

// Payloads at the cap do not raise memory past what the heap, the workers and the write queue are bound to.
func TestSoakLargePayloadsAreBound(t *testing.T) {
	const count, bound = 10_000, 192 << 20
	payload := strings.Repeat("x", 65_000)
	for _, e := range engines[:2] {
		t.Run(e.name, func(t *testing.T) {
			b := dialBroker(t, amqpURL())
			p := startOn(t, e.open(t), b)
			got := b.count("shop")
			most := make(chan float64)
			done := make(chan struct{})
			go func() {
				peak := 0.0
				for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
					peak = max(peak, residentBytes(p.cmd.Process.Pid))
					select {
					case <-done:
						most <- peak
						return
					default:
					}
				}
			}()
			due := time.Now().Add(30 * time.Second)
			for from := 0; from < count; from += 100 {
				sets := make([]map[string]any, 100)
				for i := range sets {
					sets[i] = map[string]any{"business_id": fmt.Sprintf("p-%d", from+i), "ring_at": due.UnixMilli(), "text": payload}
				}
				p.must(200, "POST", "/v1/applications/shop/alarms", map[string]any{"set": sets})
			}
			set := residentBytes(p.cmd.Process.Pid)
			eventually(t, 3*time.Minute, "all ring", func() bool { return got.Load() >= count })
			close(done)
			peak := <-most
			t.Logf("%d payloads of %d bytes, %d MiB in all: RSS %.0f MiB when set, %.0f MiB at most (Go %s)",
				count, len(payload), count*len(payload)>>20, set/(1<<20), peak/(1<<20), runtime.Version())
			if peak > bound {
				t.Errorf("RSS was %.0f MiB, more than %d", peak/(1<<20), bound>>20)
			}
		})
	}
}

// residentBytes returns the process's resident set.
func residentBytes(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib * 1024
		}
	}
	return 0
}
