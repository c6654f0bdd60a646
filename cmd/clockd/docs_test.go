package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// runnablePage is a document whose commands a test runs. In it, a block "sh" is a command, "sh background" a command
// that goes on until the end of the page, and "sh not-run" a command that cannot run here. A block "text" after a
// command is its output, and "text background" is the begin of the output of the last command in the background. Right
// after that command, the next one waits for it. In both, "..." stands for any text. A block "sql" is run on the
// database of the page.
type runnablePage struct {
	file     string            // path below the folder docs
	served   bool              // whether the page needs a service that it does not start
	listens  []string          // addresses of further services that it starts
	replaced map[string]string // parts of commands, with the replacement that can run here
	notRun   map[string]string // beginnings of the blocks "sh not-run", with the reason of each
}

var runnablePages = []runnablePage{
	{file: "../README.md",
		replaced: map[string]string{"git clone https://github.com/clockd/clockd && cd clockd\nmake run\n": "bin/clockd serve\n"},
		notRun: map[string]string{
			"CLOCKD_DATABASE_URL='mysql:": "needs a MariaDB and a RabbitMQ with these names",
			"docker build":                "needs Docker",
		}},
	{file: "alarms.md", notRun: map[string]string{"npx ": "needs the registries of npm and Go"}},
	{file: "backup.md",
		notRun: map[string]string{"mariadb-dump ": "needs a MariaDB and a PostgreSQL with these names"}},
	{file: "by-example.md"},
	{file: "configuration.md", served: true, notRun: map[string]string{"source ": "needs zsh and fish"}},
	{file: "consumers.md", served: true},
	{file: "getting-started.md"},
	{file: "grpc-interface.md", served: true, notRun: map[string]string{"grpcurl": "is another program"}},
	{file: "lookups.md", served: true},
	{file: "manifests.md", served: true},
	{file: "observability.md", served: true,
		notRun: map[string]string{"CLOCKD_OTLP_ENDPOINT=": "needs a collector of traces"}},
	{file: "operations.md", served: true},
	{file: "repeat.md", served: true},
	{file: "reporting.md"},
	{file: "security.md", served: true, listens: []string{"127.0.0.1:8443", "127.0.0.1:8444", "127.0.0.1:9090"}},
	{file: "upgrade.md"},
	{file: "targets/grpc.md", served: true},
	{file: "targets/kafka.md", served: true, notRun: map[string]string{"CLOCKD_KAFKA_BROKERS=": "needs a Kafka"}},
	{file: "targets/pull.md", served: true},
	{file: "targets/stream.md", served: true},
	{file: "targets/webhooks.md", served: true},
}

// pagesNotRun are the documents whose commands no test runs, with the reason of each.
var pagesNotRun = map[string]string{
	"architecture.md":     noCommands,
	"citus.md":            "needs a cluster of Citus",
	"compatibility.md":    noCommands,
	"console.md":          noCommands,
	"delayed-messages.md": "needs a RabbitMQ",
	"failover.md":         "needs a database with a standby",
	"glossary.md":         noCommands,
	"installation.md":     "needs packages, systemd and Docker",
	"performance.md":      "has measurements of many minutes",
	"targets/rabbitmq.md": noCommands,
}

// noCommands is the reason of pages without commands. A test checks it.
const noCommands = "has no commands"

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

// matches reports whether an output is what the document shows.
func (b *documentedBlock) matches(output string) bool {
	words := strings.Fields(b.text)
	for i, word := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), `\.\.\.`, `[\s\S]*`)
	}
	pattern := `^\s*` + strings.Join(words, `\s+`)
	if b.kind != "text background" { // a stream goes on
		pattern += `\s*$`
	}
	return regexp.MustCompile(pattern).MatchString(output)
}

// readPage returns the text of a document.
func readPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// indentedCode is the begin of code without a fence: an indented line after a blank line.
var indentedCode = regexp.MustCompile(`\n\n    \S.*`)

