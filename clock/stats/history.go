package stats

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// Range is a time for which figures are kept, and the length of its steps.
type Range struct {
	Name  string
	Step  time.Duration
	Steps int
}

// The ranges of a History.
var (
	Hour = Range{"hour", 5 * time.Second, 720}
	Day  = Range{"day", time.Minute, 1440}
)

// stepAt returns the number of the step that contains the instant.
func (r Range) stepAt(i clock.Instant) int64 { return int64(i) / r.Step.Milliseconds() }

// begin returns the begin of a step.
func (r Range) begin(step int64) clock.Instant { return clock.Instant(step * r.Step.Milliseconds()) }

// Step is what happened in one step.
type Step struct {
	Total        Figures
	Applications map[string]*Figures // the busiest, at most MaxApplications
}

// add adds another step. The result may have more than MaxApplications.
func (s *Step) add(other *Step) {
	s.Total.Add(&other.Total)
	for name, f := range other.Applications {
		if s.Applications == nil {
			s.Applications = map[string]*Figures{}
		}
		if s.Applications[name] == nil {
			s.Applications[name] = &Figures{}
		}
		s.Applications[name].Add(f)
	}
}

// keepBusiest forgets all applications but the busiest.
func (s *Step) keepBusiest() {
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		if f := s.Applications[name]; f.Activity() == 0 {
			delete(s.Applications, name)
		}
	}
	for _, name := range busiest(s.Applications)[min(MaxApplications, len(s.Applications)):] {
		delete(s.Applications, name)
	}
}

// busiest returns the names of the applications, the busiest first.
func busiest(applications map[string]*Figures) []string {
	names := slices.Collect(maps.Keys(applications))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(applications[b].Activity(), applications[a].Activity()), strings.Compare(a, b))
	})
	return names
}

// series are the steps of one range, by step number modulo the range's steps. next is the number of the step after the
// latest one.
type series struct {
	Range

	steps []Step
	next  int64
}

func newSeries(r Range) *series { return &series{Range: r, steps: make([]Step, r.Steps)} }

// at returns a step to add to, empty if nothing was added to it before. Steps between the latest one and this one
// become empty. It returns nil for a step that is too old.
func (s *series) at(step int64) *Step {
	if step < s.next-int64(s.Steps) {
		return nil
	}
	for first := max(s.next, step-int64(s.Steps)+1); first <= step; first++ {
		s.steps[first%int64(s.Steps)] = Step{}
	}
	s.next = max(s.next, step+1)
	return &s.steps[step%int64(s.Steps)]
}

// copies returns copies of count steps from a step on. Steps that were never reached, and steps that are too old, are
// empty.
func (s *series) copies(from int64, count int) []Step {
	steps := make([]Step, count)
	for i := range steps {
		n := from + int64(i)
		if n >= 0 && n < s.next && n >= s.next-int64(s.Steps) {
			steps[i].add(&s.steps[n%int64(s.Steps)])
		}
	}
	return steps
}
