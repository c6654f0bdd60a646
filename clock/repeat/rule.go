package repeat

import (
	"cmp"
	"slices"
	"time"
)

// Spec is what a set says about repeating. Exactly one of Cron and Every is set.
type Spec struct {
	Cron     string // five or six fields, or a short form such as @daily
	TimeZone string // IANA name, for Cron only; empty: UTC
	Every    int64  // period in ms; 0: none
	Anchor   *int64 // an occurrence in epoch ms, for Every only; no occurrence is before it. nil: see Rule.Anchored

	From      int64    // earliest possible occurrence, inclusive, in epoch ms; 0: no begin
	Until     int64    // latest possible occurrence, inclusive, in epoch ms; 0: no end
	SkipDates []string // local dates without an occurrence, such as 2026-12-25, for Cron only

	Times  int64 // number of occurrences; 0: no limit
	Jitter int64 // longest delay of a ring in ms; 0: none
	// LatestAfter is the time in ms after an occurrence, with its jitter, until which it may ring. Afterwards the
	// occurrence is over, and the next one follows. 0: however late.
	LatestAfter int64

	Missed      Missed // effect of missed occurrences
	MissedLimit int    // largest number of late rings with MissedAll; 0: DefaultMissedLimit with MissedAll
	// MissedWindow is the longest lateness in ms of a missed occurrence that may still ring, with MissedOnce and
	// MissedAll. 0: however late. It is not shorter than MinMissedWindow, because a ring may be late by some seconds
	// without a fault of its application.
	MissedWindow int64
	Overlap      Overlap // effect of an occurrence while the ring before it is not over
	PauseAfter   int     // number of failed occurrences in a row that pauses the alarm; 0: none does
	DST          string  // ring_once or empty, which mean the same
}

// Limits of a Spec.
const (
	MinEvery           = 1000
	MaxEvery           = 10 * 366 * 24 * 60 * 60 * 1000
	MaxTimes           = 1_000_000_000
	MaxJitter          = 24 * 60 * 60 * 1000
	MaxLatestAfter     = 366 * 24 * 60 * 60 * 1000
	MaxMissedLimit     = 1000
	MinMissedWindow    = 10 * 1000
	MaxMissedWindow    = 366 * 24 * 60 * 60 * 1000
	MaxPauseAfter      = 1000
	MaxSkipDates       = 100
	DefaultMissedLimit = 100

	maxInstant = 253402300799999 // 9999-12-31T23:59:59.999Z
	ringOnce   = "ring_once"
	utc        = "UTC" // default time zone
)

// Rule is a valid Spec. It is immutable and safe for concurrent use. The zero Rule has no occurrences.
type Rule struct { //nolint:recvcheck // parseCron fills a Rule that no one else has yet
	spec Spec // in canonical form, but with empty texts for the defaults of Missed, Overlap and DST
	cron *cron
	zone zone
}

// Parse validates a Spec. A refusal is an *Error. It also refuses a cron expression that never occurs.
func Parse(spec Spec) (Rule, error) {
	r, err := parse(spec)
	if err != nil || r.cron == nil {
		return r, err
	}
	if len(r.spec.SkipDates) > 0 { // any rule without dates fits
		if n := len(r.Encode()); n > MaxStored {
			return Rule{}, refuse("skip_dates",
				"the rule has %d bytes when it is stored, but may have %d: give fewer dates", n, MaxStored)
		}
	}
	// Only calendar and time zone decide here: from today on, the search may end at the last year before 400 years.
	const from = 946684800 // 2000-01-01
	if _, ok := r.cron.next(r.zone, from); ok {
		return r, nil
	}
	if _, ok := r.cron.nextLabel(from); ok {
		return Rule{}, refuse("cron", "the expression never occurs: the local clock of %s skips each of its times",
			r.spec.TimeZone)
	}
	return Rule{}, refuse("cron", "the expression never occurs: no month has such a day")
}

