package preload

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/clockd/clockd/store"
)

// maxUnsent bounds the rows that wait to be told to other nodes.
const maxUnsent = 1 << 15

// sender tells other nodes what was committed here and is theirs to ring. What comes while it sends goes together, by shard.
type sender struct {
	courier Courier
	metrics *metrics
	wake    chan struct{} // capacity 1: something is waiting

	mu      sync.Mutex
	waiting map[int][]store.Due // by shard
	count   int
}

func newSender(c Courier, m *metrics) *sender {
	return &sender{courier: c, metrics: m, wake: make(chan struct{}, 1), waiting: map[int][]store.Due{}}
}

// push queues rows; it never blocks. What has no room is dropped and counted.
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
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends, and then what is waiting.
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

// send hands all that is waiting to the courier.
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
