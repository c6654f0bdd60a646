package clock

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// Instant is a point in time: milliseconds since 1970-01-01T00:00:00Z. It is stored as BIGINT, which neither a
// session's time zone nor the year 2038 can change.
type Instant int64

const (
	// NoInstant means that there is no instant: NULL in SQL, null in JSON.
	NoInstant Instant = -1
	// MaxInstant is 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write.
	MaxInstant Instant = 253402300799999
)

// instantLayout is RFC 3339 with exactly three decimals.
const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// InstantOf returns t, cut to the millisecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// ParseTime is InstantOf for a time from outside. It refuses a time that is not Valid, with an error for the sender.
func ParseTime(t time.Time) (Instant, error) {
	const seconds = int64(MaxInstant)/1000 + 1
	if s := t.Unix(); s < 0 || s >= seconds { // the milliseconds of such a time may not fit
		return checkInstant(NoInstant)
	}
	return checkInstant(InstantOf(t))
}

// Time returns i in UTC, the zero time for NoInstant.
func (i Instant) Time() time.Time {
	if i == NoInstant {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// Valid reports whether i lies between the epoch and MaxInstant, both included. NoInstant is not valid.
func (i Instant) Valid() bool { return i >= 0 && i <= MaxInstant }

// Add returns i+d, with d cut to whole milliseconds. The result is not before the epoch and not after MaxInstant.
func (i Instant) Add(d time.Duration) Instant {
	return min(max(i+Instant(d.Milliseconds()), 0), MaxInstant)
}

// Sub returns the time from j to i. Beyond 292 years the result is the longest or shortest duration, as with time.Time.
func (i Instant) Sub(j Instant) time.Duration {
	switch ms := int64(i - j); {
	case ms > maxMillis:
		return math.MaxInt64
	case ms < -maxMillis:
		return math.MinInt64
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// String returns i in RFC 3339, UTC, with milliseconds; "none" for NoInstant.
func (i Instant) String() string {
	if i == NoInstant {
		return "none"
	}
	return i.Time().Format(instantLayout)
}

// MarshalJSON writes i as a string in RFC 3339, UTC, with milliseconds; null for NoInstant.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i == NoInstant {
		return []byte("null"), nil
	}
	b := make([]byte, 0, len(instantLayout)+2)
	b = append(b, '"')
	b = i.Time().AppendFormat(b, instantLayout)
	return append(b, '"'), nil
}

// ParseInstant reads an instant as people write it: RFC 3339 with an offset ("2026-11-21T18:30:00+01:00"; digits past
// the millisecond are cut off), or milliseconds as InstantOfMillis takes them. The error explains the fault to the
// writer of s.
func ParseInstant(s string) (Instant, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return InstantOfMillis(ms)
	}
	upper := strings.ToUpper(s) // RFC 3339 allows t and z
	t, err := time.Parse(time.RFC3339Nano, upper)
	if err != nil || !strictRFC3339(upper) {
		if _, bare := time.Parse("2006-01-02T15:04:05.999999999", upper); bare == nil {
			return NoInstant, fmt.Errorf("time %q has no offset: end it with Z or one like +01:00, or, for ring_at, give a time_zone", s)
		}
		if day := repeat.AbsentDay(s); day != "" {
			return NoInstant, fmt.Errorf("time %q: the day %s does not exist", s, day)
		}
		return NoInstant, fmt.Errorf("time %q is neither RFC 3339 with an offset, like 2030-01-31T18:30:00Z, nor milliseconds since the epoch", s)
	}
	return checkInstant(InstantOf(t))
}

// leastMillis is in March 1973. Smaller numbers are times in seconds, by mistake.
const leastMillis = 100_000_000_000

// InstantOfMillis returns the instant of a number from outside: milliseconds since the epoch. It refuses numbers that
// look like seconds, with an error for the sender: such an alarm would ring at once.
func InstantOfMillis(ms int64) (Instant, error) {
	if ms >= 0 && ms < leastMillis {
		return NoInstant, fmt.Errorf("time %d looks like seconds: a number is milliseconds since the epoch, from %d",
			ms, int64(leastMillis))
	}
	return checkInstant(Instant(ms))
}

// strictRFC3339 reports whether s, which time.Parse accepted, is RFC 3339. time.Parse also accepts some other texts
// (go.dev/issue/54580): a comma as the decimal point, an hour of one digit, offsets with 24 hours or 60 minutes.
func strictRFC3339(s string) bool {
	const hourEnd = len("2006-01-02T15")
	if s[hourEnd] != ':' || strings.Contains(s, ",") {
		return false
	}
	offset := s[len(s)-len("+01:00"):]
	return strings.HasSuffix(s, "Z") || offset[1:3] <= "23" && offset[4:] <= "59"
}

func checkInstant(i Instant) (Instant, error) {
	if !i.Valid() {
		return NoInstant, fmt.Errorf("time is out of range: from 1970 to 9999, or %d milliseconds since the epoch",
			int64(MaxInstant))
	}
	return i, nil
}

// ParseDuration reads a duration as people write it: "30m", "1h30m", "250ms" (units h, m, s, ms), "7d" for days of 24
// hours. It must have a unit, and must not be negative. Fractions of a millisecond are cut off. The error explains the
// fault.
func ParseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf(`duration %q has no unit: write "%[1]ss" or "%[1]sms"`, s)
	}
	d, err := parseUnits(s)
	if err != nil {
		return 0, fmt.Errorf(`duration %q is neither like "30m" nor like "7d", or it is too long`, s)
	}
	return CutDuration(d)
}

// AppendDuration appends d in the form that ParseDuration reads, without zeros: "1h30m", "250ms", "0s". d is a number
// of milliseconds and not negative.
func AppendDuration(b []byte, d time.Duration) []byte {
	from := len(b)
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.unit; n > 0 {
			b = strconv.AppendInt(b, int64(n), 10)
			b = append(b, u.name...)
			d %= u.unit
		}
	}
	if len(b) == from {
		b = append(b, "0s"...)
	}
	return b
}

// CutDuration cuts off fractions of a millisecond. It refuses a negative duration, with an error for the sender.
func CutDuration(d time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("duration %s is negative", d)
	}
	return d.Truncate(time.Millisecond), nil
}

func parseUnits(s string) (time.Duration, error) {
	if n := len(s); n > 1 && s[n-1] == 'd' {
		days, err := strconv.ParseInt(s[:n-1], 10, 64)
		if err != nil || days > maxMillis/msPerDay || days < -maxMillis/msPerDay {
			return 0, fmt.Errorf("days: %w", strconv.ErrRange)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}

const (
	msPerDay  = 24 * 60 * 60 * 1000
	maxMillis = math.MaxInt64 / int64(time.Millisecond) // the longest time.Duration, 292 years
)

// DurationOfMillis returns the duration of a number from outside: milliseconds. The error explains the fault to the
// sender.
func DurationOfMillis(ms int64) (time.Duration, error) {
	switch {
	case ms < 0:
		return 0, fmt.Errorf("duration %d is negative", ms)
	case ms > maxMillis:
		return 0, fmt.Errorf("duration %d is out of range: at most %d milliseconds", ms, maxMillis)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
