package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writtenFile writes a file for the test and returns its path.
func writtenFile(t *testing.T, mode os.FileMode, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clockd.yaml")
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// shownConfig runs clockd config. It returns its settings by name.
func shownConfig(t *testing.T, env []string, args ...string) map[string]shownSetting {
	t.Helper()
	out, code := typed(t, env, append([]string{"config", "--json"}, args...)...)
	var document struct{ Settings []shownSetting }
	if err := json.Unmarshal([]byte(out), &document); err != nil || code != 0 {
		t.Fatalf("%v, exit code %d, printed\n%s", err, code, out)
	}
	all := map[string]shownSetting{}
	for _, s := range document.Settings {
		all[s.Name] = s
	}
	return all
}

func TestConfigShowsEachSettingWithItsSource(t *testing.T) {
	t.Parallel()
	secret := writtenFile(t, 0o600, "amqp://u:hidden@mq:5672/\n")
	file := writtenFile(t, 0o600, "retention: 7d\nmax-payload: 1000\nhosts: a, b\nlog-level: debug\nring-workers: 4\n")
	env := []string{"CLOCKD_DATABASE_URL=mysql://u:hidden@db:3306/clockd", "CLOCKD_AMQP_URL_FILE=" + secret,
		"CLOCKD_MAX_PAYLOAD=2000",
		"CLOCKD_RING_WORKERS=5", "CLOCKD_CONFIG=" + file}
	all := shownConfig(t, env, "--ring-workers", "6")
	for _, want := range []shownSetting{
		{"database-url", "CLOCKD_DATABASE_URL", "mysql://u@db:3306/clockd", fromEnvironment, "CLOCKD_DATABASE_URL", ""},
		{"amqp-url", "CLOCKD_AMQP_URL", "amqp://u@mq:5672/", fromEnvironment, "CLOCKD_AMQP_URL_FILE", secret},
		{"ring-workers", "CLOCKD_RING_WORKERS", "6", fromFlag, "--ring-workers", ""},
		{"max-payload", "CLOCKD_MAX_PAYLOAD", "2000", fromEnvironment, "CLOCKD_MAX_PAYLOAD", ""},
		{"retention", "CLOCKD_RETENTION", "168h", fromFile, "", file},
		{"log-level", "CLOCKD_LOG_LEVEL", "DEBUG", fromFile, "", file},
		{"audit-retention", "CLOCKD_AUDIT_RETENTION", "2160h", fromDefault, "", ""},
		{"hosts", "CLOCKD_HOSTS", "a,b", fromFile, "", file},
		{"ring-batch", "CLOCKD_RING_BATCH", "300", fromDefault, "", ""},
		{"start-timeout", "CLOCKD_START_TIMEOUT", "1m", fromDefault, "", ""},
	} {
		if got := all[want.Name]; got != want {
			t.Errorf("%s is shown as %+v, want %+v", want.Name, got, want)
		}
	}
	out, code := typed(t, env, "config", "--ring-workers", "6")
	if code != 0 || strings.Contains(out, "hidden") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
	for _, want := range []string{"amqp-url amqp://u@mq:5672/ CLOCKD_AMQP_URL_FILE (" + secret + ")",
		"retention 168h " + file, "ring-workers 6 --ring-workers",
		"start-timeout 1m default"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the table has no %q:\n%s", want, out)
		}
	}
}

func TestConfigReportsMistakesAfterTheTable(t *testing.T) {
	t.Parallel()
	lines := refused(t, []string{"CLOCKD_RETENTION=abc", "CLOCKD_HEAP_ENTRIES=-1"}, "config")
	wantLines(t, lines, "CLOCKD_RETENTION: ", "CLOCKD_HEAP_ENTRIES: ")
	if !strings.HasPrefix(lines[0], "SETTING") {
		t.Errorf("the first line is %q", lines[0])
	}
}

