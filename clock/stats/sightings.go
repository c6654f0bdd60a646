package stats

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// maxSeen is the most applications whose sightings wait for the database.
	maxSeen = 10_000
	// sightingEvery is the least time between two writes of one application's sighting.
	sightingEvery = time.Minute
	// sightingsOfWrite is the most sightings of one transaction.
	sightingsOfWrite = 100
	// sightingKept is the time for which a sighting is kept.
	sightingKept = 400 * 24 * time.Hour
	// sightingsOfDelete is the most sightings of one deletion.
	sightingsOfDelete = 1000
)

// Sightings is the table that says when applications last set or cancelled an alarm. A store.Sightings implements it.
type Sightings interface {
	AddSightings(ctx context.Context, seen map[string]clock.Instant) error
	DeleteSightings(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// sights are the sightings of a Writer.
type sights struct {
	waiting map[string]clock.Instant // not written; at most maxSeen
	written map[string]clock.Instant // written less than sightingEvery ago
}

func newSights() sights {
	return sights{waiting: map[string]clock.Instant{}, written: map[string]clock.Instant{}}
}

// add adds sightings of a step that has ended.
func (s *sights) add(seen map[string]clock.Instant) {
	for name, at := range seen {
		if _, known := s.waiting[name]; known || len(s.waiting) < maxSeen {
			s.waiting[name] = at
		}
	}
}

// due returns the applications whose sightings are to be written at a time; with all, every one that waits.
func (s *sights) due(now clock.Instant, all bool) (names []string) {
	maps.DeleteFunc(s.written, func(_ string, at clock.Instant) bool {
		return at > now || now.Sub(at) >= sightingEvery
	})
	for name := range s.waiting {
		if _, recent := s.written[name]; all || !recent {
			names = append(names, name)
		}
	}
	return names
}

// writeSightings writes sightings, at the end of a step. With all it also writes an application again that was just
// written.
func (w *Writer) writeSightings(ctx context.Context, all bool) error {
	seen, now := w.deps.Recorder.takeSeen()
	w.sights.add(seen)
	for part := range slices.Chunk(w.sights.due(now, all), sightingsOfWrite) {
		rows := make(map[string]clock.Instant, len(part))
		for _, name := range part {
			rows[name] = w.sights.waiting[name]
		}
		if err := w.deps.Sightings.AddSightings(ctx, rows); err != nil {
			return err
		}
		for name := range rows {
			delete(w.sights.waiting, name)
			w.sights.written[name] = now
		}
	}
	return nil
}
