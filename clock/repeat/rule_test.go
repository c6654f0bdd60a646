package repeat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, spec Spec) Rule {
	t.Helper()
	r, err := Parse(spec)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	return r
}

func instant(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

func rfc3339(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// manyDates returns as many dates as skip_dates may have.
func manyDates() (dates []string) {
	for i := range MaxSkipDates {
		dates = append(dates, time.Date(2027, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
	}
	return dates
}

// A rule with every member fits the column of the database, also with many dates.
func TestStoredRulesFitTheirColumn(t *testing.T) {
	t.Parallel()
	full := Spec{
		Cron: strings.Repeat("1,", 123) + "1 0 * * *", TimeZone: "America/Argentina/ComodRivadavia", From: maxInstant, Until: maxInstant,
		Times: MaxTimes, Jitter: MaxJitter, LatestAfter: MaxLatestAfter, Missed: MissedAll, MissedLimit: MaxMissedLimit,
		Overlap: OverlapQueueOne,
	}
	for _, spec := range []Spec{full, {Cron: "0 9 * * MON-FRI", TimeZone: "America/New_York", SkipDates: manyDates()}} {
		r := mustParse(t, spec)
		again, err := Decode(r.Encode())
		if n := len(r.Encode()); n > MaxStored || err != nil || !again.Rule.Equal(r) {
			t.Errorf("%d bytes, %v: %s", n, err, r.Encode())
		}
	}
}

func TestRefusalsNameFieldPositionAndReason(t *testing.T) {
	anchor := int64(-1)
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Cron: "75 * * * *"}, "cron: minute 75 is over 59 (at character 1)"},
		{Spec{Cron: "0  1-30 * * *"}, "cron: hour 30 is over 23 (at character 6)"},
		{Spec{Cron: "0 0 0 * *"}, "cron: day of month 0 is below 1 (at character 5)"},
		{Spec{Cron: "0 0 1,32 * *"}, "cron: day of month 32 is over 31 (at character 7)"},
		{Spec{Cron: "0 0 * FOO *"},
			`cron: month "FOO" is not a number from 1 to 12 and no name such as FEB (at character 7)`},
		{Spec{Cron: "61 0 0 * * *"}, "cron: second 61 is over 59 (at character 1)"},
		{Spec{Cron: "*/0 * * * *"}, "cron: the step of minute is 0, but must be at least 1 (at character 3)"},
		{Spec{Cron: "*/60 * * * *"}, "cron: the step 60 of minute must be below 60, the number of values (at character 3)"},
		{Spec{Cron: "*/x * * * *"}, `cron: the step "X" of minute is not a whole number (at character 3)`},
		{Spec{Cron: "1,,2 * * * *"}, "cron: a value of minute is missing (at character 3)"},
		{Spec{Cron: "1- * * * *"}, "cron: a value of minute is missing (at character 3)"},
		{Spec{Cron: "0 0 * * 8"}, "cron: day of week 8 is over 7 (at character 9)"},
		{Spec{Cron: "0 0 * * FRI#6"}, `cron: "6" after # is not a number from 1 to 5 or L (at character 13)`},
		{Spec{Cron: "0 0 L-31 * *"}, `cron: "31" after L- is not a number from 1 to 30 (at character 7)`},
		{Spec{Cron: "0 0 15W/2 * *"}, "cron: day of month 15W takes no step (at character 8)"},
		{Spec{Cron: "0 0 * * FRI-MON/2"},
			"cron: day of week FRI-MON wraps and has a step: write the days as a list (at character 9)"},
		{Spec{Cron: "0 9 * * monday"},
			`cron: day of week "MONDAY" is not a number from 0 to 7 and no name such as MON (at character 9)`},
		{Spec{Cron: "0 ? * * *"}, "cron: ? is for day of month and day of week: write * for each hour (at character 3)"},
		{Spec{Cron: "0 9 ?/2 * *"}, `cron: day of month "?" is not a number from 1 to 31 (at character 5)`},
		{Spec{Cron: "+5 * * * *"}, `cron: minute "+5" is not a number from 0 to 59 (at character 1)`},
		{Spec{Cron: "* * * *"},
			"cron: the expression has 4 fields, but must have 5 (minute, hour, day of month, month, day of week) or 6 (second first)"},
		{Spec{Cron: "0 0 é * *"}, "cron: the character is not allowed (at character 5)"},
		{Spec{Cron: "@every 5m"}, "cron: @every is not a cron expression: use every"},
		{Spec{Cron: "@reboot"},
			`cron: "@reboot" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`},
		{Spec{Cron: "0 0 31 2 *"}, "cron: the expression never occurs: no month has such a day"},
		{Spec{Cron: "0 0 30,31 FEB ?"}, "cron: the expression never occurs: no month has such a day"},
		{Spec{Cron: "0 0 31W 4,6 *"}, "cron: the expression never occurs: no month has such a day"},
		{Spec{Cron: "* 2 ? 3 SUN#L", TimeZone: "Europe/Berlin"},
			"cron: the expression never occurs: the local clock of Europe/Berlin skips each of its times"},
		{Spec{Cron: "@daily", TimeZone: "Europe/Atlantis"},
			`time_zone: "Europe/Atlantis" is not the name of an IANA time zone (tzdata 2025c)`},
		{Spec{Cron: "@daily", TimeZone: "europe/berlin"},
			`time_zone: "europe/berlin" is not the name of an IANA time zone (tzdata 2025c); did you mean Europe/Berlin?`},
		{Spec{Cron: "@daily", TimeZone: "new york"},
			`time_zone: "new york" is not the name of an IANA time zone (tzdata 2025c); did you mean America/New_York?`},
		{Spec{Cron: "@daily", TimeZone: "Local"},
			`time_zone: "Local" is not the name of an IANA time zone (tzdata 2025c)`},
		{Spec{}, "cron: repeat needs cron or every"},
		{Spec{Cron: "@daily", Every: 1000}, "every: repeat takes cron or every, not both"},
		{Spec{Every: 999}, "every: every must be from 1 s to 3660 days"},
		{Spec{Every: 1000, Anchor: &anchor}, "anchor: anchor must be in the years from 1970 to 9999"},
		{Spec{Every: 1000, TimeZone: "UTC"}, "time_zone: time_zone is for cron, not for every"},
		{Spec{Cron: "@daily", Anchor: &anchor}, "anchor: anchor is for every, not for cron"},
		{Spec{Every: 1000, Until: -1}, "until: until must be in the years from 1970 to 9999"},
		{Spec{Every: 1000, From: -1}, "from: from must be in the years from 1970 to 9999"},
		{Spec{Every: 1000, From: 2000, Until: 1999}, "until: until is before from"},
		{Spec{Every: 1000, SkipDates: []string{"2026-12-25"}}, "skip_dates: skip_dates is for cron, not for every"},
		{Spec{Cron: "@daily", SkipDates: []string{"2026-02-29"}}, `skip_dates: "2026-02-29" is not a date such as 2026-12-25`},
		{Spec{Cron: "@daily", SkipDates: make([]string, 101)}, "skip_dates: skip_dates has 101 dates, but may have 100"},
		{Spec{Cron: strings.Repeat("1,", 99) + "1 0 * * *", SkipDates: manyDates()},
			"skip_dates: the rule has 1144 bytes when it is stored, but may have 1000: give fewer dates"},
		{Spec{Every: 1000, Times: -1}, "times: times must be from 1 to 1000000000"},
		{Spec{Every: 1000, Jitter: MaxJitter + 1}, "jitter: jitter must be from 0 to 24 h"},
		{Spec{Every: 1000, Missed: "never"}, "missed: missed must be once, skip or all"},
		{Spec{Every: 1000, MissedLimit: 3}, "missed_limit: missed_limit is for missed all only"},
		{Spec{Every: 1000, Missed: MissedAll, MissedLimit: 1001}, "missed_limit: missed_limit must be from 1 to 1000"},
		{Spec{Every: 1000, Overlap: "x"}, "overlap: overlap must be skip or queue_one"},
		{Spec{Every: 1000, DST: "x"}, "dst: dst must be ring_once"},
	} {
		_, err := Parse(c.spec)
		if refused := new(Error); !errors.As(err, &refused) || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.spec, err, c.want)
		}
	}
}

