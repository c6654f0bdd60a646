package repeat

import (
	"regexp"
	"strings"
	"time"
)

// LocalTime is a date and a time of day in a time zone: the time of an alarm that rings once. It is immutable. The zero
// LocalTime is no time.
type LocalTime struct {
	label    int64 // ms
	timeZone string
	zone     zone
}

// ParseLocal validates a local time. The text has the form 2026-12-24T18:00:00, with at most three decimals of a
// second, or 2026-12-24T18:00. A refusal is an *Error.
func ParseLocal(text, timeZone string) (LocalTime, error) {
	label, err := parseLabel(text)
	if err != nil {
		return LocalTime{}, err
	}
	z, err := loadZone(timeZone)
	if err != nil {
		return LocalTime{}, err
	}
	l := LocalTime{label: label, timeZone: timeZone, zone: z}
	if at := l.Instant(); at < 0 || at > maxInstant {
		return LocalTime{}, refuse("local_time", "a local time must be in the years from 1970 to 9999")
	}
	return l, nil
}

// Instant returns the epoch milliseconds of the local time. A local time in a gap is the end of the gap; of a local
// time in an overlap the first is taken.
func (l LocalTime) Instant() int64 { return l.zone.reach(l.label) }

// String returns the local time in canonical form: with seconds, and with three decimals if it has any. ParseLocal
// reads it.
func (l LocalTime) String() string {
	return strings.TrimSuffix(time.UnixMilli(l.label).UTC().Format("2006-01-02T15:04:05.000"), ".000")
}

// TimeZone returns the IANA name of the time zone.
func (l LocalTime) TimeZone() string { return l.timeZone }

func parseLabel(text string) (int64, error) {
	const minutes, seconds, millis = "2006-01-02T15:04", "2006-01-02T15:04:05", len("2006-01-02T15:04:05.000")
	layout := seconds
	if len(text) == len(minutes) {
		layout = minutes
	}
	label, err := time.Parse(layout, text)
	if err != nil || len(text) > millis || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		// time.Parse takes an hour of one digit, and a comma for the decimal point
		if day := AbsentDay(text); day != "" {
			return 0, refuse("local_time", "%.40q: the day %s does not exist", text, day)
		}
		return 0, refuse("local_time",
			"%.40q is not a local time such as 2026-12-24T18:00:00, without offset and with at most three decimals",
			text)
	}
	return label.UnixMilli(), nil
}

// beginsLikeDay matches texts that begin with the form of a day.
var beginsLikeDay = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)

// AbsentDay returns the day with which the text begins if it has the form of a day and does not exist, such as
// 2030-02-30, else "".
func AbsentDay(text string) string {
	day := beginsLikeDay.FindString(text)
	if _, err := time.Parse(time.DateOnly, day); err == nil {
		return ""
	}
	return day
}
