package preload

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// maxUnsent bounds the rows that wait to be sent.
const maxUnsent = 1 << 15

// sender sends wake-ups for rows that this node committed and other nodes ring. Rows that arrive during a send go together in the next
// send, by shard.
type sender struct {
	courier Courier
	metrics *metrics
	wake    chan struct{} // capacity 1; signalled when rows wait

	mu      sync.Mutex
	waiting map[int][]store.Due // rows to send, by shard
	count   int                 // rows in waiting; at most maxUnsent
}

func newSender(c Courier, m *metrics) *sender {
	return &sender{courier: c, metrics: m, wake: make(chan struct{}, 1), waiting: map[int][]store.Due{}}
}

// push queues rows. It never blocks. It drops and counts the rows beyond maxUnsent.
func (s *sender) push(rows []store.Due) {
	if len(rows) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	room := min(len(rows), maxUnsent-s.count)
	for _, d := range rows[:room] {
		s.waiting[d.Shard] = append(s.waiting[d.Shard], d)
	}
	s.count += room
	s.metrics.wakesDropped.Add(float64(len(rows) - room))
	clock.Signal(s.wake)
}

// run sends queued rows until ctx ends. At the end it sends the rows that still wait.
func (s *sender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.send()
			return
		case <-s.wake:
			s.send()
		}
	}
}

// send hands all queued rows to the courier.
func (s *sender) send() {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting, s.count = map[int][]store.Due{}, 0
	s.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(waiting)) {
		for _, body := range encodeWakes(shard, waiting[shard]) {
			s.courier.Send(shard, body)
		}
		s.metrics.wakesSent.Add(float64(len(waiting[shard])))
	}
}
