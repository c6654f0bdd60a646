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

// Step is what happened in one step. A series and its readers share what a step holds, so it never changes.
type Step struct {
	Total        Figures
	Applications map[string]*Figures // the busiest, at most MaxApplications
}

// plus returns the sum of two steps. It may have more than MaxApplications, and shares figures with both.
func (s *Step) plus(other *Step) Step {
	sum := Step{Total: s.Total, Applications: s.Applications}
	sum.Total.Add(&other.Total)
	if len(other.Applications) == 0 {
		return sum
	}
	sum.Applications = make(map[string]*Figures, len(s.Applications)+len(other.Applications))
	maps.Copy(sum.Applications, s.Applications)
	for name, f := range other.Applications {
		if mine := s.Applications[name]; mine != nil {
			both := *mine
			both.Add(f)
			f = &both
		}
		sum.Applications[name] = f
	}
	return sum
}

// keepBusiest forgets all applications but the busiest. The caller alone has the step.
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

// series are the steps of one range, and as many more as a Joined may end earlier, by step number modulo their number.
// next is the number of the step after the latest one.
type series struct {
	Range

	kept []Step
	next int64
}

func newSeries(r Range) *series { return &series{Range: r, kept: make([]Step, r.Steps+missingSteps)} }

// oldest returns the number of the oldest step that is kept.
func (s *series) oldest() int64 { return s.next - int64(len(s.kept)) }

// add adds figures to a step, unless it is too old. With busiest it then keeps the busiest applications of the step
// alone. Steps between the latest one and this one become empty.
func (s *series) add(number int64, figures *Step, busiest bool) {
	if number < s.oldest() {
		return
	}
	size := int64(len(s.kept))
	for first := max(s.next, number-size+1); first <= number; first++ {
		s.kept[first%size] = Step{}
	}
	s.next = max(s.next, number+1)
	sum := s.kept[number%size].plus(figures)
	if busiest {
		sum.keepBusiest()
	}
	s.kept[number%size] = sum
}

// steps returns count steps from a step on. Steps that were never reached, and steps that are too old, are empty.
func (s *series) steps(from int64, count int) []Step {
	steps := make([]Step, count)
	for i := range steps {
		if n := from + int64(i); n >= 0 && n < s.next && n >= s.oldest() {
			steps[i] = s.kept[n%int64(len(s.kept))]
		}
	}
	return steps
}
