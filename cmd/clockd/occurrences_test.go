package main

import (
	"errors"
	"io"
	"net/http"
	"os/exec"
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
		"shop/report is scheduled", "rings at 02:30, Europe/Berlin, 7 times at most", "repeats: 30 2 * * * Europe/Berlin", "7 times", "occurrence 1 at 2")
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

// A preview needs no server, and shows the same as the route of a server.
func TestRulesArePreviewedWithoutAServer(t *testing.T) {
	t.Parallel()
	preview := func(args ...string) (out string, status int) {
		t.Helper()
		cmd := command([]string{"CLOCKD_SERVER=http://127.0.0.1:1"}, append([]string{"repeat", "preview"}, args...)...)
		b, err := cmd.CombinedOutput()
		if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
			t.Fatal(err)
		}
		return string(b), cmd.ProcessState.ExitCode()
	}
	night := []string{"--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--from", "2036-10-01T00:00:00Z", "--count", "1"}
	const want = `rings at 02:30, Europe/Berlin, from 2036-10-01T00:00:00Z
NUMBER  AT                        LOCAL TIME
1       2036-10-01T00:30:00.000Z  2036-10-01T02:30:00+02:00
the clock changes at 2036-10-26T01:00:00.000Z, from +02:00 to +01:00
  2036-10-24T00:30:00.000Z  2036-10-24T02:30:00+02:00
  2036-10-25T00:30:00.000Z  2036-10-25T02:30:00+02:00
  2036-10-26T00:30:00.000Z  2036-10-26T02:30:00+02:00
  2036-10-27T01:30:00.000Z  2036-10-27T02:30:00+01:00
  2036-10-28T01:30:00.000Z  2036-10-28T02:30:00+01:00
time-zone data `
	if out, status := preview(night...); status != 0 || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d, printed\n%s", status, out)
	}
	period := []string{"--every", "90m", "--anchor", "2036-10-01T00:00:00Z", "--until", "2036-10-01T02:00:00Z"}
	if out, status := preview(period...); status != 0 || strings.Count(out, "2036-10-01T01:30:00") != 2 ||
		strings.Contains(out, "changes") {
		t.Errorf("exit code %d, printed\n%s", status, out)
	}
	for fault, args := range map[string][]string{
		"--cron: hour 25 is over 23 (at character 3)": {"--cron", "0 25 * * *"},
		"--latest-after: ":                            {"--every", "1h", "--latest-after", "9000h"},
		"--count must be from 1 to 1000":              {"--cron", "@daily", "--count", "1001"},
		"missing flags: --cron=EXPR or --every=1h":    nil,
	} {
		if out, status := preview(args...); status != 2 || !strings.Contains(out, fault) {
			t.Errorf("%v: exit code %d, printed %s", args, status, out)
		}
	}
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	response, err := http.Post(p.url+"/v1/repeat/preview", "application/json", strings.NewReader(
		`{"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin","from":"2036-10-01T00:00:00Z"},"count":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if out, _ := preview(append(night, "--json")...); err != nil || out != string(body) {
		t.Errorf("the command prints\n%s\nthe server responds with\n%s%v", out, body, err)
	}
}
