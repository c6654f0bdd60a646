package stats

import "time"

// MaxApplications is the most applications of a step that have figures of their own.
const MaxApplications = 8

// Figures are what happened in a step, or in several steps and nodes together.
type Figures struct {
	Sets     int64  // sets that were applied, also sets that changed nothing
	Cancels  int64  // cancels that were applied, also repeated ones
	Refused  int64  // sets and cancels that were refused
	Rings    int64  // confirmed rings
	Failed   int64  // tries of rings that failed or are in doubt
	Lateness Sketch // latenesses of confirmed rings that were their alarm's first try
}

// Add adds the figures of other.
func (f *Figures) Add(other *Figures) {
	f.Sets += other.Sets
	f.Cancels += other.Cancels
	f.Refused += other.Refused
	f.Rings += other.Rings
	f.Failed += other.Failed
	f.Lateness.Add(&other.Lateness)
}

// Activity returns the number of all counted events: it says how busy an application was.
func (f *Figures) Activity() int64 { return f.Sets + f.Cancels + f.Refused + f.Rings + f.Failed }

// live are the figures of the current step. Its histogram has all buckets, so that counting is one addition.
type live struct {
	Figures

	lateness [buckets]int64
}

func (l *live) late(lateness time.Duration) {
	l.lateness[bucketOf(lateness)]++
	l.Lateness.Max = max(l.Lateness.Max, lateness)
}

// finished returns the figures with a sketch of the histogram.
func (l *live) finished() Figures {
	for i, n := range &l.lateness {
		if n > 0 {
			l.Lateness.Buckets = append(l.Lateness.Buckets, Bucket{int16(i), n})
		}
	}
	return l.Figures
}
