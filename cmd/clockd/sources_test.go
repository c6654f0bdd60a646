package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refused runs clockd with mistakes in its configuration. It returns the lines of its output, after it has checked the
// exit code.
func refused(t *testing.T, env []string, args ...string) []string {
	t.Helper()
	out, code := typed(t, env, args...)
	if code != exitUsage {
		t.Errorf("%v clockd %v: exit code %d, want %d; printed\n%s", env, args, code, exitUsage, out)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// wantLines checks that each wanted text begins a line of the configuration error, and that the error has no further
// lines.
func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	mistakes := 0
	for _, line := range got {
		if strings.HasPrefix(line, "  - ") {
			mistakes++
		}
	}
	if mistakes != len(want) {
		t.Errorf("%d mistakes are reported, want %d:\n%s", mistakes, len(want), strings.Join(got, "\n"))
	}
	for _, text := range want {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "  - "+text) }) {
			t.Errorf("no line begins with %q:\n%s", text, strings.Join(got, "\n"))
		}
	}
}

// TestAllConfigurationErrorsAreReportedTogether mixes values that cannot be read, values out of bounds and values that
// do not fit together, from variables, flags and files of secrets.
func TestAllConfigurationErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	wantLines(t,
		refused(t, []string{"CLOCKD_RETENTION=abc", "CLOCKD_MAX_PAYLOAD=x", "CLOCKD_HEAP_ENTRIES=-1"}, "serve"),
		`CLOCKD_RETENTION: duration "abc"`, `CLOCKD_MAX_PAYLOAD: "x" is not`,
		"CLOCKD_HEAP_ENTRIES: heap entries must be from")
	wantLines(t, refused(t, []string{
		"CLOCKD_RETENTION=abc", "CLOCKD_LOG_FORMAT=xml", "CLOCKD_NO_MIGRATE=perhaps", "CLOCKD_CONNECTIONS=-1",
		"CLOCKD_RING_BATCH=many",
		"CLOCKD_OTLP_ENDPOINT=collector", "CLOCKD_KAFKA_CA=" + missing, "CLOCKD_KAFKA_TLS=true",
		"CLOCKD_KAFKA_BROKERS=k:9092", "CLOCKD_AMQP_URL_FILE=" + missing,
	}, "serve", "--max-payload", "x", "--write-lanes=-1", "--heap-entries", "y", "--auth", "perhaps"),
		"--max-payload: ", "--write-lanes: ", "--heap-entries: ", `--auth: "perhaps" is none of auto, required, none`,
		"CLOCKD_AMQP_URL_FILE: open", "CLOCKD_RETENTION: ", `CLOCKD_LOG_FORMAT: "xml"`, "CLOCKD_NO_MIGRATE: ",
		"CLOCKD_CONNECTIONS: ",
		"CLOCKD_RING_BATCH: ", "CLOCKD_OTLP_ENDPOINT: OTLP endpoint", "CLOCKD_KAFKA_CA: authorities of Kafka")
	wantLines(t, refused(t, []string{"CLOCKD_MAX_PAYLOAD=2097153"}, "serve"),
		"CLOCKD_MAX_PAYLOAD: max payload must be at most 2097152: ")
	wantLines(t, refused(t, []string{"CLOCKD_SHARDS=x", "CLOCKD_LOG_LEVEL=loud"}, "migrate"), "CLOCKD_SHARDS: ",
		"CLOCKD_LOG_LEVEL: ")
}

func TestFlagOverridesFaultyVariable(t *testing.T) {
	t.Parallel()
	database := "sqlite:" + filepath.Join(t.TempDir(), "clockd.db")
	if out, code := typed(t, []string{"CLOCKD_SHARDS=x", "CLOCKD_DATABASE_URL=" + database}, "migrate", "--shards", "8"); code != 0 {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
}

func TestHelpNeedsNoValidConfiguration(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	if out, code := typed(t, []string{"CLOCKD_RETENTION=x", "CLOCKD_DATABASE_URL_FILE=" + missing}, "serve",
		"--help"); code != 0 ||
		!strings.Contains(out, "$CLOCKD_RETENTION") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
}

// TestFaultsOfOtherCommandsDoNotMatter sets a variable of the service that a client does not read.
func TestFaultsOfOtherCommandsDoNotMatter(t *testing.T) {
	t.Parallel()
	out, code := typed(t, []string{"CLOCKD_RETENTION=x"}, "completion", "bash")
	if code != 0 || out == "" {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
}
