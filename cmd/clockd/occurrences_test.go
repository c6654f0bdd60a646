package main

import (
	"strings"
	"testing"
)

// A person sets a repeating alarm, sees its occurrences, and is told what is wrong with an expression.
func TestRepeatingAlarmsAreSetAndShownFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	run := func(fails bool, args ...string) string {
		t.Helper()
		out, err := command([]string{"CLOCKD_SERVER=" + p.url}, args...).CombinedOutput()
		if (err != nil) != fails {
			t.Fatalf("clockd %s: %v, printed %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	has := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
	}
	has(run(false, "set", "shop", "report", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--times", "7"),
		"shop/report is scheduled", "repeats: 30 2 * * * Europe/Berlin", "7 times", "occurrence 1 at 2")
	if next := run(false, "occurrences", "shop", "report", "--count", "5"); strings.Count(next, ":30:00.000Z") != 10 ||
		!strings.Contains(next, "time-zone data 20") {
		t.Errorf("five occurrences:\n%s", next)
	}
	run(false, "set", "shop", "tick", "--every", "1h")
	has(run(false, "list", "shop"), "REPEATS", "30 2 * * * Europe/Berlin", "every 1h")
	has(run(true, "set", "shop", "never", "--cron", "0 0 31 2 *"), "never occurs", "field repeat.cron")
	has(run(true, "set", "shop", "wrong", "--cron", "0 25 * * *"), "at character 3")
	run(false, "set", "shop", "once", "--in", "1h")
	has(run(true, "occurrences", "shop", "once"), "rings_once")
	has(run(false, "version"), "time-zone data 20")
}
