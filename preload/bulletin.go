package preload

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/store"
)

// Bulletin is a Courier through the database: a node posts its wake-ups for all to read, several in one notice, and who
// rings a shard heeds what is of it.
type Bulletin struct {
	notifier store.Notifier
	heard    func(body []byte)
	missed   func()
	log      *slog.Logger
	dropped  prometheus.Counter
	errors   prometheus.Counter
	wake     chan struct{} // capacity 1: something is waiting

	mu      sync.Mutex
	waiting [][]byte
	bytes   int
}

var _ Courier = (*Bulletin)(nil)

const (
	// maxPosted bounds what waits to be posted, in bytes.
	maxPosted = 1 << 20
	// maxNotices is how many notices are posted in one call, at most.
	maxNotices = 32
)

// NewBulletin returns a Bulletin, which needs its Run. heard gets each wake-up that any node posts, this one included. missed is
// called when wake-ups may have been lost and all are heard from now on: at the beginning, and after a connection was lost.
func NewBulletin(n store.Notifier, heard func(body []byte), missed func(), log *slog.Logger, reg prometheus.Registerer) *Bulletin {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_preload_" + name, Help: help})
	}
	b := &Bulletin{
		notifier: n, heard: heard, missed: missed, log: log, wake: make(chan struct{}, 1),
		dropped: counter("notices_dropped_total", "Wake-ups that the database did not take in time; the sweep finds their alarms."),
		errors:  counter("notice_errors_total", "Wake-ups' connections to the database that failed, and posts."),
	}
	reg.MustRegister(b.dropped, b.errors)
	return b
}

// Send queues a wake-up. What has no room is dropped and counted.
func (b *Bulletin) Send(_ int, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+len(body) > maxPosted {
		b.dropped.Inc()
		return
	}
	b.waiting, b.bytes = append(b.waiting, body), b.bytes+len(body)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run posts and listens until ctx ends.
func (b *Bulletin) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { b.post(ctx) })
	running.Go(func() { b.listen(ctx) })
	running.Wait()
	return nil
}

// post posts what is sent. A post that fails is dropped, and the next one waits.
func (b *Bulletin) post(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		for notices := b.take(); len(notices) > 0 && ctx.Err() == nil; {
			n := min(len(notices), maxNotices)
			if err := b.notifier.Notify(ctx, notices[:n]); err == nil {
				notices, failures = notices[n:], 0
				continue
			} else if ctx.Err() == nil {
				b.errors.Inc()
				b.log.Warn("could not post wake-ups", "err", err)
			}
			b.lost(notices)
			b.pause(ctx, &failures)
			break
		}
	}
}

// take returns what is waiting as notices of one or more lines, each a wake-up.
func (b *Bulletin) take() (notices []string) {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting, b.bytes = nil, 0
	b.mu.Unlock()
	for len(waiting) > 0 {
		n, size := 1, len(waiting[0])
		for n < len(waiting) && size+1+len(waiting[n]) <= store.MaxNotice {
			size += 1 + len(waiting[n])
			n++
		}
		notices = append(notices, string(bytes.Join(waiting[:n], []byte("\n"))))
		waiting = waiting[n:]
	}
	return notices
}

// lost counts the wake-ups of notices.
func (b *Bulletin) lost(notices []string) {
	for _, n := range notices {
		b.dropped.Add(float64(1 + strings.Count(n, "\n")))
	}
}

// listen hears what is posted, and connects again when the connection is lost.
func (b *Bulletin) listen(ctx context.Context) {
	failures := 0
	ready := func() {
		failures = 0
		b.missed()
	}
	for ctx.Err() == nil {
		if err := b.notifier.Listen(ctx, ready, b.read); err != nil && ctx.Err() == nil {
			b.errors.Inc()
			b.log.Warn("could not hear other nodes' wake-ups", "err", err)
		}
		b.pause(ctx, &failures)
	}
}

func (b *Bulletin) read(notice string) {
	for line := range strings.SplitSeq(notice, "\n") {
		b.heard([]byte(line))
	}
}

// pause waits after a failure, longer each time, or until ctx ends.
func (b *Bulletin) pause(ctx context.Context, failures *int) {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	pause := min(last, first<<min(*failures, 10))
	*failures++
	select {
	case <-ctx.Done():
	case <-time.After(pause/2 + rand.N(pause/2)):
	}
}
