package clock

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseInstantReadsRFC3339AndMilliseconds(t *testing.T) {
	for _, c := range []struct {
		in, want string
	}{
		{"100000000000", "1973-03-03T09:46:40.000Z"},
		{"1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"},
		{"2026-11-21t18:30:00z", "2026-11-21T18:30:00.000Z"},
		{"1764000000123", "2025-11-24T16:00:00.123Z"},
		{"253402300799999", "9999-12-31T23:59:59.999Z"},
		{"2026-11-21T18:30:00Z", "2026-11-21T18:30:00.000Z"},
		{"2026-11-21T18:30:00+01:00", "2026-11-21T17:30:00.000Z"},
		{"2026-11-21T18:30:00.5-03:30", "2026-11-21T22:00:00.500Z"},
		{"2026-11-21T18:30:00.1239999Z", "2026-11-21T18:30:00.123Z"},
		{"1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00.000Z"},
		{"2038-01-19T03:14:08Z", "2038-01-19T03:14:08.000Z"},
		{"2028-02-29T12:00:00Z", "2028-02-29T12:00:00.000Z"},
		{"9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59.999Z"},
		// Oslo's clocks go from 02:00 to 03:00 in March, and from 03:00 back to 02:00 in October. The offset alone
		// decides.
		{"2026-03-29T01:59:59.999+01:00", "2026-03-29T00:59:59.999Z"},
		{"2026-03-29T02:30:00+01:00", "2026-03-29T01:30:00.000Z"},
		{"2026-03-29T03:00:00+02:00", "2026-03-29T01:00:00.000Z"},
		{"2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00.000Z"},
		{"2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00.000Z"},
	} {
		got, err := ParseInstant(c.in)
		if err != nil || got.String() != c.want {
			t.Errorf("%s is read as %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestParseInstantRefusesOtherTexts(t *testing.T) {
	for in, why := range map[string]string{
		"":                              "neither",
		"soon":                          "neither",
		"at noon":                       `"at noon" is neither`,
		"2026-11-21":                    "neither",
		"2026-11-21 18:30:00Z":          "neither",
		"2026-11-21T18:30Z":             "neither",
		"2026-02-29T12:00:00Z":          "the day 2026-02-29 does not exist",
		"2026-11-21T24:00:00Z":          "neither",
		"2026-11-21T8:30:00Z":           "neither",
		"2026-11-21T18:30:00,5Z":        "neither",
		"2026-11-21T18:30:00+24:00":     "neither",
		"2026-11-21T18:30:00+01:60":     "neither",
		"1e3":                           "neither",
		"1.5":                           "neither",
		" 5":                            "neither",
		"2026-11-21T18:30:00":           "no offset",
		"2026-03-29T02:30:00":           "no offset",
		"2026-11-21T18:30:00.25":        "no offset",
		"0":                             "looks like seconds",
		"1764000000":                    "looks like seconds",
		"99999999999":                   "looks like seconds",
		"-1":                            "range",
		"253402300800000":               "range",
		"9223372036854775808":           "range",
		"-9223372036854775809":          "range",
		"1969-12-31T23:59:59.999Z":      "range",
		"1970-01-01T00:59:59.999+01:00": "range",
		"9999-12-31T23:59:59-00:01":     "range",
	} {
		got, err := ParseInstant(in)
		if err == nil || !strings.Contains(err.Error(), why) || got != NoInstant {
			t.Errorf("%q is read as %s, %v; want an error with %q", in, got, err, why)
		}
	}
}

func TestInstantDoesNotDependOnSummerTime(t *testing.T) {
	edge := time.Date(2026, 10, 25, 0, 59, 59, 999_999_999, time.UTC)
	before, after := InstantOf(edge.Local()), InstantOf(edge.Add(1).Local())
	if after-before != 1 {
		t.Errorf("%s and %s are not neighbours", before, after)
	}
	if got := after.Time(); got.Location() != time.UTC || !got.Equal(edge.Add(1)) {
		t.Errorf("got %s", got)
	}
}

func TestInstantIsWrittenInUTCWithMilliseconds(t *testing.T) {
	if got := NoInstant.String(); got != "none" {
		t.Errorf("got %q", got)
	}
	if !NoInstant.Time().IsZero() || NoInstant.Valid() || (MaxInstant + 1).Valid() || !Instant(0).Valid() ||
		!MaxInstant.Valid() {
		t.Error("NoInstant or the bounds of valid instants are wrong")
	}
	b, err := json.Marshal(map[string]Instant{"a": 0, "b": MaxInstant, "c": NoInstant})
	if want := `{"a":"1970-01-01T00:00:00.000Z","b":"9999-12-31T23:59:59.999Z","c":null}`; string(b) != want ||
		err != nil {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

func TestInstantAddStaysInRange(t *testing.T) {
	for _, c := range []struct {
		i    Instant
		d    time.Duration
		want Instant
	}{
		{1000, 0, 1000},
		{1000, 1500 * time.Microsecond, 1001},
		{1000, -time.Second, 0},
		{1000, -1001 * time.Millisecond, 0}, // not NoInstant
		{0, math.MinInt64, 0},
		{0, math.MaxInt64, Instant(maxMillis)},
		{MaxInstant - 1, time.Millisecond, MaxInstant},
		{MaxInstant - 1, 2 * time.Millisecond, MaxInstant},
		{MaxInstant, math.MaxInt64, MaxInstant},
		{MaxInstant, -time.Millisecond, MaxInstant - 1},
	} {
		if got := c.i.Add(c.d); got != c.want {
			t.Errorf("%d + %s = %d, want %d", c.i, c.d, got, c.want)
		}
	}
}

func TestInstantSubEndsAtTheLongestDuration(t *testing.T) {
	for _, c := range []struct {
		i, j Instant
		want time.Duration
	}{
		{5, 3, 2 * time.Millisecond},
		{3, 5, -2 * time.Millisecond},
		{Instant(maxMillis), 0, time.Duration(maxMillis) * time.Millisecond},
		{MaxInstant, 0, math.MaxInt64},
		{0, MaxInstant, math.MinInt64},
	} {
		if got := c.i.Sub(c.j); got != c.want {
			t.Errorf("%d - %d = %s, want %s", c.i, c.j, got, c.want)
		}
	}
}

func TestParseDurationReadsUnits(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "30m": 30 * time.Minute,
		"1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "0d": 0,
		"1500us":          time.Millisecond,
		"9223372036854ms": time.Duration(maxMillis) * time.Millisecond, "106751d": 106751 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(in); got != want || err != nil {
			t.Errorf("%q is read as %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestParseDurationRefusesOtherTexts(t *testing.T) {
	for in, why := range map[string]string{
		"": "neither", "soon": "neither", "5x": "neither", "d": "neither", "1.5d": "neither", "106752d": "neither",
		" 5m":            "neither",
		"9999999999999d": "neither", "-213503982334602d": "neither", "300000h00m1e9s": "neither", "9999999h": "neither",
		"-5m": "negative", "-1ns": "negative", "-1d": "negative", "99999999999999999999h": "too long",
		"0": "has no unit", "250": "has no unit", "+5": "has no unit", "-1": "has no unit", "1.5": "has no unit",
		"9223372036854775808": "has no unit",
	} {
		if got, err := ParseDuration(in); err == nil || !strings.Contains(err.Error(), why) || got != 0 {
			t.Errorf("%q is read as %s, %v; want an error with %q", in, got, err, why)
		}
	}
}

func TestDurationOfMillisRefusesOtherNumbers(t *testing.T) {
	for ms, why := range map[int64]string{-1: "negative", math.MinInt64: "negative", maxMillis + 1: "range", math.MaxInt64: "range"} {
		if got, err := DurationOfMillis(ms); err == nil || !strings.Contains(err.Error(), why) || got != 0 {
			t.Errorf("%d is read as %s, %v; want an error with %q", ms, got, err, why)
		}
	}
}

func FuzzParseInstant(f *testing.F) {
	for _, s := range []string{"0", "-1", "253402300799999", "2026-03-29T02:30:00+01:00", "2026-10-25T02:30:00.123456+02:00", "2026-11-21T18:30:00", "9999-12-31T23:59:59-00:01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		i, err := ParseInstant(s)
		if err != nil {
			if i != NoInstant {
				t.Fatalf("%q: %s beside an error", s, i)
			}
			return
		}
		if !i.Valid() {
			t.Fatalf("%q gives %d", s, i)
		}
		written := []string{i.String(), strings.ToLower(i.String())}
		if i >= leastMillis {
			written = append(written, strconv.FormatInt(int64(i), 10))
		}
		if local := i.Time().Local(); local.Year() <= 9999 {
			written = append(written, local.Format(time.RFC3339Nano))
		}
		for _, again := range written {
			if got, err := ParseInstant(again); got != i || err != nil {
				t.Fatalf("%q is %d; written as %s it is %d, %v", s, i, again, got, err)
			}
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"0", "-1", "30m", "1h30m", "7d", "-213503982334602d", "1500us", "9223372036855", "1.5h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			if d != 0 {
				t.Fatalf("%q: %s beside an error", s, d)
			}
			return
		}
		if d < 0 || d%time.Millisecond != 0 {
			t.Fatalf("%q gives %s", s, d)
		}
		if got, err := ParseDuration(d.String()); got != d || err != nil {
			t.Fatalf("%q is %s; written as %[2]s it is %s, %v", s, d, got, err)
		}
		if got, err := DurationOfMillis(d.Milliseconds()); got != d || err != nil {
			t.Fatalf("%q is %s; as a number of milliseconds it is %s, %v", s, d, got, err)
		}
	})
}
