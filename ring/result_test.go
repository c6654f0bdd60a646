package ring

import (
	"maps"
	"testing"
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
		r := result{tallies: map[addressee]*tally{}}
		want := map[addressee]int{}
		for i := range c.tallies {
			application, own := withoutTarget(string(rune('a'+i))), c.tallies[i]
			r.tallies[application], want[application] = &own, c.failed[i]
		}
		r.blameLate()
		got := map[addressee]int{}
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

// In a round of the quarantine every reply shows that the target is not slow, and applications that were confirmed
// early have no tally.
func TestLateRingsAreBlamedInTheQuarantine(t *testing.T) {
	late, nacked, doubtful := tally{awaited: 3}, tally{failed: 3}, tally{failed: 3, silent: 3}
	early := map[addressee]bool{withoutTarget("early"): true}
	for name, c := range map[string]struct {
		others []tally
		early  map[addressee]bool
		silent bool
		blamed bool
	}{
		"alone":                           {nil, nil, false, false},
		"alone in a silent round":         {nil, nil, true, true},
		"all are late in a silent round":  {[]tally{late}, nil, true, true},
		"beside a nacked application":     {[]tally{nacked}, nil, false, true},
		"beside a silent application":     {[]tally{doubtful}, nil, false, false},
		"beside one confirmed early":      {nil, early, false, true},
		"most are late, one is confirmed": {[]tally{late, late, late}, early, false, false},
	} {
		own := late
		r := result{batch: batch{quarantined: []*watched{{}}, silent: c.silent},
			tallies: map[addressee]*tally{withoutTarget("own"): &own}, confirmedEarly: c.early}
		for i := range c.others {
			r.tallies[withoutTarget(string(rune('a'+i)))] = &c.others[i]
		}
		r.blameLate()
		if blamed := own.failed > 0; blamed != c.blamed {
			t.Errorf("%s: blamed %t", name, blamed)
		}
	}
}
