package repeat

import (
	"fmt"
	"strings"
	"testing"
)

func TestPreviewShowsTheNextOccurrencesAndTheNextChangeOfTheClock(t *testing.T) {
	t.Parallel()
	from := instant(t, "2026-10-01T00:00:00Z")
	for _, c := range []struct {
		spec          Spec
		first, around string // local times
	}{
		{
			Spec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, "2026-10-01T02:30:00+02:00 2026-10-02T02:30:00+02:00",
			"2026-10-23T02:30:00+02:00 2026-10-24T02:30:00+02:00 2026-10-25T02:30:00+02:00 " +
				"2026-10-26T02:30:00+01:00 2026-10-27T02:30:00+01:00",
		},
		{
			Spec{Cron: "0 * * * *", TimeZone: "Europe/Berlin"}, "2026-10-01T03:00:00+02:00 2026-10-01T04:00:00+02:00",
			"2026-10-25T00:00:00+02:00 2026-10-25T01:00:00+02:00 2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 " +
				"2026-10-25T03:00:00+01:00 2026-10-25T04:00:00+01:00 2026-10-25T05:00:00+01:00",
		},
		{
			Spec{Cron: "* * * * * *", TimeZone: "Europe/Berlin"}, "2026-10-01T02:00:01+02:00 2026-10-01T02:00:02+02:00",
			"2026-10-25T02:59:57+02:00 2026-10-25T02:59:58+02:00 2026-10-25T02:59:59+02:00 2026-10-25T02:00:00+01:00 " +
				"2026-10-25T02:00:01+01:00 2026-10-25T02:00:02+01:00 2026-10-25T02:00:03+01:00",
		},
		{Spec{Cron: "0 0 1 1 *", TimeZone: "Europe/Berlin"}, "2027-01-01T00:00:00+01:00 2028-01-01T00:00:00+01:00", ""},
		{Spec{Cron: "@daily", TimeZone: "Asia/Tokyo"}, "2026-10-02T00:00:00+09:00 2026-10-03T00:00:00+09:00", "none"},
		{Spec{Cron: "@daily", Times: 1}, "2026-10-02T00:00:00Z", "none"},
		{Spec{Every: 3_600_000}, "2026-10-01T01:00:00Z 2026-10-01T02:00:00Z", "none"},
		{Spec{Cron: "@daily", Until: from}, "", "none"},
	} {
		r := mustParse(t, c.spec)
		p := r.Preview(from, 2)
		var first, around []string
		for i, o := range p.Occurrences {
			if o.Number != int64(i+1) {
				t.Errorf("%+v: occurrence %d has the number %d", c.spec, i, o.Number)
			}
			first = append(first, r.Local(o.At))
		}
		got := "none"
		if p.Change != nil {
			for _, at := range p.Change.Occurrences {
				around = append(around, r.Local(at))
			}
			got = strings.Join(around, " ")
			change := fmt.Sprintf("%s from %d to %d", rfc3339(p.Change.At), p.Change.Before, p.Change.After)
			if change != "2026-10-25T01:00:00Z from 7200 to 3600" {
				t.Errorf("%+v: the clock changes at %s", c.spec, change)
			}
		}
		if s := strings.Join(first, " "); s != c.first || got != c.around {
			t.Errorf("%+v:\n%s, want\n%s;\n%s, want\n%s", c.spec, s, c.first, got, c.around)
		}
	}
}
