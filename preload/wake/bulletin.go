package wake

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Bulletin is a Courier through the database. A node posts its wake-ups as notices, several wake-ups in one notice. All
// nodes hear all notices, and each node uses the wake-ups of the shards that it loads.
type Bulletin struct {
	notifier store.Notifier
	heard    func(body []byte) // takes a wake-up
	missed   func()            // called when wake-ups may have been lost
	log      *slog.Logger
	dropped  prometheus.Counter
	errors   prometheus.Counter
	wake     chan struct{} // capacity 1; signalled when wake-ups wait

	mu      sync.Mutex
	waiting [][]byte // wake-ups to post
	bytes   int      // their size; at most maxWaitingBytes
}

var _ Courier = (*Bulletin)(nil)

const (
	// maxWaitingBytes bounds the size of the wake-ups that wait to be posted.
	maxWaitingBytes = 1 << 20
	// maxNotices is the largest number of notices in one Notify call.
	maxNotices = 32
)

// bulletinBackoff is the wait after failed posts in a row, and after failed connections in a row.
var bulletinBackoff = clock.Backoff{First: 100 * time.Millisecond, Last: 5 * time.Second}

// BulletinDeps are the dependencies of a Bulletin.
type BulletinDeps struct {
	Notifier   store.Notifier
	Heard      func(body []byte) // takes each wake-up of any node, this node included
	Missed     func()            // called when the Bulletin begins to listen, at first and after each lost connection: wake-ups may be lost
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// NewBulletin returns a Bulletin. It posts and hears nothing before Run.
func NewBulletin(deps BulletinDeps) *Bulletin {
	b := &Bulletin{
		notifier: deps.Notifier, heard: deps.Heard, missed: deps.Missed, log: deps.Log, wake: make(chan struct{}, 1),
		dropped: newCounter("notices_dropped_total",
			"Wake-ups that could not be posted to the database, or had no room in the queue. Sweeps find their alarms."),
		errors: newCounter("notice_errors_total",
			"Failed posts of wake-ups, and failed connections that listen for them."),
	}
	deps.Registerer.MustRegister(b.dropped, b.errors)
	return b
}

// Send queues a wake-up. It drops and counts a wake-up for which the queue has no room.
func (b *Bulletin) Send(_ int, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+len(body) > maxWaitingBytes {
		b.dropped.Inc()
		return
	}
	b.waiting, b.bytes = append(b.waiting, body), b.bytes+len(body)
	clock.Signal(b.wake)
}

// Run posts and listens until ctx ends.
func (b *Bulletin) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { b.post(ctx) })
	running.Go(func() { b.listen(ctx) })
	running.Wait()
	return nil
}

// post posts queued wake-ups until ctx ends. When a post fails, it drops the wake-ups in hand and waits before the next
// post.
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
			b.countDropped(notices)
			b.pause(ctx, &failures)
			break
		}
	}
}

// take empties the queue and returns its wake-ups as notices. Each line of a notice is a wake-up.
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

// countDropped counts the wake-ups in notices as dropped.
func (b *Bulletin) countDropped(notices []string) {
	for _, n := range notices {
		b.dropped.Add(float64(1 + strings.Count(n, "\n")))
	}
}

// listen hears notices until ctx ends. It connects again when it loses the connection.
func (b *Bulletin) listen(ctx context.Context) {
	failures := 0
	ready := func() {
		failures = 0
		b.missed()
	}
	for ctx.Err() == nil {
		if err := b.notifier.Listen(ctx, ready, b.deliver); err != nil && ctx.Err() == nil {
			b.errors.Inc()
			b.log.Warn("could not hear other nodes' wake-ups", "err", err)
		}
		b.pause(ctx, &failures)
	}
}

// deliver passes each wake-up of a notice on.
func (b *Bulletin) deliver(notice string) {
	for line := range strings.SplitSeq(notice, "\n") {
		b.heard([]byte(line))
	}
}

// pause waits after a failure, longer after each further failure, or until ctx ends.
func (b *Bulletin) pause(ctx context.Context, failures *int) {
	wait := bulletinBackoff.Wait(*failures)
	*failures++
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}
