package repeat

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// storedVersion is the version of the stored form. A new key with an unchanged default needs no new version.
const storedVersion = 1

// stored is the JSON of a Schedule in a database column. Defaults are left out.
type stored struct {
	Version     int     `json:"v"`
	Local       string  `json:"local,omitempty"` // only with TimeZone
	Cron        string  `json:"cron,omitempty"`
	TimeZone    string  `json:"tz,omitempty"`
	Every       int64   `json:"every,omitempty"`
	Anchor      *int64  `json:"anchor,omitempty"`
	From        int64   `json:"from,omitempty"`
	Until       int64   `json:"until,omitempty"`
	Times       int64   `json:"times,omitempty"`
	Jitter      int64   `json:"jitter,omitempty"`
	LatestAfter int64   `json:"latest,omitempty"`
	Missed      Missed  `json:"missed,omitempty"`
	MissedLimit int     `json:"missed_limit,omitempty"`
	Window      int64   `json:"window,omitempty"` // MissedWindow
	Overlap     Overlap `json:"overlap,omitempty"`
	PauseAfter  int     `json:"pause_after,omitempty"`
	SkipDates   []int   `json:"skip,omitempty"` // 20261225
}

// Encode returns the canonical form for a database column: JSON without defaults, in milliseconds, empty for the zero
// Rule, at most MaxStored bytes. Equal rules have the same text.
func (r Rule) Encode() string {
	if r.IsZero() {
		return ""
	}
	s := stored{
		Version: storedVersion, Cron: r.spec.Cron, TimeZone: r.spec.TimeZone, Every: r.spec.Every,
		Anchor: r.spec.Anchor, From: r.spec.From, Until: r.spec.Until, SkipDates: dateNumbers(r.spec.SkipDates),
		Times: r.spec.Times, Jitter: r.spec.Jitter, LatestAfter: r.spec.LatestAfter, Missed: r.spec.Missed,
		MissedLimit: r.spec.MissedLimit, Window: r.spec.MissedWindow, Overlap: r.spec.Overlap,
		PauseAfter: r.spec.PauseAfter,
	}
	return s.encode()
}

// MaxStored is the longest text of Encode, in bytes.
const MaxStored = 1000

// dateNumbers returns the dates in short: 20261225.
func dateNumbers(dates []string) (numbers []int) {
	for _, date := range dates {
		n, _ := strconv.Atoi(strings.ReplaceAll(date, "-", "")) // a rule has only dates that are valid
		numbers = append(numbers, n)
	}
	return numbers
}

// dates is the inverse of dateNumbers. Parse refuses numbers that are no dates.
func dates(numbers []int) (dates []string) {
	for _, n := range numbers {
		dates = append(dates, fmt.Sprintf("%04d-%02d-%02d", n/10000, n/100%100, n%100))
	}
	return dates
}

// Encode returns the canonical form for a database column. Equal local times have the same text.
func (l LocalTime) Encode() string {
	s := stored{Version: storedVersion, Local: l.String(), TimeZone: l.timeZone}
	return s.encode()
}

func (s *stored) encode() string {
	text, err := json.Marshal(s)
	if err != nil { // no field has a type that fails
		panic("repeat: encode a schedule: " + err.Error())
	}
	return string(text)
}

// Schedule is what the database column holds: a rule, a local time, or neither.
type Schedule struct {
	Rule  *Rule      // of an alarm that rings again
	Local *LocalTime // of an alarm that rings once, at a local time
}

// Decode reads a text that Rule.Encode or LocalTime.Encode wrote. An error means that a newer version or another
// program wrote it, or that the time zone has left the database.
func Decode(text string) (Schedule, error) {
	if text == "" {
		return Schedule{}, nil
	}
	var s stored
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return Schedule{}, fmt.Errorf("decode repeat rule %q: %w", text, err)
	}
	if s.Version != storedVersion {
		return Schedule{}, fmt.Errorf("decode repeat rule %q: version %d is not known", text, s.Version)
	}
	schedule, err := s.schedule()
	if err != nil {
		return Schedule{}, fmt.Errorf("decode repeat rule %q: %w", text, err)
	}
	return schedule, nil
}

func (s *stored) schedule() (Schedule, error) {
	if s.Local != "" {
		local, err := ParseLocal(s.Local, s.TimeZone)
		return Schedule{Local: &local}, err
	}
	rule, err := parse(Spec{
		Cron: s.Cron, TimeZone: s.TimeZone, Every: s.Every, Anchor: s.Anchor, From: s.From, Until: s.Until, SkipDates: dates(s.SkipDates),
		Times: s.Times, Jitter: s.Jitter, LatestAfter: s.LatestAfter, Missed: s.Missed, MissedLimit: s.MissedLimit,
		MissedWindow: s.Window, Overlap: s.Overlap, PauseAfter: s.PauseAfter,
	})
	return Schedule{Rule: &rule}, err
}
