package main

import (
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
)

// typed runs clockd with these environment variables. It returns the output and the exit code.
func typed(t *testing.T, env []string, args ...string) (out string, code int) {
	t.Helper()
	b, err := command(env, args...).CombinedOutput()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return string(b), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b), 0
}

func TestHelpAndVersionCommandsPrintWhatTheirFlagsPrint(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"help", "--help"}, {"help set", "set --help"}, {"help application set", "application set --help"},
		{"help help", "help --help"},
		{"--version", "version"},
	} {
		got, code := typed(t, nil, strings.Fields(c[0])...)
		want, wantCode := typed(t, nil, strings.Fields(c[1])...)
		if got != want || code != 0 || wantCode != 0 || len(want) < 20 {
			t.Errorf("clockd %s: exit code %d, printed\n%s\nclockd %s: exit code %d, printed\n%s", c[0], code, got,
				c[1], wantCode, want)
		}
	}
	help, _ := typed(t, nil, "set", "--help")
	if !strings.HasPrefix(help, "Usage: clockd set (--in=30m | --at=TIME | --cron=EXPR | --every=1h) <application> ") {
		t.Errorf("the usage line does not show alternatives:\n%s", help)
	}
	var flags []string
	for _, flag := range regexp.MustCompile(`(?m)^ +--([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		flags = append(flags, flag[1])
	}
	if at := slices.Index(flags, "in"); at < 0 ||
		!slices.Equal(flags[at:min(at+5, len(flags))], []string{"in", "at", "cron", "every", "if"}) {
		t.Errorf("the condition does not follow the flags of time: %q", flags)
	}
	if out, _ := typed(t, nil, "--help"); !strings.Contains(strings.Join(strings.Fields(out), " "), exitCodes) {
		t.Errorf("--help does not explain the exit codes:\n%s", out)
	}
}

// TestMistakesAreExplainedAndExitTwo runs commands with mistakes in arguments, flags and variables. None of them
// reaches a server or database.
func TestMistakesAreExplainedAndExitTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		args string
		want string
	}{
		{nil, "frobnicate", "clockd: unknown command \"frobnicate\"\ntry: clockd --help\n"},
		{nil, "help nosuch", "clockd: unknown command \"nosuch\"\ntry: clockd --help\n"},
		{nil, "lsit shop", "unknown command \"lsit\": did you mean list?\n"},
		{nil, "forcast", "unknown command \"forcast\": did you mean forecast?\n"},
		{nil, "--listen 127.0.0.1:0 forcast", `unknown command "forcast"`},
		{nil, "appl", "did you mean applications or application or apply?"},
		{nil, "help forcast", "unknown command \"forcast\": did you mean forecast?\ntry: clockd --help\n"},
		{nil, "application frob", "unknown command \"frob\" of clockd application\ntry: clockd application --help\n"},
		{nil, "application sett", `unknown command "sett" of clockd application: did you mean set?`},
		{nil, "get shop a b", "unexpected argument b\ntry: clockd get --help\n"},
		{nil, "pause shop",
			"clockd: expected \"<business-id>\": to pause all alarms of the application, use clockd application pause shop\ntry: clockd pause --help\n"},
		{nil, "resume shop --json", "to resume a paused application, use clockd application resume shop\n"},
		{nil, "pause", "clockd: expected \"<application> <business-id>\"\ntry: clockd pause --help\n"},
		{nil, "pause shop a b", "clockd: unexpected argument b\ntry: clockd pause --help\n"},
		{nil, "cancel shop", "clockd: expected \"<business-id>\"\ntry: clockd cancel --help\n"},
		{nil, "serve frob", "unexpected argument frob\ntry: clockd serve --help\n"},
		{nil, "set shop a --in", "clockd: --in: its value is missing\n"},
		{nil, "set shop a --in --json", `--in: its value is missing before "--json"`},
		{nil, "set shop a --in 7x",
			"--in: duration \"7x\" is neither like \"30m\" nor like \"7d\", or it is too long\ntry: clockd set --help\n"},
		{nil, "set shop a --in 5s --priority high", "--priority: \"high\" is not a whole number\n"},
		{nil, "set shop a --in 5s --if frob", "clockd: --if: \"frob\" is none of absent, earlier, later\n"},
		{nil, "set shop a --in 5s --retry limit=4,limit=5", "clockd: --retry: limit is given twice\n"},
		{nil, "set shop a --in 5s --retry limit=4 --retry limit=4", "clockd: --retry: limit is given twice\n"},
		{nil, "set shop a --in 5s --retry limit", "clockd: --retry: expected NAME=VALUE, not \"limit\"\n"},
		{nil, "set shop a --in 5s --retry=", "clockd: --retry: expected NAME=VALUE, not \"\"\n"},
		{nil, "set shop a --in 5s --retry", "clockd: --retry: its value is missing\n"},
		{nil, "application set shop --retry limit=4,cap=1s,limit=5", "clockd: --retry: limit is given twice\n"},
		{nil, "application set shop --webhook-header x-key=1 --webhook-header x-key=2",
			"clockd: --webhook-header: x-key is given twice\n"},
		{nil, "set shop a --in 5s --time-zone UTC", "--time-zone goes with --at or --cron"},
		{nil, "set shop a --at 2030-01-31T18:30",
			"--at: time \"2030-01-31T18:30\" has no offset: end it with Z or one like +01:00, or name its time zone with --time-zone\n"},
		{nil, "set shop a --at 1800000000",
			"--at: time 1800000000 looks like seconds: a number is milliseconds since the epoch, from 100000000000\ntry: clockd set --help\n"},
		{nil, "set shop a --in 5s --latest 2030-01-31T18:30", "has no offset: end it with Z or one like +01:00\n"},
		{nil, "set shop a --at 2030-02-30T00:00:00Z",
			"--at: time \"2030-02-30T00:00:00Z\": the day 2030-02-30 does not exist\n"},
		{nil, "migrate --database-url oracle://h/d", "must begin with mysql://, mariadb://, postgres:// or sqlite: "},
		{nil, "serve --retention 7x", `--retention: duration "7x" is neither`},
		{nil, "list shop --due-after yesterday", "--due-after: "},
		{nil, "bulk count shop shift --later 7x", "--later: "},
		{nil, "kick shop", "give a business id, --prefix or --state"},
		{nil, "token create x --role reader",
			"--applications is missing: a token of the role reader names its applications"},
		{nil, "token create x --role boss", `--role: unknown role "boss"`},
		{[]string{"CLOCKD_SERVER=u:secret@h"}, "get shop a", "the server's URL (CLOCKD_SERVER) cannot be read"},
		{[]string{"CLOCKD_TOKEN=secret\nx"}, "listen shop",
			"clockd: the access token (CLOCKD_TOKEN, CLOCKD_TOKEN_FILE or --token) has a line break"},
		{[]string{"CLOCKD_RETENTION=7x"}, "serve", "clockd: CLOCKD_RETENTION: duration \"7x\" is neither"},
		{[]string{"CLOCKD_MAX_PAYLOAD=abc"}, "serve", "clockd: CLOCKD_MAX_PAYLOAD: \"abc\" is not a whole number\n"},
		{[]string{"CLOCKD_MAX_PAYLOAD=99999999999999999999"}, "serve",
			"CLOCKD_MAX_PAYLOAD: 99999999999999999999 is too large\n"},
		{[]string{"CLOCKD_LOG_LEVEL=loud"}, "serve",
			"CLOCKD_LOG_LEVEL: \"loud\" is not a level: write debug, info, warn or error\n"},
		{[]string{"CLOCKD_LOG_FORMAT=xml", "CLOCKD_NO_MIGRATE=perhaps"}, "serve",
			"the configuration cannot be used:\n  - CLOCKD_LOG_FORMAT: \"xml\" is none of text, json\n  - CLOCKD_NO_MIGRATE: "},
	} {
		out, code := typed(t, c.env, strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(out, c.want) || strings.Contains(out, "secret") {
			t.Errorf("%v clockd %s: exit code %d, want %d; printed\n%s\nwant\n%s", c.env, c.args, code, exitUsage, out,
				c.want)
		}
	}
}

// TestDurationsOfTheServiceMayBeDays starts the service with days in a variable and in a flag. It then refuses another
// setting.
func TestDurationsOfTheServiceMayBeDays(t *testing.T) {
	t.Parallel()
	out, code := typed(t, []string{"CLOCKD_RETENTION=7d", "CLOCKD_START_TIMEOUT=0", "CLOCKD_WRITE_LANES=-1"}, "serve",
		"--audit-retention", "400d")
	if code != exitUsage || strings.Contains(out, "etention") || strings.Contains(out, "imeout") {
		t.Errorf("exit code %d, printed\n%s\nwant a complaint about write lanes alone", code, out)
	}
}

// TestEmptyTimesAreRefused gives the flags of a time as a script does whose variables are not set.
func TestEmptyTimesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := (&setCommand{}).set()
	for name, err := range map[string]error{"set": err, "preview": (&previewCommand{Count: 10}).Run()} {
		if !errors.As(err, new(*usageError)) || !strings.Contains(err.Error(), "must not be empty") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextOfOthersStaysInItsLine(t *testing.T) {
	t.Parallel()
	a := client.Alarm{Application: "shop", BusinessID: "x", State: client.Paused, LastError: "paused: a\nshop/y is rung\t"}
	if got := describe(&a); strings.Count(got, "\n") != strings.Count(describe(&client.Alarm{State: client.Paused}), "\n") {
		t.Errorf("%q", got)
	}
}
