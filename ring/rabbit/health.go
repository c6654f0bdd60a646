package rabbit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// health decides whether the target is usable: the control connection is up, no link is blocked, and no doubt is left.
// Any goroutine.
type health struct {
	changed chan struct{} // capacity 1: usable has flipped
	usable  prometheus.Gauge
	blocks  prometheus.Gauge

	mu       sync.Mutex
	control  string              // why the control connection is not up, "" when it is
	doubt    string              // why a probe has to pass first, "" when none has to
	doubts   int                 // counts doubts, so that a probe dispels only those from before it began
	blocked  map[*link]string    // with the broker's reason
	verdict  error               // what Usable answers
	warnings map[string][]string // by role of the connection that has them
}

func newHealth(m *metrics) *health {
	h := &health{
		changed: make(chan struct{}, 1),
		usable:  m.usable,
		blocks:  m.blocked,
		control: "not connected yet",
		blocked: map[*link]string{}, warnings: map[string][]string{},
	}
	h.verdict = h.judge()
	return h
}

func (h *health) answer() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verdict
}

// down says that the control connection is not up, and why.
func (h *health) down(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.control = why
	h.decide()
}

// question makes the target unusable until a probe that begins later has passed.
func (h *health) question(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubts++
	h.doubt = why
	h.decide()
}

// asked returns what up needs to know which doubts were there when a probe began.
func (h *health) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doubts
}

// up says that a probe of the control connection has passed.
func (h *health) up(asked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.control = ""
	if asked == h.doubts {
		h.doubt = ""
	}
	h.decide()
}

func (h *health) block(l *link, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked[l] = why
	h.decide()
}

func (h *health) unblock(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.blocked, l)
	h.decide()
}

// decide forms the verdict anew; mu is held.
func (h *health) decide() {
	before := h.verdict
	h.verdict = h.judge()
	h.blocks.Set(float64(len(h.blocked)))
	if h.verdict == nil {
		h.usable.Set(1)
	} else {
		h.usable.Set(0)
	}
	if (before == nil) != (h.verdict == nil) {
		signal(h.changed)
	}
}

func (h *health) judge() error {
	for _, why := range h.blocked {
		return fmt.Errorf("the broker takes no messages: %s", why)
	}
	switch {
	case h.control != "":
		return errors.New(h.control)
	case h.doubt != "":
		return errors.New(h.doubt)
	}
	return nil
}

// warn sets the warnings of a role and reports whether they are others than before.
func (h *health) warn(role string, warnings []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Equal(h.warnings[role], warnings) {
		return false
	}
	h.warnings[role] = warnings
	return true
}

// warned returns the warnings of all roles, nil if there are none.
func (h *health) warned() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, role := range slices.Sorted(maps.Keys(h.warnings)) {
		all = append(all, h.warnings[role]...)
	}
	return all
}