func TestCommandsInDocumentsRun(t *testing.T) {
	t.Parallel()
	for _, page := range runnablePages {
		t.Run(filepath.Base(page.file), func(t *testing.T) {
			t.Parallel()
			text := readPage(t, page.file)
			if code := indentedCode.FindString(fencedCode.ReplaceAllString(text, "")); code != "" {
				t.Errorf("%s: code without a fence, which no test sees: %s", page.file, strings.TrimSpace(code))
			}
			page.run(t, documentBlocks(text))
		})
	}
}

// fencedCode is code in a fence.
var fencedCode = regexp.MustCompile("(?s)```.*?\n```")

func TestDocumentsAreRunOrHaveAReason(t *testing.T) {
	t.Parallel()
	docs := os.DirFS(filepath.Join("..", "..", "docs"))
	files, err := fs.Glob(docs, "*.md")
	targets, targetsErr := fs.Glob(docs, "targets/*.md")
	if err != nil || targetsErr != nil || len(files) == 0 || len(targets) == 0 {
		t.Fatal("no documents", err, targetsErr)
	}
	for _, file := range append(files, targets...) {
		runs := slices.ContainsFunc(runnablePages, func(p runnablePage) bool { return p.file == file })
		reason := pagesNotRun[file]
		if runs == (reason != "") {
			t.Errorf("%s must be either in runnablePages, or with a reason in pagesNotRun", file)
		}
		if text := readPage(t, file); reason == noCommands &&
			(strings.Contains(text, "```sh") || indentedCode.MatchString(text)) {
			t.Errorf("%s has commands, and pagesNotRun says that it has none", file)
		}
	}
}

// check finds replacements without a command, and blocks that do not run without a reason.
func (p *runnablePage) check(t *testing.T, blocks []documentedBlock) {
	t.Helper()
	for part := range p.replaced {
		if !slices.ContainsFunc(blocks, func(b documentedBlock) bool { return strings.Contains(b.text, part) }) {
			t.Errorf("%s has no command %q to replace", p.file, part)
		}
	}
	used := map[string]bool{}
	for _, b := range blocks {
		switch b.kind {
		case "sh", "sh background", "text", "text background":
		case "sh not-run":
			known := false
			for begin := range p.notRun {
				if strings.HasPrefix(b.text, begin) {
					known, used[begin] = true, true
				}
			}
			if !known {
				t.Errorf("%s, line %d: a command that does not run needs a reason in runnablePages", p.file, b.line)
			}
		default:
			if strings.HasPrefix(b.kind, "sh") || strings.HasPrefix(b.kind, "text") || b.kind == "console" {
				t.Errorf("%s, line %d: unknown kind of block %q", p.file, b.line, b.kind)
			}
		}
	}
	if len(used) != len(p.notRun) {
		t.Errorf("%s: the page has the blocks %v, and the reasons are for %v", p.file, used, p.notRun)
	}
}

// awaitReady is the command that waits for a service. Its port is open before it takes requests.
const awaitReady = "for ((i = 0; i < 600; i++)); do ! curl -fs -o /dev/null http://%s/readyz || break; sleep 0.1; done\n"

// settingsInDatabase hides the port of the test from the commands for settings. They would work on a server that is
// named. The reader of a page names none, so the commands find the database in the folder.
const settingsInDatabase = `clockd() {
	if [[ $1 == application ]]; then env -u CLOCKD_SERVER clockd "$@"; else command clockd "$@"; fi
}
`

// longestPage is the longest run of a page. Its end makes the test fail, and not wait for an alarm that never rings.
const longestPage = 2 * time.Minute