func TestOccurrencesOfExpressions(t *testing.T) {
	for _, c := range []struct {
		cron string
		want [3]string // after Tuesday 2026-12-01T12:00:00Z
	}{
		{"0 0 29 2 *", [3]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"}},
		{"0 0 29 2 1", [3]string{"2027-02-01T00:00:00Z", "2027-02-08T00:00:00Z", "2027-02-15T00:00:00Z"}},
		{"0 0 */29 2 1", [3]string{"2027-02-01T00:00:00Z", "2038-02-01T00:00:00Z", "2044-02-01T00:00:00Z"}},
		{"0 0 ? 2 SUN#5", [3]string{"2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z"}},
		{"*/20 * * * * *", [3]string{"2026-12-01T12:00:20Z", "2026-12-01T12:00:40Z", "2026-12-01T12:01:00Z"}},
		{"5 0 L * *", [3]string{"2026-12-31T00:05:00Z", "2027-01-31T00:05:00Z", "2027-02-28T00:05:00Z"}},
		{"0 0 L-2 * *", [3]string{"2026-12-29T00:00:00Z", "2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"}},
		{"0 0 LW * ?", [3]string{"2026-12-31T00:00:00Z", "2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"}},
		{"0 0 1W * *", [3]string{"2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"}},
		{"0 0 1W 5,8 *", [3]string{"2027-05-03T00:00:00Z", "2027-08-02T00:00:00Z", "2028-05-01T00:00:00Z"}},
		{"0 0 * * fri#l", [3]string{"2026-12-25T00:00:00Z", "2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"}},
		{"0 9 * * 7", [3]string{"2026-12-06T09:00:00Z", "2026-12-13T09:00:00Z", "2026-12-20T09:00:00Z"}},
		{"0 22-2/2 1 1 *", [3]string{"2027-01-01T00:00:00Z", "2027-01-01T02:00:00Z", "2027-01-01T22:00:00Z"}},
		{"@weekly", [3]string{"2026-12-06T00:00:00Z", "2026-12-13T00:00:00Z", "2026-12-20T00:00:00Z"}},
		{"30 12-13 * dec TUE", [3]string{"2026-12-01T12:30:00Z", "2026-12-01T13:30:00Z", "2026-12-08T12:30:00Z"}},
	} {
		r := mustParse(t, Spec{Cron: c.cron})
		first, _ := r.First(instant(t, "2026-12-01T12:00:00Z"))
		var got [3]string
		for i, o := range r.Occurrences(first, 3) {
			got[i] = rfc3339(o.At)
		}
		if got != c.want {
			t.Errorf("%s: got %v, want %v", c.cron, got, c.want)
		}
	}
}

func TestEveryCountsFromItsAnchor(t *testing.T) {
	anchor := int64(10_500)
	r := mustParse(t, Spec{Every: 1000, Anchor: &anchor})
	for _, c := range [][2]int64{{0, 10_500}, {10_499, 10_500}, {10_500, 11_500}, {11_499, 11_500}, {1 << 40, 1<<40 + 724}} {
		if at, ok := r.Next(c[0]); at != c[1] || !ok {
			t.Errorf("after %d: %d, want %d", c[0], at, c[1])
		}
	}
}

func TestUntilIsInclusiveAndTimesCountsOccurrences(t *testing.T) {
	r := mustParse(t, Spec{Every: 1000, Until: 5000})
	first, _ := r.First(1000)
	if got := r.Occurrences(first, 10); len(got) != 4 || got[3] != (Occurrence{5000, 4}) {
		t.Errorf("until 5000: %v", got)
	}
	r = mustParse(t, Spec{Cron: "* * * * *", Times: 3})
	first, _ = r.First(0)
	if got := r.Occurrences(first, 10); len(got) != 3 || got[2] != (Occurrence{180_000, 3}) {
		t.Errorf("three times: %v", got)
	}
	if _, ok := mustParse(t, Spec{Cron: "@yearly"}).Next(maxInstant - 1000); ok {
		t.Error("an occurrence after the year 9999")
	}
}

func TestFromIsInclusive(t *testing.T) {
	t.Parallel()
	anchor := int64(500)
	for _, spec := range []Spec{{Every: 1000, Anchor: &anchor, From: 5500, Times: 2}, {Every: 1000, Anchor: &anchor, From: 4501, Times: 2}} {
		r := mustParse(t, spec)
		first, _ := r.First(1000)
		if got := r.Occurrences(first, 10); len(got) != 2 || got[0] != (Occurrence{5500, 1}) || got[1] != (Occurrence{6500, 2}) {
			t.Errorf("from %d: %v", spec.From, got)
		}
	}
	r := mustParse(t, Spec{Cron: "* * * * *", From: 120_000})
	if at, ok := r.Next(0); at != 120_000 || !ok {
		t.Errorf("the first minute is %d", at)
	}
	if at, ok := r.Next(120_000); at != 180_000 || !ok {
		t.Errorf("the next minute is %d", at)
	}
}

// Nothing occurs on a date that is skipped, by the local clock, and no occurrence number is used up.
func TestSkippedDatesHaveNoOccurrence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cron, timeZone string
		skip           []string
		want           string // after 2026-12-23T12:00:00Z
	}{
		{"30 2 * * *", "Europe/Berlin", []string{"2026-12-26", "2026-12-25", "2026-12-25"},
			"2026-12-24T02:30:00+01:00 2026-12-27T02:30:00+01:00 2026-12-28T02:30:00+01:00"},
		{"0 */12 * * *", "Pacific/Kiritimati", []string{"2026-12-25"}, // an interval expression, 14 hours before UTC
			"2026-12-24T12:00:00+14:00 2026-12-26T00:00:00+14:00 2026-12-26T12:00:00+14:00"},
		{"0 0 * * *", "UTC", []string{"2026-12-31", "2027-01-01", "2028-01-01"},
			"2026-12-24T00:00:00Z 2026-12-25T00:00:00Z 2026-12-26T00:00:00Z"},
		{"0 0 25 12 *", "UTC", []string{"2026-12-25", "2028-12-25"}, "2027-12-25T00:00:00Z 2029-12-25T00:00:00Z 2030-12-25T00:00:00Z"},
	} {
		r := mustParse(t, Spec{Cron: c.cron, TimeZone: c.timeZone, SkipDates: c.skip})
		first, _ := r.First(instant(t, "2026-12-23T12:00:00Z"))
		var got []string
		for i, o := range r.Occurrences(first, 3) {
			if o.Number != int64(i+1) {
				t.Errorf("%s: occurrence %d has the number %d", c.cron, i, o.Number)
			}
			got = append(got, r.Local(o.At))
			label := r.Label(o.At)
			if moved, ok := r.FollowingLabel(o, label); label != 0 && (!ok || strings.Contains(strings.Join(c.skip, " "), r.Local(moved.At)[:10])) {
				t.Errorf("%s: other time-zone data move %s to %s", c.cron, r.Local(o.At), r.Local(moved.At))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s without %v: %s, want %s", c.cron, c.skip, s, c.want)
		}
	}
}

