package ring

import (
	"maps"
	"testing"
	"unique"
)

// Late rings are blamed on an application only beside applications whose rings were all confirmed.
func TestLateRingsAreBlamedOnSlowApplications(t *testing.T) {
	late, confirmed, mixed := tally{awaited: 3}, tally{confirmed: 3}, tally{confirmed: 1, awaited: 2}
	for name, c := range map[string]struct {
		tallies []tally
		failed  []int
	}{
		"alone":                            {[]tally{late}, []int{0}},
		"all late":                         {[]tally{late, late, late}, []int{0, 0, 0}},
		"one of two":                       {[]tally{late, confirmed}, []int{3, 0}},
		"one of many":                      {[]tally{confirmed, confirmed, late, confirmed}, []int{0, 0, 3, 0}},
		"most are late":                    {[]tally{confirmed, late, late}, []int{0, 0, 0}},
		"others are late in part":          {[]tally{mixed, late}, []int{0, 0}},
		"in part, beside confirmed others": {[]tally{mixed, confirmed, late}, []int{0, 0, 0}},
		"in part, beside many others":      {[]tally{mixed, confirmed, confirmed, late}, []int{0, 0, 0, 3}},
	} {
		r := result{tallies: map[unique.Handle[string]]*tally{}}
		want := map[unique.Handle[string]]int{}
		for i := range c.tallies {
			application, own := unique.Make(string(rune('a'+i))), c.tallies[i]
			r.tallies[application], want[application] = &own, c.failed[i]
		}
		r.blameLate()
		got := map[unique.Handle[string]]int{}
		for application, own := range r.tallies {
			got[application] = own.failed
			if own.failed != own.silent || own.failed != own.undelivered || (own.failed > 0) != (own.reason != "") {
				t.Errorf("%s: %+v", name, own)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: failed rings %v, want %v", name, got, want)
		}
	}
}
