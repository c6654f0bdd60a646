package repeat

import "testing"

func TestSentencesSayWhenARuleRings(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"0 9 * * MON-FRI":        "at 09:00 on Monday to Friday",
		"30 2 * * *":             "at 02:30",
		"30 0 9 * * *":           "at 09:00:30",
		"@weekly":                "at 00:00 on Sunday",
		"* * * * *":              "every minute",
		"* * * * * *":            "every second",
		"*/5 * * * *":            "every 5 minutes",
		"*/10 * * * * *":         "every 10 seconds",
		"*/15 8-18 * * *":        "every 15 minutes of hours 8 to 18",
		"0,30 */30 9 * * *":      "at 09:00, 09:00:30, 09:30 and 09:30:30",
		"0,30 */10 9-17 * * *":   "every 30 seconds of minutes 0, 10, 20, 30, 40 and 50 of hours 9 to 17",
		"15 10 * * * *":          "at second 15 of minute 10 of every hour",
		"0 * * * *":              "at minute 0 of every hour",
		"5,35 * * * *":           "at minutes 5 and 35 of every hour",
		"*/25 * * * *":           "at minutes 0, 25 and 50 of every hour",
		"10-20 3 * * *":          "at minutes 10 to 20 of hour 3",
		"0 8-18 * * MON-FRI":     "every hour from 08:00 to 18:00 on Monday to Friday",
		"0 */6 * * *":            "at 00:00, 06:00, 12:00 and 18:00",
		"0 1-13/2 * * *":         "at minute 0 of hours 1, 3, 5, 7, 9, 11 and 13",
		"0 9,17 * * SAT,SUN":     "at 09:00 and 17:00 on Saturday and Sunday",
		"0 9 L * *":              "at 09:00 on the last day of the month",
		"0 9 L-3 * *":            "at 09:00 on the day that is 3 days before the last of the month",
		"0 9 15W * *":            "at 09:00 on the day from Monday to Friday next to day 15 of the month",
		"0 9 LW * *":             "at 09:00 on the last day from Monday to Friday of the month",
		"0 9 1,L * *":            "at 09:00 on day 1 of the month and the last day of the month",
		"0 9 * * FRI#3":          "at 09:00 on the third Friday of the month",
		"0 9 * * MON,FRI#L":      "at 09:00 on Monday and the last Friday of the month",
		"0 0 1,15 JAN,JUL *":     "at 00:00 on days 1 and 15 of the month in January and July",
		"0 0 ? JUN-AUG,12 5-1":   "at 00:00 on Monday and Friday to Sunday in June to August and December",
		"0 9 13 * FRI":           "at 09:00 on day 13 of the month or on Friday",
		"0 9 */9 * FRI":          "at 09:00 on days 1, 10, 19 and 28 of the month, if it is Friday",
		"0 9 1-31,L * FRI":       "at 09:00",
		"0 9 13 * MON-SUN,FRI#L": "at 09:00",
	} {
		if got := mustParse(t, Spec{Cron: cron, TimeZone: "Asia/Tokyo"}).Sentence(); got != want+", Asia/Tokyo" {
			t.Errorf("%s: %s, want %s", cron, got, want)
		}
	}
	anchor := instant(t, "2026-01-01T00:00:00Z")
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Every: 5000}, "every 5 seconds"},
		{Spec{Every: 86_400_000}, "every day"},
		{Spec{Every: 1500}, "every 1500 ms"},
		{Spec{Every: 90 * 60_000, Anchor: &anchor, Times: 1},
			"every 90 minutes, counted from 2026-01-01T00:00:00Z, 1 time at most"},
		{Spec{Cron: "0 9 * * *", From: anchor, SkipDates: []string{"2026-12-25"}},
			"at 09:00, UTC, except on 2026-12-25, from 2026-01-01T00:00:00Z"},
		{Spec{Cron: "0 9 * * *", Until: anchor, Times: 2}, "at 09:00, UTC, until 2026-01-01T00:00:00Z, 2 times at most"},
	} {
		if got := mustParse(t, c.spec).Sentence(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.spec, got, c.want)
		}
	}
	if got := (Rule{}).Sentence(); got != "once" {
		t.Errorf("an alarm that rings once: %s", got)
	}
}
