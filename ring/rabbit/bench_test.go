package rabbit

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

// BenchmarkDeliver publishes batches of 300 rings of 200 bytes to a quorum queue and waits for their confirms. With
// gather=0 each message is one write; otherwise the lane gathers that many bytes.
func BenchmarkDeliver(b *testing.B) {
	for _, lanes := range []int{1, 3} {
		for _, gather := range []int{0, DefaultConfig().GatherBytes} {
			b.Run(fmt.Sprintf("lanes=%d/gather=%d", lanes, gather), func(b *testing.B) { deliver(b, lanes, gather) })
		}
	}
}

func deliver(b *testing.B, lanes, gather int) {
	broker := rabbittest.Shared(b)
	cfg := DefaultConfig()
	cfg.URL, cfg.Exchange, cfg.GatherBytes = broker.URL, broker.Exchange, gather
	s := startUsable(b, cfg)
	queue := broker.Queue("shop", rabbittest.Quorum)
	workers := make([]*lane, lanes)
	batches := make([][]clock.Ring, lanes)
	for i := range workers {
		workers[i], batches[i] = laneOf(b, s), rings("shop", 300)
		for j := range batches[i] {
			batches[i][j].Payload = []byte(strings.Repeat("x", 200))
		}
		wantAll(b, openAndDeliver(b.Context(), workers[i], batches[i], ampleLimits()), clock.Confirmed)
	}
	b.ReportAllocs()
	b.ResetTimer()
	const chunk = 300 // batches between two purges of the queue
	for done := 0; done < b.N; done += chunk {
		var left atomic.Int64
		left.Store(int64(min(chunk, b.N-done)))
		var wait sync.WaitGroup
		for i := range workers {
			wait.Go(func() {
				for left.Add(-1) >= 0 {
					if n := count(openAndDeliver(b.Context(), workers[i], batches[i], ampleLimits())); n[clock.Confirmed] != 300 {
						b.Errorf("outcomes %v", n)
					}
				}
			})
		}
		wait.Wait()
		b.StopTimer()
		_, err := broker.Ch.QueuePurge(queue, false)
		broker.Must(err)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N*300)/b.Elapsed().Seconds(), "rings/s")
}

// BenchmarkMessage measures the encoding of a message.
func BenchmarkMessage(b *testing.B) {
	e := newMessageEncoder("clock", FullHeaders)
	batch := rings("shop", 300)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := e.encode(&batch[i%len(batch)], &address{exchange: "clock", routingKey: "shop"}, 1); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
