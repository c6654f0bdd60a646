package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBashCompletesCommandsFlagsAndValues sources the script in bash, and completes words as bash does: it splits them
// at "=".
func TestBashCompletesCommandsFlagsAndValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(release(), filepath.Join(dir, "clockd")); err != nil {
		t.Fatal(err)
	}
	const script = `source <(clockd completion bash)
COMP_WORDS=(clockd "$@"); COMP_CWORD=$#
compopt() { echo files; }
_clockd
printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range []struct {
		words []string // the last one is completed
		want  string   // all of the completions if they are few, else one of them
	}{
		{[]string{"appl"}, "applications application apply"},
		{[]string{""}, "serve"},
		{[]string{"set", "--i"}, "--if --in"},
		{[]string{"set", "shop", "order-1", "--i"}, "--if --in"},
		{[]string{"set", "--in", "5s", "--if", ""}, "absent earlier later"},
		{[]string{"application", "s"}, "show set seal"},
		{[]string{"application", "set", "shop", "--target", "a"}, "amqp"},
		{[]string{"help", "application", "s"}, "show set seal"},
		{[]string{"--log-f"}, "--log-format"},
		{[]string{"serve", "--log-format", "=", "j"}, "json"},
		{[]string{"serve", "--log-format", "="}, "text json"},
		{[]string{"list", "shop", "--state", "dead,e"}, "dead,expired"},
		{[]string{"bulk", "count", "shop", "k"}, "kick"},
		{[]string{"completion", ""}, "bash zsh fish"},
		{[]string{"export", "x"}, "files"},
		{[]string{"frobnicate", ""}, ""},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", script, "bash"}, c.words...)...)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		got := strings.Fields(string(out))
		if want := strings.Fields(c.want); err != nil ||
			!slices.Equal(got, want) && (c.words[0] != "" || !slices.Contains(got, c.want)) {
			t.Errorf("%q: %v, completed with %q, want %q", c.words, err, got, want)
		}
	}
}

// TestCompletionScriptsAskTheProgram does not need the shells. Only bash is everywhere.
func TestCompletionScriptsAskTheProgram(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{"bash": "complete -F _clockd clockd\n", "zsh": "#compdef clockd\n", "fish": "complete -c clockd -f -a '(__clockd_complete)'\n"} {
		out, code := typed(t, nil, "completion", shell)
		if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, " complete -- ") ||
			!strings.Contains(out, files) {
			t.Errorf("%s: exit code %d, printed\n%s", shell, code, out)
		}
		if program, err := exec.LookPath(shell); err == nil {
			cmd := exec.CommandContext(t.Context(), program, "-n")
			cmd.Stdin = strings.NewReader(out)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
			}
		}
	}
	if out, code := typed(t, nil, "completion", "tcsh"); code != exitUsage || !strings.Contains(out, "bash") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
	if out, code := typed(t, nil, "complete", "--", "set", "--in"); code != 0 ||
		!strings.HasPrefix(out, "--in\tRing after this time") {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
}
