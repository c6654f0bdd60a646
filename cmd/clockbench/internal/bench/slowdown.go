package bench

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// slowdown makes a proxy hold back what its server sends. It begins fast.
type slowdown struct {
	mu          sync.Mutex
	least, most time.Duration // bounds of the random delays; 0: none
	silentUntil time.Time     // nothing passes before
}

// delay holds back everything that arrives from now on, each piece for a random time within the bounds.
func (s *slowdown) delay(least, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least, s.most = least, most
}

// silence lets nothing pass for d.
func (s *slowdown) silence(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silentUntil = time.Now().Add(d)
}

// end lets everything pass at once, also the bytes that are held back.
func (s *slowdown) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least, s.most, s.silentUntil = 0, 0, time.Time{}
}

// release returns when a piece may pass that arrives now.
func (s *slowdown) release() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.silentUntil.After(now) {
		return s.silentUntil
	}
	if s.most == 0 {
		return now
	}
	return now.Add(s.least + rand.N(s.most-s.least+1)) //nolint:gosec // no secret
}

// fast reports whether pieces pass at once.
func (s *slowdown) fast() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most == 0 && s.silentUntil.Before(time.Now())
}

const (
	heldPieces   = 1024                  // pieces of a connection that are held back, at most; the server waits with the others
	releaseCheck = 10 * time.Millisecond // time between two looks whether a piece may pass
)

// piece is what one read of the server's bytes brought.
type piece struct {
	bytes   []byte
	release time.Time
}

// forward is forward for what a server sends: it writes each piece when it may pass. It returns when either side is
// closed, or ctx ends.
func (s *slowdown) forward(ctx context.Context, to, from net.Conn, c *framer, p *traffic) {
	held := make(chan piece, heldPieces)
	var writing sync.WaitGroup
	writing.Go(func() {
		for next := range held {
			for time.Now().Before(next.release) && !s.fast() && ctx.Err() == nil {
				_ = sleep(ctx, releaseCheck)
			}
			if _, err := to.Write(next.bytes); err != nil {
				_ = from.Close() // ends forward
			}
		}
	})
	forward(holder{s, held}, from, c, p)
	close(held)
	writing.Wait()
}

// holder is an io.Writer that holds back the bytes written to it.
type holder struct {
	slowdown *slowdown
	held     chan<- piece
}

func (h holder) Write(b []byte) (int, error) {
	h.held <- piece{bytes.Clone(b), h.slowdown.release()}
	return len(b), nil
}