func TestAnchoredKeepsTheStoredAnchor(t *testing.T) {
	request := mustParse(t, Spec{Every: 60_000})
	created := request.Anchored(Rule{}, 1234)
	if at, _ := created.Next(1234); at != 61_234 {
		t.Errorf("the first occurrence is %d, want one period after the set", at)
	}
	if repeated := request.Anchored(created, 99_999); !repeated.Equal(created) {
		t.Errorf("a repeated set changed %s to %s", created.Encode(), repeated.Encode())
	}
	anchor := int64(7)
	given := mustParse(t, Spec{Every: 60_000, Anchor: &anchor})
	if changed := given.Anchored(created, 99_999); !changed.Equal(given) {
		t.Errorf("a given anchor became %s", changed.Encode())
	}
}

func TestStoredFormIsCanonicalAndSurvivesDecode(t *testing.T) {
	anchor := int64(0)
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Cron: " 0\t9 * * mon-fri ", DST: "ring_once", Missed: "once", Overlap: "skip"},
			`{"v":1,"cron":"0 9 * * MON-FRI","tz":"UTC"}`},
		{Spec{Cron: "@Daily", TimeZone: "Asia/Tokyo", Until: 5, Times: 6, Jitter: 7},
			`{"v":1,"cron":"@daily","tz":"Asia/Tokyo","until":5,"times":6,"jitter":7}`},
		{Spec{Cron: "@daily", From: 3, Until: 5, SkipDates: []string{"2026-12-26", "2026-12-25", "2026-12-26"}},
			`{"v":1,"cron":"@daily","tz":"UTC","from":3,"until":5,"skip":[20261225,20261226]}`},
		{Spec{Every: 1000, Anchor: &anchor, Missed: "all", Overlap: "queue_one"},
			`{"v":1,"every":1000,"anchor":0,"missed":"all","missed_limit":100,"overlap":"queue_one"}`},
	} {
		r := mustParse(t, c.spec)
		if r.Encode() != c.want {
			t.Errorf("got %s, want %s", r.Encode(), c.want)
		}
		again, err := Decode(c.want)
		if err != nil || again.Local != nil || !again.Rule.Equal(r) {
			t.Errorf("%s became %+v: %v", c.want, again, err)
		}
		if shown := mustParse(t, r.Spec()); !shown.Equal(r) {
			t.Errorf("%s became %s through Spec", c.want, shown.Encode())
		}
	}
	for _, bad := range []string{"x", `{"v":2,"every":1000}`, `{"v":1,"every":1000,"new":1}`, `{"v":1}`, `{"v":1,"local":"2026-12-24T18:00:00"}`} {
		if r, err := Decode(bad); err == nil {
			t.Errorf("%s was read as %+v", bad, r)
		}
	}
	if zero, err := Decode(""); err != nil || zero != (Schedule{}) || (Rule{}).Encode() != "" {
		t.Errorf("the empty column: %v, %v", zero, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"*/5 * * * *", "0 0 29 2 1", "1-59/2 0,12 L-3 JAN-MAR FRI#L", "30 2 * * * *", "@daily", "0 0 15W,LW * ?", "0 22-2 * * 5-1"} {
		f.Add(seed, "Europe/Berlin", int64(1_700_000_000_000))
	}
	f.Fuzz(func(t *testing.T, expression, timeZone string, after int64) {
		if local, err := ParseLocal(expression, timeZone); err == nil {
			if again, err := Decode(local.Encode()); err != nil || *again.Local != local {
				t.Fatalf("%q in %q became %+v: %v", expression, timeZone, again, err)
			}
		}
		_, _ = Decode(expression)
		r, err := Parse(Spec{Cron: expression, TimeZone: timeZone})
		if refused := new(Error); err != nil { //nolint:gocritic // errors.As writes refused
			if !errors.As(err, &refused) || refused.Position > len(expression)+1 {
				t.Fatalf("%q: %#v", expression, err)
			}
			return
		}
		if at, ok := r.Next(after); ok && at <= after {
			t.Fatalf("%q: %d is not after %d", expression, at, after)
		}
		again, err := Decode(r.Encode())
		if err != nil || !again.Rule.Equal(r) || !json.Valid([]byte(r.Encode())) {
			t.Fatalf("%q became %+v: %v", expression, again, err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, expression := range []string{"* * * * * *", "*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 29 2 1", "0 0 ? 2 SUN#5", "* * ? 2 SUN#5"} {
		b.Run(expression, func(b *testing.B) {
			r := mustParse(b, Spec{Cron: expression, TimeZone: "Europe/Berlin"})
			at := int64(1_800_000_000_000)
			for b.Loop() {
				at, _ = r.Next(at)
				if at == 0 {
					at = 1_800_000_000_000
				}
			}
		})
	}
	b.Run("every", func(b *testing.B) {
		r := mustParse(b, Spec{Every: 1000})
		at := int64(0)
		for b.Loop() {
			at, _ = r.Next(at)
		}
	})
}