// parse is Parse for rules that may never occur.
func parse(spec Spec) (Rule, error) {
	r := Rule{spec: spec}
	if r.spec.DST == ringOnce {
		r.spec.DST = ""
	}
	if spec.Missed == MissedOnce {
		r.spec.Missed = ""
	}
	if spec.Missed == MissedAll && spec.MissedLimit == 0 {
		r.spec.MissedLimit = DefaultMissedLimit
	}
	if spec.Overlap == OverlapSkip {
		r.spec.Overlap = ""
	}
	if err := r.spec.check(); err != nil {
		return Rule{}, err
	}
	if spec.Anchor != nil {
		anchor := *spec.Anchor
		r.spec.Anchor = &anchor
	}
	r.spec.SkipDates = slices.Compact(slices.Sorted(slices.Values(spec.SkipDates)))
	if spec.Cron == "" {
		return r, nil
	}
	if err := r.parseCron(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

func (r *Rule) parseCron() (err error) {
	if r.spec.TimeZone == "" {
		r.spec.TimeZone = utc
	}
	if r.zone, err = loadZone(r.spec.TimeZone); err != nil {
		return err
	}
	if r.cron, r.spec.Cron, err = parseCron(r.spec.Cron); err != nil {
		return err
	}
	for _, date := range r.spec.SkipDates {
		day, err := time.Parse(time.DateOnly, date)
		if err != nil {
			return refuse("skip_dates", "%.40q is not a date such as 2026-12-25", date)
		}
		r.cron.skip(day)
	}
	return nil
}

// check validates the fields whose values do not need the parser.
func (s *Spec) check() error {
	switch {
	case s.Cron == "" && s.Every == 0:
		return refuse("cron", "repeat needs cron or every")
	case s.Cron != "" && s.Every != 0:
		return refuse("every", "repeat takes cron or every, not both")
	case s.Cron != "" && s.Anchor != nil:
		return refuse("anchor", "anchor is for every, not for cron")
	case s.Every != 0 && s.TimeZone != "":
		return refuse("time_zone", "time_zone is for cron, not for every")
	case s.Every != 0 && (s.Every < MinEvery || s.Every > MaxEvery):
		return refuse("every", "every must be from 1 s to 3660 days")
	case s.Anchor != nil && (*s.Anchor < 0 || *s.Anchor > maxInstant):
		return refuse("anchor", "anchor must be in the years from 1970 to 9999")
	case s.From < 0 || s.From > maxInstant:
		return refuse("from", "from must be in the years from 1970 to 9999")
	case s.Until < 0 || s.Until > maxInstant:
		return refuse("until", "until must be in the years from 1970 to 9999")
	case s.Until != 0 && s.Until < s.From:
		return refuse("until", "until is before from")
	case s.Every != 0 && len(s.SkipDates) > 0:
		return refuse("skip_dates", "skip_dates is for cron, not for every")
	case len(s.SkipDates) > MaxSkipDates:
		return refuse("skip_dates", "skip_dates has %d dates, but may have %d", len(s.SkipDates), MaxSkipDates)
	case s.Times < 0 || s.Times > MaxTimes:
		return refuse("times", "times must be from 1 to %d", int64(MaxTimes))
	case s.Jitter < 0 || s.Jitter > MaxJitter:
		return refuse("jitter", "jitter must be from 0 to 24 h")
	case s.LatestAfter < 0 || s.LatestAfter > MaxLatestAfter:
		return refuse("latest_after", "latest_after must be from 1 ms to 366 days")
	}
	return s.checkPolicies()
}

func (s *Spec) checkPolicies() error {
	switch {
	case !s.Missed.valid():
		return refuse("missed", "missed must be once, skip or all")
	case s.Missed != MissedAll && s.MissedLimit != 0:
		return refuse("missed_limit", "missed_limit is for missed all only")
	case s.MissedLimit < 0 || s.MissedLimit > MaxMissedLimit:
		return refuse("missed_limit", "missed_limit must be from 1 to %d", MaxMissedLimit)
	case s.Missed == MissedSkip && s.MissedWindow != 0:
		return refuse("missed_window", "missed_window is for missed once and all: with skip, an occurrence rings if it is at most 10 s late")
	case s.MissedWindow != 0 && (s.MissedWindow < MinMissedWindow || s.MissedWindow > MaxMissedWindow):
		return refuse("missed_window", "missed_window must be from 10 s to 366 days")
	case !s.Overlap.valid():
		return refuse("overlap", "overlap must be skip or queue_one")
	case s.PauseAfter < 0 || s.PauseAfter > MaxPauseAfter:
		return refuse("pause_after", "pause_after must be from 1 to %d", MaxPauseAfter)
	case s.DST != "":
		return refuse("dst", "dst must be ring_once")
	}
	return nil
}

// Spec returns the rule in canonical form: upper-case names, and defaults filled in.
func (r Rule) Spec() Spec {
	s := r.spec
	if s.Anchor != nil {
		anchor := *s.Anchor
		s.Anchor = &anchor
	}
	s.SkipDates = slices.Clone(s.SkipDates)
	if s.Cron != "" {
		s.DST = ringOnce
	}
	s.Missed = cmp.Or(s.Missed, MissedOnce)
	s.Overlap = cmp.Or(s.Overlap, OverlapSkip)
	return s
}

// Latest returns the last instant at which an occurrence may ring, in epoch ms; -1: however late.
func (r Rule) Latest(alarm Ringer, o Occurrence) int64 {
	if r.spec.LatestAfter == 0 {
		return -1
	}
	return min(r.RingAt(alarm, o)+r.spec.LatestAfter, maxInstant)
}

// MissedLimit returns the largest number of rings for occurrences of the past: the limit of MissedAll, or
// DefaultMissedLimit with another policy.
func (r Rule) MissedLimit() int { return cmp.Or(r.spec.MissedLimit, DefaultMissedLimit) }

// PausesAfter reports whether so many failed occurrences in a row pause the alarm.
func (r Rule) PausesAfter(failed int) bool {
	return r.spec.PauseAfter > 0 && failed >= r.spec.PauseAfter
}

// IsZero reports whether r is the zero Rule: the alarm rings once.
func (r Rule) IsZero() bool { return r.cron == nil && r.spec.Every == 0 }

// Equal reports whether two rules have the same canonical form. It compares texts: @daily and 0 0 * * * differ.
func (r Rule) Equal(other Rule) bool { return r.Encode() == other.Encode() }

// Anchored returns the rule with an anchor if it has a period without one: the anchor of the stored rule, or now if the
// stored rule has none. So a repeated set without an anchor keeps the occurrences. Without a stored rule, the first
// occurrence is one period after now.
func (r Rule) Anchored(stored Rule, now int64) Rule {
	if r.spec.Every == 0 || r.spec.Anchor != nil {
		return r
	}
	anchor := min(max(now, 0), maxInstant)
	if stored.spec.Anchor != nil {
		anchor = *stored.spec.Anchor
	}
	r.spec.Anchor = &anchor
	return r
}

// Next returns the first occurrence after an instant and not before From, without jitter. It returns false after Until, and after the year
// 9999. It does not know Times. A period without an anchor counts from the epoch.
func (r Rule) Next(after int64) (at int64, ok bool) {
	after = max(after, r.spec.From-1)
	switch {
	case after >= maxInstant || r.IsZero():
		return 0, false
	case r.cron == nil:
		at, ok = r.nextPeriod(after), true
	default:
		at, ok = r.cron.next(r.zone, floorDiv(after, 1000))
		at *= 1000
	}
	if !ok || r.isOver(at) {
		return 0, false
	}
	return at, true
}

func (r Rule) nextPeriod(after int64) int64 {
	anchor := r.anchor()
	if after < anchor {
		return anchor
	}
	return anchor + ((after-anchor)/r.spec.Every+1)*r.spec.Every
}

func (r Rule) anchor() int64 {
	if r.spec.Anchor == nil {
		return 0
	}
	return *r.spec.Anchor
}
