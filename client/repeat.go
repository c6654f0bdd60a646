package client

import (
	"encoding/json"
	"time"
)

// Repeat is the rule of an alarm that rings again. It has Cron or Every. A field that is zero has its default.
type Repeat struct {
	Cron        string        // five fields, six with the second first, or a short form such as @daily
	TimeZone    string        // IANA name, for Cron only; default UTC
	Every       time.Duration // period, from 1 s to 3660 days
	Anchor      time.Time     // an occurrence, for Every only; no occurrence is before it. Default: the stored anchor, or one period after the set
	From        time.Time     // earliest possible occurrence, inclusive; default: no begin
	Until       time.Time     // latest possible occurrence, inclusive; default: no end
	SkipDates   []string      // local dates without an occurrence, such as 2026-12-25, for Cron only; at most 100
	Times       int64         // number of occurrences; default: no limit
	Jitter      time.Duration // longest random delay of a ring, at most 24 h; default: none
	LatestAfter time.Duration // time after an occurrence until which it may ring; default: however late
	Missed      Missed        // effect of missed occurrences; default MissedOnce
	MissedLimit int           // most late rings with MissedAll, up to 1000; default 100
	// MissedWindow is the longest lateness of a missed occurrence that still rings, with MissedOnce and MissedAll, from
	// 10 s to 366 days; default: however late.
	MissedWindow time.Duration
	Overlap      Overlap // effect of an occurrence while an earlier ring is not over; default OverlapSkip
	PauseAfter   int     // number of failed occurrences in a row that pauses the alarm, at most 1000; default: none does
	DST          string  // effect of daylight saving on fixed times, for Cron only; default ring_once, the only value
}

// Missed is the effect of occurrences that came due while nothing could ring them.
type Missed string

// The effects of missed occurrences.
const (
	MissedOnce Missed = "once" // the latest one rings, however late
	MissedSkip Missed = "skip" // the latest one rings if it is at most 10 s late
	MissedAll  Missed = "all"  // the latest MissedLimit ones ring, in order
)

// Overlap is the effect of occurrences that come due while an earlier ring is retried, in doubt or not acknowledged.
type Overlap string

// The effects of overlapping occurrences.
const (
	OverlapSkip     Overlap = "skip"      // they do not ring
	OverlapQueueOne Overlap = "queue_one" // the first of them rings afterwards
)

// repeatFields are the members of a rule in JSON.
type repeatFields struct {
	Cron         string    `json:"cron,omitempty"`
	TimeZone     string    `json:"time_zone,omitempty"`
	Every        *duration `json:"every,omitempty"`
	Anchor       *instant  `json:"anchor,omitempty"`
	From         *instant  `json:"from,omitempty"`
	Until        *instant  `json:"until,omitempty"`
	SkipDates    []string  `json:"skip_dates,omitempty"`
	Times        int64     `json:"times,omitempty"`
	Jitter       *duration `json:"jitter,omitempty"`
	LatestAfter  *duration `json:"latest_after,omitempty"`
	Missed       Missed    `json:"missed,omitempty"`
	MissedLimit  int       `json:"missed_limit,omitempty"`
	MissedWindow *duration `json:"missed_window,omitempty"`
	Overlap      Overlap   `json:"overlap,omitempty"`
	PauseAfter   int       `json:"pause_after,omitempty"`
	DST          string    `json:"dst,omitempty"`
}

// MarshalJSON writes the rule as a set needs it.
func (r Repeat) MarshalJSON() ([]byte, error) {
	return json.Marshal(repeatFields{
		Cron: r.Cron, TimeZone: r.TimeZone, Every: given(r.Every), Anchor: givenTime(r.Anchor),
		From: givenTime(r.From), Until: givenTime(r.Until), SkipDates: r.SkipDates, Times: r.Times,
		Jitter: given(r.Jitter), LatestAfter: given(r.LatestAfter), Missed: r.Missed, MissedLimit: r.MissedLimit,
		MissedWindow: given(r.MissedWindow), Overlap: r.Overlap, PauseAfter: r.PauseAfter, DST: r.DST,
	})
}

// UnmarshalJSON reads a rule of the service, with the defaults filled in.
func (r *Repeat) UnmarshalJSON(b []byte) error {
	var every, jitter, latestAfter, missedWindow duration
	var anchor, from, until instant
	f := repeatFields{Every: &every, Anchor: &anchor, From: &from, Until: &until, Jitter: &jitter, LatestAfter: &latestAfter, MissedWindow: &missedWindow}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*r = Repeat{
		Cron: f.Cron, TimeZone: f.TimeZone, Every: time.Duration(every), Anchor: time.Time(anchor),
		From: time.Time(from), Until: time.Time(until), SkipDates: f.SkipDates, Times: f.Times,
		Jitter: time.Duration(jitter), LatestAfter: time.Duration(latestAfter), Missed: f.Missed,
		MissedLimit: f.MissedLimit, MissedWindow: time.Duration(missedWindow), Overlap: f.Overlap,
		PauseAfter: f.PauseAfter, DST: f.DST,
	}
	return nil
}

// given returns nil for 0.
func given(d time.Duration) *duration {
	if d == 0 {
		return nil
	}
	g := duration(d)
	return &g
}

// givenTime returns nil for the zero time.
func givenTime(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	g := instant(t)
	return &g
}
