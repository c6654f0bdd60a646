package storetest

import (
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// sightings are when applications were seen.
type sightings = map[string]clock.Instant

// readSightings reads the sightings of some applications.
func (f *fixture) readSightings(applications ...string) sightings {
	f.t.Helper()
	seen, err := f.Sightings(f.t.Context(), applications)
	ok(f.t, err, "read sightings")
	return seen
}

// testSightings demands that a sighting has the latest time, whatever the order in which times arrive.
func testSightings(t *testing.T, f *fixture) {
	long := strings.Repeat("z", 64)
	ok(t, f.AddSightings(t.Context(), sightings{long: t0, "b": t0 + 5, "a": t0}), "add sightings")
	ok(t, f.AddSightings(t.Context(), sightings{"a": t0 + 7, "b": t0}), "add a later and an earlier one")
	ok(t, f.AddSightings(t.Context(), nil), "add nothing")
	same(t, "sightings", f.readSightings("b", long, "a", "A", "unseen"), sightings{"a": t0 + 7, "b": t0 + 5, long: t0})
	same(t, "the sighting of one application", f.readSightings("a"), sightings{"a": t0 + 7})
	same(t, "sightings of no application", f.readSightings(), sightings{})
	for _, c := range []struct {
		before        clock.Instant
		limit, delete int
	}{{t0, 9, 0}, {t0 + 9, 1, 1}, {t0 + 7, 9, 1}} {
		n, err := f.DeleteSightings(t.Context(), c.before, c.limit)
		ok(t, err, "delete sightings")
		same(t, "deleted sightings", n, c.delete)
	}
	same(t, "sightings after deletions", f.readSightings("a", "b", long), sightings{"a": t0 + 7})
}

// testRacingSightings demands that nodes that add and delete the same sightings at the same moment do not fail each
// other.
func testRacingSightings(t *testing.T, f *fixture) {
	var nodes errgroup.Group
	const rounds, count = 10, 4
	applications := names("application", 20)
	latest := sightings{}
	for _, name := range applications {
		latest[name] = t0 + rounds - 1
	}
	for range count {
		nodes.Go(func() error {
			for round := range clock.Instant(rounds) {
				seen := sightings{}
				for _, name := range applications {
					seen[name] = t0 + round
				}
				if err := f.AddSightings(t.Context(), seen); err != nil {
					return err
				}
				if _, err := f.DeleteSightings(t.Context(), t0+rounds/2, 9); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ok(t, nodes.Wait(), "add and delete sightings")
	same(t, "sightings", f.readSightings(applications...), latest)
}
