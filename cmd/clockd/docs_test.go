package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// runnablePages are the documents whose commands a test runs. In these, a block "sh" is a command, "sh background" one that goes on until the end of
// the page, and "text" after a command is its output, in which "..." stands for any text.
var runnablePages = []string{"getting-started.md", "by-example.md", "backup.md", "upgrade.md"}

// documentedBlock is a block of code in a document.
type documentedBlock struct {
	kind, text string
	line       int
}

// documentBlocks returns the blocks of a document.
func documentBlocks(text string) (blocks []documentedBlock) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			blocks, inside = append(blocks, documentedBlock{kind: kind, line: i + 2}), true
		case fence:
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line + "\n"
		}
	}
	return blocks
}

// matches reports whether an output contains what the document shows.
func (b *documentedBlock) matches(output string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(b.text)), `\.\.\.`, `[\s\S]*`)
	return regexp.MustCompile(pattern).MatchString(strings.Join(strings.Fields(output), " ")) || regexp.MustCompile(pattern).MatchString(output)
}

func TestCommandsInDocumentsRun(t *testing.T) {
	t.Parallel()
	for _, page := range runnablePages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
			if err != nil {
				t.Fatal(err)
			}
			runPage(t, page, documentBlocks(string(text)))
		})
	}
}

// runPage runs the commands of a page, in one shell and in a folder of their own. A page that does not start a service finds a database with one alarm.
func runPage(t *testing.T, page string, blocks []documentedBlock) {
	t.Helper()
	dir := t.TempDir()
	if self, err := os.Executable(); err != nil || os.Symlink(self, filepath.Join(dir, "clockd")) != nil {
		t.Fatal("cannot link the program", err)
	}
	address := freeAddress(t)
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	script, serves := "set -euo pipefail\n", false
	output := func(i int) string { return filepath.Join(dir, fmt.Sprintf("output%d", i)) }
	for i, b := range blocks {
		body := strings.ReplaceAll(b.text, "127.0.0.1:8080", address)
		switch b.kind {
		case "sh":
			script += fmt.Sprintf("{ :\n%s} >%s 2>&1\n", body, output(i))
		case "sh background":
			script += fmt.Sprintf("{ :\n%s} >%s 2>&1 &\n", body, output(i))
			if strings.Contains(body, "clockd serve") {
				serves = true
				script += "curl -fsS --retry 60 --retry-connrefused --retry-delay 1 -o /dev/null http://" + address + "/healthz\n"
			}
		}
	}
	if !serves {
		p := start(t, "CLOCKD_DATABASE_URL=sqlite:"+filepath.Join(work, "clockd.db"))
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-4711"), json.RawMessage(`{"delay":"30m"}`))
		p.kill()
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = work
	cmd.Env = append(withoutVariables(), asClockd+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "CLOCKD_LISTEN="+address, "CLOCKD_SERVER=http://"+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	failed := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the commands in the background
	}
	for i, b := range blocks {
		got, _ := os.ReadFile(output(i))
		if failed != nil && len(got) > 0 {
			t.Logf("%s, line %d said\n%s", page, b.line, got)
		}
		if b.kind != "text" || failed != nil {
			continue
		}
		before, err := os.ReadFile(output(i - 1))
		if err != nil {
			t.Errorf("%s, line %d: an output without a command before it", page, b.line)
		} else if !b.matches(string(before)) {
			t.Errorf("%s, line %d: the output is\n%s\nwant\n%s", page, b.line, before, b.text)
		}
	}
	if failed != nil {
		t.Fatalf("%s: %v\n%s", page, failed, &said)
	}
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
