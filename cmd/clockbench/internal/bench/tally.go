package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// tally checks and counts the rings of a series as they arrive. It is safe for concurrent use.
type tally struct {
	series series
	ringAt func(n int) int64 // due time of alarm n, in epoch milliseconds
	offset clockOffset
	seed   maphash.Seed

	mu      sync.Mutex
	first   []uint64        // by alarm: hash of the message id of its first ring; 0: no ring yet
	late    []time.Duration // lateness of first rings, in order of arrival until lateness sorts it
	counts  Rings
	last    time.Time // arrival of the latest first ring
	arrival time.Time // arrival of the latest ring, also of a duplicate
	whole   chan struct{}
	scratch []byte
}

// Rings counts the rings of a series by the result of their check.
type Rings struct {
	Stage      string `json:"stage"`
	Expected   int    `json:"expected"`
	Rung       int    `json:"rung"`
	Lost       int    `json:"lost"`
	Early      int    `json:"early"`
	Duplicates int    `json:"duplicates"` // repeated with the same message id
	Again      int    `json:"again"`      // repeated with another message id
	Wrong      int    `json:"wrong"`      // with another payload than the set
	Foreign    int    `json:"foreign"`    // not of this series
}

// copies returns the number of rings that repeat an earlier one, under its message id or another one.
func (r *Rings) copies() int { return r.Duplicates + r.Again }

// ring is one received ring. The consumer owns the bytes.
type ring struct {
	messageID, businessID, payload []byte
	rungAt                         int64 // time of the claim by clockd's header, in epoch milliseconds; 0: no header
	dueAt                          int64 // due time of a delayed message by clockd's header, in epoch milliseconds; 0: as the tally says
	at                             time.Time
}

func newTally(s series, n int, ringAt func(n int) int64, offset clockOffset) *tally {
	return &tally{
		series: s, ringAt: ringAt, offset: offset, seed: maphash.MakeSeed(), first: make([]uint64, n),
		late: make([]time.Duration, 0, n), counts: Rings{Expected: n}, whole: make(chan struct{}),
	}
}

// take checks and counts a ring.
func (t *tally) take(r *ring) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrival = r.at
	n, ok := t.series.number(r.businessID)
	if !ok || n >= len(t.first) {
		t.counts.Foreign++
		return
	}
	hash := maphash.Bytes(t.seed, r.messageID) | 1
	switch t.first[n] {
	case 0:
		t.first[n] = hash
		t.takeFirst(n, r)
	case hash:
		t.counts.Duplicates++
	default:
		t.counts.Again++
	}
}

func (t *tally) takeFirst(n int, r *ring) {
	due := cmp.Or(r.dueAt, t.ringAt(n))
	late := t.offset.late(r.at, due)
	t.late = append(t.late, late)
	if late < 0 || r.rungAt != 0 && r.rungAt < due {
		t.counts.Early++
	}
	if t.scratch = t.series.appendPayload(t.scratch[:0], n); !bytes.Equal(t.scratch, r.payload) {
		t.counts.Wrong++
	}
	t.last = r.at
	if t.counts.Rung++; t.counts.Rung == t.counts.Expected {
		close(t.whole)
	}
}

// waitRung waits until n alarms have rung.
func (t *tally) waitRung(ctx context.Context, n int) error {
	for t.sum().Rung < n {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for %d rings: %w", n, err)
		}
	}
	return nil
}

// duplicateWait is how long wait waits for duplicates after the last ring.
const duplicateWait = 500 * time.Millisecond

// wait waits until all rings have come, or until no ring has come for lostAfter since from, and returns the counts.
func (t *tally) wait(ctx context.Context, from time.Time, lostAfter time.Duration) (Rings, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.whole:
			return t.sum(), sleep(ctx, duplicateWait)
		case <-ctx.Done():
			return t.sum(), fmt.Errorf("wait for rings: %w", context.Cause(ctx))
		case <-tick.C:
			if t.silent(from, lostAfter) {
				return t.sum(), nil
			}
		}
	}
}

func (t *tally) silent(from time.Time, lostAfter time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.arrival.After(from) {
		from = t.arrival
	}
	return time.Since(from) > lostAfter
}

// sum returns the counts so far.
func (t *tally) sum() Rings {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Lost = c.Expected - c.Rung
	return c
}

// lateness returns the spread of the lateness of first rings.
func (t *tally) lateness() spread {
	t.mu.Lock()
	defer t.mu.Unlock()
	return spreadOf(t.late)
}

// firstLateness returns the lateness of the earliest ring; 0 if none has come.
func (t *tally) firstLateness() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.late) == 0 {
		return 0
	}
	return t.late[0]
}

// lastRing returns the arrival of the latest first ring.
func (t *tally) lastRing() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// sleep sleeps for d. If ctx ends before, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
