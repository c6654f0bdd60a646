//go:build soak

package repeat

import (
	"testing"
	"time"
)

// TestSoakOccurrencesMatchAWalkAtEveryTransitionOfFortyYears walks over all changes of all zones, past and foreseen: no
// local time rings twice, and none is lost.
func TestSoakOccurrencesMatchAWalkAtEveryTransitionOfFortyYears(t *testing.T) {
	t.Logf("%d transitions", walkTransitions(t, 2000, 2040))
}

// TestSoakOccurrencesMatchAWalkOverTheYear walks each time zone over a whole year.
func TestSoakOccurrencesMatchAWalkOverTheYear(t *testing.T) {
	year := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, name := range Data().Names() {
		t.Run(name, func(t *testing.T) { walk(t, name, year, year+365*day) })
	}
}
