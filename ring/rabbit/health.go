package rabbit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// health decides whether the target is usable. It is usable while the control connection is up, no link is blocked, and
// no doubt is left. Any goroutine may call its methods.
type health struct {
	changed      chan struct{} // capacity 1; signalled when the target becomes usable or unusable
	usableGauge  prometheus.Gauge
	blockedGauge prometheus.Gauge

	mu          sync.Mutex
	downReason  string                // reason why the control connection is down, "" if it is up
	doubtReason string                // reason why the next probe must pass first, "" without a doubt
	passed      time.Time             // begin of the last probe that passed; zero: none has
	doubts      int                   // number of doubts so far; a probe clears only doubts from before its begin
	blocked     map[*wire.Link]string // blocked links, with the broker's reason
	verdict     error                 // the result of Usable
	warnings    map[string][]string   // by role of the connection
}

func newHealth(m *metrics) *health {
	h := &health{
		changed:      make(chan struct{}, 1),
		usableGauge:  m.usable,
		blockedGauge: m.blocked,
		downReason:   "not connected yet",
		blocked:      map[*wire.Link]string{}, warnings: map[string][]string{},
	}
	h.verdict = h.computeVerdict()
	return h
}

func (h *health) usableErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verdict
}

// connectionDown records that the control connection is down, and the reason.
func (h *health) connectionDown(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.downReason = why
	h.update()
}

// raiseDoubt makes the target unusable until a probe passes that begins later.
func (h *health) raiseDoubt(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubts++
	h.doubtReason = why
	h.update()
}

// doubtCount returns the number of doubts so far. A probe passes it to probePassed.
func (h *health) doubtCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubts
}

// probePassed records that a probe of the control connection has passed. doubtsBefore is the doubtCount at the begin of
// the probe, began the time.
func (h *health) probePassed(doubtsBefore int, began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.downReason, h.passed = "", began
	if doubtsBefore == h.doubts {
		h.doubtReason = ""
	}
	h.update()
}

// passedSince reports whether a probe has passed that began after the time.
func (h *health) passedSince(t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passed.After(t)
}

func (h *health) block(l *wire.Link, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked[l] = why
	h.update()
}

func (h *health) unblock(l *wire.Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.blocked, l)
	h.update()
}

// update computes the verdict again. The caller holds mu.
func (h *health) update() {
	before := h.verdict
	h.verdict = h.computeVerdict()
	h.blockedGauge.Set(float64(len(h.blocked)))
	if h.verdict == nil {
		h.usableGauge.Set(1)
	} else {
		h.usableGauge.Set(0)
	}
	if (before == nil) != (h.verdict == nil) {
		clock.Signal(h.changed)
	}
}

func (h *health) computeVerdict() error {
	for _, why := range h.blocked {
		return fmt.Errorf("the broker takes no messages: %s", why)
	}
	switch {
	case h.downReason != "":
		return errors.New(h.downReason)
	case h.doubtReason != "":
		return errors.New(h.doubtReason)
	}
	return nil
}

// warn sets the warnings of a role and reports whether they have changed.
func (h *health) warn(role string, warnings []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Equal(h.warnings[role], warnings) {
		return false
	}
	h.warnings[role] = warnings
	return true
}

// warned returns the warnings of all roles, nil without a warning.
func (h *health) warned() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, role := range slices.Sorted(maps.Keys(h.warnings)) {
		all = append(all, h.warnings[role]...)
	}
	return all
}
