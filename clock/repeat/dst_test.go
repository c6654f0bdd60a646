package repeat

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOccurrencesAtDaylightSavingEdges(t *testing.T) {
	for _, c := range []struct {
		name, zone, cron, after string
		want                    []string // local times
	}{
		{"gap, fixed", "Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"overlap, fixed", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"gap, several labels ring once", "Europe/Berlin", "0,15,30 2,3 * * *", "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00", "2026-03-29T03:30:00+02:00",
				"2026-03-30T02:00:00+02:00"}},
		{"overlap, fixed hours", "Europe/Berlin", "0 1-4 * * *", "2026-10-25T00:30:00+02:00",
			[]string{"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00",
				"2026-10-25T04:00:00+01:00"}},
		{"gap, interval", "Europe/Berlin", "*/30 * * * *", "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"overlap, interval", "Europe/Berlin", "0 * * * *", "2026-10-25T01:00:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"minutes of one hour, gap", "Europe/Berlin", "*/30 2 * * *", "2026-03-28T02:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-30T02:00:00+02:00"}},
		{"gap of 30 minutes", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"overlap of 30 minutes", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"overlap of 30 minutes, interval", "Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:30:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30",
				"2026-04-05T02:00:00+10:30"}},
		{"midnight gap", "America/Sao_Paulo", "@daily", "2018-11-03T00:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"midnight overlap", "America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00:00-02:00",
			[]string{"2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"}},
		{"midnight gap", "Africa/Cairo", "0 0 * * *", "2026-04-23T12:00:00+02:00",
			[]string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		{"midnight gap", "Asia/Beirut", "0 0 * * SUN", "2026-03-28T12:00:00+02:00",
			[]string{"2026-03-29T01:00:00+03:00", "2026-04-05T00:00:00+03:00"}},
		{"skipped day, fixed", "Pacific/Apia", "0 9 * * *", "2011-12-29T00:00:00-10:00",
			[]string{"2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
		{"skipped day, interval", "Pacific/Apia", "0 */12 * * *", "2011-12-29T00:00:00-10:00",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}},
		{"west of UTC", "America/New_York", "30 2 8 3 *", "2026-01-01T00:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2027-03-08T02:30:00-05:00"}},
		{"year of interval in a gap", "Europe/Berlin", "30 2-2/1 29 3 *", "2026-01-01T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
		{"interval whose label is in a gap waits a year", "Europe/Berlin", "*/30 2 29 3 *", "2026-01-01T00:00:00+01:00",
			[]string{"2027-03-29T02:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
	} {
		t.Run(c.zone+" "+c.name, func(t *testing.T) {
			r := mustParse(t, Spec{Cron: c.cron, TimeZone: c.zone})
			first, _ := r.First(instant(t, c.after))
			var got []string
			for _, o := range r.Occurrences(first, len(c.want)) {
				got = append(got, time.UnixMilli(o.At).In(r.zone.location).Format(time.RFC3339))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.cron, got, c.want)
			}
		})
	}
}

func TestLocalTimeFollowsTheSameRule(t *testing.T) {
	for _, c := range []struct{ zone, text, want string }{
		{"Europe/Berlin", "2026-12-24T18:00:00", "2026-12-24T18:00:00+01:00"},
		{"Europe/Berlin", "2026-12-24T18:00", "2026-12-24T18:00:00+01:00"},
		{"Europe/Berlin", "2026-03-29T02:30:00.125", "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-03-29T01:59:59.999", "2026-03-29T01:59:59.999+01:00"},
		{"Europe/Berlin", "2026-10-25T02:30:00.125", "2026-10-25T02:30:00.125+02:00"},
		{"Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T03:00:00+01:00"},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-04T02:30:00+11:00"},
		{"Pacific/Apia", "2011-12-30T12:00:00", "2011-12-31T00:00:00+14:00"},
		{"UTC", "2026-12-24T18:00:00", "2026-12-24T18:00:00Z"},
	} {
		local, err := ParseLocal(c.text, c.zone)
		if err != nil || local.Instant() != instant(t, c.want) {
			t.Errorf("%s in %s: got %+v (%v), want %s", c.text, c.zone, local, err, c.want)
			continue
		}
		if again, err := Decode(local.Encode()); err != nil || again.Rule != nil || *again.Local != local {
			t.Errorf("%s became %+v: %v", local.Encode(), again, err)
		}
	}
	for _, text := range []string{"", "2026-12-24", "2026-12-24T18:00:00Z", "2026-12-24T18:00:00+01:00",
		"2026-02-30T18:00:00", "2026-12-24 18:00:00",
		"2026-12-24T8:00:00", "2026-12-24T18:00:00.1234", "2026-12-24T18:00:00,5", "1960-01-01T00:00:00"} {
		if local, err := ParseLocal(text, "UTC"); err == nil {
			t.Errorf("%q became %s", text, local)
		}
	}
	for _, name := range []string{"", "Local", "europe/berlin", "CEST"} {
		if local, err := ParseLocal("2026-12-24T18:00", name); err == nil {
			t.Errorf("time zone %q was read as %s", name, local.TimeZone())
		}
	}
}

// walked lists expressions with the same meaning in Go, for the walk over the local clock.
var walked = []struct {
	cron     string
	interval bool
	fits     func(t time.Time) bool
}{
	{"30 2 * * *", false, func(t time.Time) bool { return t.Hour() == 2 && t.Minute() == 30 }},
	{"0 0 * * 0", false,
		func(t time.Time) bool { return t.Hour() == 0 && t.Minute() == 0 && t.Weekday() == time.Sunday }},
	{"15,45 0-3,23 L,28-31 * *", false, func(t time.Time) bool {
		return (t.Minute() == 15 || t.Minute() == 45) && (t.Hour() <= 3 || t.Hour() == 23) && t.Day() >= 28
	}},
	{"*/20 * * * *", true, func(t time.Time) bool { return t.Minute()%20 == 0 }},
	{"*/10 2 * * *", true, func(t time.Time) bool { return t.Minute()%10 == 0 && t.Hour() == 2 }},
	{"30 */2 * * 1-5", true, func(t time.Time) bool {
		return t.Minute() == 30 && t.Hour()%2 == 0 && t.Weekday() != time.Sunday && t.Weekday() != time.Saturday
	}},
}

// walk compares the occurrences in a range with a walk over the local clock, minute by minute. Range and transitions
// are whole minutes.
func walk(t *testing.T, name string, from, to int64) {
	t.Helper()
	z, err := loadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range walked {
		r := mustParse(t, Spec{Cron: w.cron, TimeZone: name})
		next, ok := r.Next(from*1000 - 1)
		highest := int64(-1 << 62) // latest label shown before the instant
		for at := from - shiftBound; at < to; at += 60 {
			_, offset := time.Unix(at, 0).In(z.location).Zone()
			label := at + int64(offset)
			rings := w.interval && w.fits(time.Unix(label, 0).UTC())
			for l := max(highest+60, label-shiftBound); !w.interval && !rings && l <= label; l += 60 {
				rings = w.fits(time.Unix(l, 0).UTC())
			}
			highest = max(highest, label)
			if at < from {
				continue
			}
			if rings != (ok && next == at*1000) {
				t.Errorf("%s in %s: at %s the walk says %v, but the next occurrence is %s", w.cron, name,
					rfc3339(at*1000), rings, rfc3339(next))
				return
			}
			if rings {
				next, ok = r.Next(next)
			}
		}
	}
}

// transitions returns the instants in a range at which the offset of a zone changes.
func transitions(t *testing.T, name string, from, to int64) []int64 {
	t.Helper()
	z, err := loadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []int64
	for s := z.spanAt(from); s.end < to; {
		next := z.spanAt(s.end)
		if next.offset != s.offset {
			list = append(list, s.end)
		}
		s = next
	}
	return list
}

const day = 24 * 60 * 60

func TestOccurrencesMatchAWalkAtEveryTransitionOfTheYear(t *testing.T) {
	if count := walkTransitions(t, 2026, 2027); count < 20 {
		t.Errorf("%d transitions", count)
	}
}

// walkTransitions walks over the days around each transition of all zones in the years, and returns their number.
func walkTransitions(t *testing.T, from, before int) (count int) {
	t.Helper()
	begin := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(before, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	walkedTransitions := map[[3]int64]bool{} // instant and offsets: many zones share them
	for _, name := range Data().Names() {
		for _, at := range transitions(t, name, begin, end) {
			z, _ := loadZone(name)
			key := [3]int64{at, z.spanAt(at - 1).offset, z.spanAt(at).offset}
			if walkedTransitions[key] {
				continue
			}
			walkedTransitions[key] = true
			count++
			walk(t, name, at-day, at+day)
		}
	}
	return count
}

func TestOccurrencesMatchAWalkInUnusualYears(t *testing.T) {
	for _, c := range []struct {
		zone     string
		from, to int
	}{
		{"Pacific/Apia", 2009, 2013}, {"America/Sao_Paulo", 2017, 2020}, {"Africa/Cairo", 2010, 2015},
		{"Pacific/Kwajalein", 1993, 1994},
		{"Africa/Casablanca", 2025, 2027}, {"Asia/Pyongyang", 2015, 2019}, {"America/Caracas", 2007, 2017},
		{"Antarctica/Troll", 2025, 2027},
		{"Antarctica/Casey", 2018, 2024}, {"Europe/Lisbon", 1992, 1997},
	} {
		from := time.Date(c.from, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		to := time.Date(c.to, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		found := transitions(t, c.zone, from, to)
		if len(found) == 0 {
			t.Errorf("%s has no transitions from %d to %d", c.zone, c.from, c.to)
		}
		for _, at := range found {
			walk(t, c.zone, at-day, at+day)
		}
	}
}

// TestTableOfEdgesInTheDocumentHolds compares each line of the table of edges in docs/repeat.md with the occurrences
// from that time on.
func TestTableOfEdgesInTheDocumentHolds(t *testing.T) {
	document, err := os.ReadFile("../../docs/repeat.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(document), "| edge | from | rings at |\n")
	if !found {
		t.Fatal("docs/repeat.md has no table of edges")
	}
	zones, count := map[string]bool{}, 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| \n"), "`", ""), " | ")
		if strings.HasPrefix(line, "|---") {
			continue
		}
		if len(cells) < 4 {
			break
		}
		zones[cells[0]], count = true, count+1
		want := strings.Split(cells[len(cells)-1], ", ")
		if got := edgesOf(t, cells, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v", strings.TrimSpace(line), got)
		}
	}
	if len(zones) < 5 || count < 12 {
		t.Errorf("the table has %d lines about %d zones", count, len(zones))
	}
}

// edgesOf returns the rings of a line: of its local time, or the first ones of its expression at or after its local time of day.
func edgesOf(t *testing.T, cells []string, count int) (rings []string) {
	t.Helper()
	zone, when := cells[0], cells[1]
	shown := func(at int64) string {
		z, err := loadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(at).In(z.location).Format(time.RFC3339)
	}
	if local, err := ParseLocal(when, zone); err == nil {
		return []string{shown(local.Instant())}
	}
	from := cells[3]
	if !strings.Contains(from, "T") {
		from += "T00:00"
	}
	begin, err := ParseLocal(from, zone)
	if err != nil {
		t.Fatal(err)
	}
	rule := mustParse(t, Spec{Cron: when, TimeZone: zone})
	first, _ := rule.First(begin.Instant() - 1)
	for _, o := range rule.Occurrences(first, count) {
		rings = append(rings, shown(o.At))
	}
	return rings
}
