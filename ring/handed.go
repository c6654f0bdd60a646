package ring

import (
	"sync"

	"github.com/clockd/clockd/clock"
)

// HandedBytes is the memory of payloads, in bytes, that a target may have handed to receivers at once: to reserves and
// subscribers that have not reported yet. A receiver that does not read holds its payloads until its write ends. An
// application may take a quarter of it, so the receivers of one application leave memory to the others.
const HandedBytes = 16 << 20

// handedRing is the memory of a ring beside its payload.
const handedRing = 512

// Handed counts the payloads that a target has handed to receivers. The zero value is ready.
type Handed struct {
	mu            sync.Mutex
	all           int
	byApplication map[string]int
	refused       map[string]bool // applications that found no memory since the last Give
}

// HandedSize returns the memory of the rings with these indexes.
func HandedSize(rings []clock.Ring, indexes []int) (bytes int) {
	for _, i := range indexes {
		bytes += handedRing + len(rings[i].Payload)
	}
	return bytes
}

// Take takes memory for rings of an application, and returns true, or takes none and returns false. An application that
// holds nothing may take more than its part, because a payload may be larger.
func (h *Handed) Take(application string, bytes int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.byApplication[application]
	if h.all > 0 && h.all+bytes > HandedBytes || mine > 0 && mine+bytes > HandedBytes/4 {
		if h.refused == nil {
			h.refused = map[string]bool{}
		}
		h.refused[application] = true
		return false
	}
	if h.byApplication == nil {
		h.byApplication = map[string]int{}
	}
	h.all += bytes
	h.byApplication[application] += bytes
	return true
}

// Give gives memory back. It reports whether an application has found none since the last Give.
func (h *Handed) Give(application string, bytes int) (awaited bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all -= bytes
	if h.byApplication[application] -= bytes; h.byApplication[application] == 0 {
		delete(h.byApplication, application)
	}
	awaited = len(h.refused) > 0
	clear(h.refused)
	return awaited
}

// Refused reports whether the application has found no memory since the last Give.
func (h *Handed) Refused(application string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused[application]
}