// TestMistakesOfAConfigurationFileAreReportedTogether also has mistakes beside the file. No message has a value that
// may be a secret.
func TestMistakesOfAConfigurationFileAreReportedTogether(t *testing.T) {
	t.Parallel()
	file := writtenFile(t, 0o600, strings.Join([]string{
		"# a comment", "---", "databse-url: postgres://u:hidden@db/clockd", "retention: abc # a comment",
		"webhook-proxy: {host: hidden}",
		"max-payload: many", "heap-entries: -1", "log-format: xml", "log-format: text", "amqp-exchanges:", "  - a",
		"config: other",
	}, "\n"))
	lines := refused(t, []string{"CLOCKD_SHARDS=x"}, "serve", "--config", file)
	wantLines(t, lines, "CLOCKD_SHARDS: ", file+", line 5: webhook-proxy needs a value, or a list of values",
		file+", line 9: log-format is set twice",
		file+": databse-url: there is no such setting, did you mean database-url?",
		file+": config: there is no such setting",
		file+": retention: ", file+": max-payload: ", file+": log-format: ", file+": heap-entries: heap entries must",
		file+": amqp-exchanges: further exchanges")
	for content, want := range map[string]string{"- a": ", line 1: write lines of name: value", "node: 'hidden": ": found", "retention: 7d\n  x: y\n": ": line 2: "} {
		broken := writtenFile(t, 0o600, content)
		if lines := refused(t, nil, "serve", "--config", broken); !strings.HasPrefix(lines[0], "clockd: "+broken+want) || strings.Contains(lines[0], "hidden") {
			t.Errorf("%q is refused with %q", content, lines)
		}
	}
	if strings.Contains(strings.Join(lines, "\n"), "hidden") {
		t.Errorf("a secret is printed:\n%s", strings.Join(lines, "\n"))
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if lines := refused(t, nil, "migrate", "--config", missing); !strings.Contains(lines[0], missing) {
		t.Errorf("printed %q", lines)
	}
}

func TestCommandsOnTheDatabaseReadTheConfigurationFile(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "named.db")
	file := writtenFile(t, 0o604, "database-url: \"sqlite:"+database+"\"\nretention: 7d\nkafka-password: hidden\n")
	out, code := typed(t, []string{"CLOCKD_CONFIG=" + file}, "migrate")
	if _, err := os.Stat(database); err != nil || code != 0 {
		t.Errorf("exit code %d, %v, printed\n%s", code, err, out)
	}
	if !strings.Contains(out, "every user can read") || !strings.Contains(out, `mend="chmod o-r `) ||
		strings.Contains(out, "hidden") {
		t.Errorf("printed\n%s\nwant a warning about the mode of the file", out)
	}
	if out, code := typed(t, nil, "application", "list", "--config", file); code != 0 {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
	private := writtenFile(t, 0o640, "database-url: sqlite:"+database+"\nkafka-password: hidden\n")
	if out, _ := typed(t, nil, "migrate", "--config", private); strings.Contains(out, "every user can read") {
		t.Errorf("a private file is reported:\n%s", out)
	}
	public := writtenFile(t, 0o644, "database-url: sqlite:"+database+"\n")
	if out, _ := typed(t, nil, "migrate", "--config", public); strings.Contains(out, "every user can read") {
		t.Errorf("a file without a secret is reported:\n%s", out)
	}
}

func TestConfigurationFileIsYAML(t *testing.T) {
	t.Parallel()
	file := writtenFile(t, 0o600,
		"a: 1\r\nb: 'x # y' # comment\nc: \"tab\\there\"\nd: [x, 'y', z]\ne:\n  - one\n  - 'two' # comment\nf: # nothing\ng: amqp://u:p#q@h/\nh: x # comment\n")
	got, err := readConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b": "x # y", "c": "tab\there", "d": "x,y,z", "e": "one,two", "f": "", "g": "amqp://u:p#q@h/", "h": "x"} {
		if value, set := got.values[name]; !set || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}