// run runs the commands of a page, in one shell and in a folder of their own. A page that does not need a service finds
// a database with one alarm.
func (p *runnablePage) run(t *testing.T, blocks []documentedBlock) {
	t.Helper()
	p.check(t, blocks)
	dir, address := t.TempDir(), freeAddress(t)
	addresses := map[string]string{"127.0.0.1:8080": address}
	for _, documented := range p.listens {
		addresses[documented] = freeAddress(t)
	}
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(work, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	for _, link := range []string{filepath.Join(dir, "clockd"), filepath.Join(work, "bin", "clockd")} {
		if err != nil || os.Symlink(self, link) != nil {
			t.Fatal("cannot link the program", err)
		}
	}
	output := func(i int) string { return filepath.Join(dir, fmt.Sprintf("output%d", i)) }
	database := "sqlite:" + filepath.Join(work, "clockd.db")
	script, serves := "set -euo pipefail\n"+settingsInDatabase, p.served
	if p.served {
		script += "clockd serve >../service 2>&1 &\n" + fmt.Sprintf(awaitReady, address)
	}
	for i, b := range blocks {
		body := b.text
		for part, replacement := range p.replaced {
			body = strings.ReplaceAll(body, part, replacement)
		}
		for documented, free := range addresses {
			body = strings.ReplaceAll(body, documented, free)
		}
		switch b.kind {
		case "sh":
			script += fmt.Sprintf("{ :\n%s} >%s 2>&1\n", body, output(i))
		case "sh background":
			script += fmt.Sprintf("{ :\n%s} >%s 2>&1 &\n", body, output(i))
			if strings.Contains(body, "clockd serve") {
				serves = true
				script += fmt.Sprintf(awaitReady, address)
			}
			if i+1 < len(blocks) && blocks[i+1].kind == "text background" {
				script += fmt.Sprintf("until [[ $(wc -l <%s) -ge %d ]]; do sleep 0.1; done\n", output(i),
					strings.Count(blocks[i+1].text, "\n"))
			}
		}
	}
	if !serves {
		service := start(t, "CLOCKD_DATABASE_URL="+database)
		service.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-4711"),
			json.RawMessage(`{"delay":"30m"}`))
		service.kill()
	}
	ctx, cancel := context.WithTimeout(t.Context(), longestPage)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = work
	cmd.Env = append(withoutVariables(), asClockd+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "CLOCKD_LISTEN="+address,
		"CLOCKD_SERVER=http://"+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	failed := cmd.Run()
	if cmd.Process != nil {
		defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // the commands in the background
	}
	background := -1
	for i, b := range blocks {
		got, _ := os.ReadFile(output(i))
		if failed != nil && len(got) > 0 {
			t.Logf("%s, line %d said\n%s", p.file, b.line, got)
		}
		if b.kind == "sh background" {
			background = i
		}
		if failed != nil {
			continue
		}
		switch b.kind {
		case "text":
			b.awaitIn(t, p.file, output(i-1), 0)
		case "text background":
			b.awaitIn(t, p.file, output(background), 20*time.Second)
		case "sql":
			b.query(t, p.file, database)
		}
	}
	if failed != nil {
		t.Fatalf("%s: %v\n%s", p.file, failed, &said)
	}
}

// awaitIn waits until a file has the output that the document shows.
func (b *documentedBlock) awaitIn(t *testing.T, page, file string, wait time.Duration) {
	t.Helper()
	var got []byte
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if got, err = os.ReadFile(file); err != nil {
			t.Errorf("%s, line %d: an output without a command before it", page, b.line)
			return
		}
		if b.matches(string(got)) {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	t.Errorf("%s, line %d: the output is\n%s\nwant\n%s", page, b.line, got, b.text)
}

// query runs a statement of the document.
func (b *documentedBlock) query(t *testing.T, page, database string) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(database, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), b.text)
	if err != nil {
		t.Errorf("%s, line %d: %v", page, b.line, err)
		return
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() { // a statement may fail at a row
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s, line %d: %v", page, b.line, err)
	}
}

// nextPort is the next port that freeAddress tries. The ports are below those that the kernel gives to other
// connections, so nothing takes a port before its program listens on it.
var nextPort atomic.Int32

// freeAddress returns an address of this machine on which nothing listens. It returns no address twice.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, ports = 10_000, 12_000
	nextPort.CompareAndSwap(0, rand.Int32N(ports))
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", first+nextPort.Add(1)%ports)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
