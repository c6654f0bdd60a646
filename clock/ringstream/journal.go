package ringstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Bounds of a Journal.
const (
	// applicationEntries is the most rings of one application that are remembered. The buffers of a few connections
	// hold fewer.
	applicationEntries = 16 << 10
	// journalEntries is the most rings of all applications that are remembered. They take about 10 MB.
	journalEntries = 128 << 10
	// resumeTime is how long the rings of an ended stream are remembered.
	resumeTime = time.Minute
	// maxLastID is the longest id that a client may resume from, in bytes. The journal makes no longer one.
	maxLastID = 64
)

// Resender sends rings again. *clock.Service implements it.
type Resender interface {
	Resend(ctx context.Context, resends []clock.Resend) []*clock.Pending
}

// Deps are the parts that a Journal uses.
type Deps struct {
	Alarms     Resender
	Registerer prometheus.Registerer // registry of the journal's metrics
}

// Journal remembers the rings that were written last to the streams of this process, so that a client that connects
// again can resume its stream. Methods may be called by several goroutines at once.
type Journal struct {
	alarms  Resender
	metrics *metrics

	mu           sync.Mutex
	applications map[string]*application
	entries      int // entries of all applications
}

// NewJournal returns an empty Journal.
func NewJournal(deps Deps) (*Journal, error) {
	if deps.Alarms == nil || deps.Registerer == nil {
		return nil, errors.New("alarms and registerer must not be nil")
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &Journal{alarms: deps.Alarms, metrics: m, applications: map[string]*application{}}, nil
}

// session is one client's stream, and the streams with which the client has resumed it.
type session struct {
	position string    // id of the session, before its first ring
	after    string    // id from which the client resumed last; empty: it has not resumed
	stream   *Record   // open stream; nil: it has ended
	ended    time.Time // when the last stream ended
}

// expired reports whether the session can no longer be resumed.
func (s *session) expired() bool { return s.stream == nil && time.Since(s.ended) >= resumeTime }

// Open opens the record of a stream. lastID names the last ring that the client has of its former stream, or the
// position of that stream (Opening.Position). It is empty if the client has had no stream. If the former stream is
// still open, it ends. The caller must call Close.
func (j *Journal) Open(name, lastID string) *Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := j.applications[name]
	if a == nil {
		a = &application{name: name}
		j.applications[name] = a
	}
	s, begin := a.find(lastID)
	resumed := NotAsked
	switch {
	case s != nil:
		resumed = Resumed
	case lastID != "":
		resumed = Unknown
	}
	j.metrics.opened(resumed)
	if s == nil {
		s = &session{position: "stream-" + rand.Text()}
	} else if s.stream != nil {
		s.stream.end()
	}
	r := &Record{journal: j, application: a, session: s, missing: a.takeMissing(s, begin)}
	r.over, r.end = context.WithCancel(context.Background())
	r.opening = Opening{Position: s.position, Resumed: resumed, Missing: len(r.missing)}
	if s.stream = r; len(lastID) <= maxLastID {
		s.after = lastID
	}
	a.open++
	j.add(a, entry{session: s})
	return r
}

// note notes rings of a stream before they are written. It returns false if the client has resumed the stream with
// another one.
func (j *Journal) note(r *Record, rings []clock.Ring) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.session.stream != r {
		return false
	}
	for i := range rings {
		j.add(r.application, entry{session: r.session, ring: rings[i].ID(), claimID: rings[i].ClaimID})
	}
	return true
}

// close notes the end of a stream.
func (j *Journal) close(r *Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.end()
	if r.session.stream == r {
		r.session.stream, r.session.ended = nil, time.Now()
	}
	a := r.application
	if a.open--; a.expiry == nil {
		a.expiry = time.AfterFunc(resumeTime, func() { j.expire(a) })
	}
}

// expire forgets the sessions of the application that have expired.
func (j *Journal) expire(a *application) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.expiry = nil
	j.forget(a, a.compact)
	if len(a.entries) == 0 && a.open == 0 {
		if j.applications[a.name] == a {
			delete(j.applications, a.name)
		}
		return
	}
	if left := a.untilExpiry(); left > 0 {
		a.expiry = time.AfterFunc(left, func() { j.expire(a) })
	}
}

// forgetMissing forgets entries of the session that need not be sent again any more.
func (j *Journal) forgetMissing(r *Record, done map[entry]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.application.forgetMissing(done)
}

// add adds an entry, and forgets old ones if there are too many.
func (j *Journal) add(a *application, e entry) {
	if len(a.entries) >= applicationEntries {
		j.forget(a, a.compact)
	}
	if len(a.entries) >= applicationEntries {
		j.forget(a, a.forgetOldest)
	}
	a.entries = append(a.entries, e)
	j.metrics.entries.Inc()
	if j.entries++; j.entries > journalEntries {
		largest := slices.MaxFunc(slices.Collect(maps.Values(j.applications)),
			func(x, y *application) int { return len(x.entries) - len(y.entries) })
		j.forget(largest, largest.forgetOldest)
	}
}

// forget calls a function that forgets entries of the application.
func (j *Journal) forget(a *application, some func()) {
	before := len(a.entries)
	some()
	j.entries -= before - len(a.entries)
	j.metrics.entries.Sub(float64(before - len(a.entries)))
}
