package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// shell runs commands against a process, as a person does.
type shell struct {
	t   *testing.T
	env []string
}

// run runs a command that must end with the exit code, and returns its output.
func (s *shell) run(code int, args ...string) (out string) {
	s.t.Helper()
	cmd := command(s.env, args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("clockd %s: %v, want exit code %d; printed %s", strings.Join(args, " "), err, code, b)
	}
	return string(b)
}

// listened matches what listening without faults prints to standard error. The application may be unknown until its
// first alarm is set.
var listened = regexp.MustCompile(`^listening to shop, Ctrl-C ends it\n(no alarm and no setting of shop is known yet\n)?$`)

// TestListenPrintsAndAcknowledgesRings listens from the command line. The second alarm needs an acknowledgement.
func TestListenPrintsAndAcknowledgesRings(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	s := &shell{t, []string{"CLOCKD_SERVER=" + p.url}}
	listening := command(s.env, "listen", "shop", "--ack", "--count", "2")
	out, err := listening.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var faults lockedBuffer
	listening.Stderr = &faults
	if err := listening.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Process.Kill() })
	s.run(0, "set", "shop", "first", "--in", "0s", "--text", "two\nlines")
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "first rings, message ") ||
		!strings.HasSuffix(line, `: "two\nlines"`+"\n") {
		t.Errorf("printed %q: %v", line, err)
	}
	s.run(0, "set", "shop", "second", "--in", "0s", "--ack-timeout", "1m", "--payload", `{ "a": 1 }`)
	if line, err = lines.ReadString('\n'); err != nil ||
		!strings.HasSuffix(line, ` (answer within 1m0s): {"a":1}`+"\n") {
		t.Errorf("printed %q: %v", line, err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("printed %q after two rings: %v", rest, err)
	}
	if err := listening.Wait(); err != nil || !listened.MatchString(faults.String()) {
		t.Errorf("ended with %v, and wrote %s", err, faults.String())
	}
	if alarm := s.run(0, "get", "shop", "second"); !strings.Contains(alarm, "is rung") ||
		!strings.Contains(alarm, "answered with ack") {
		t.Errorf("the acknowledged alarm: %s", alarm)
	}
	if refusal := s.run(1, "listen", "not a name"); !strings.Contains(refusal, "application") {
		t.Errorf("%s", refusal)
	}
}

// TestWorkersTakeAndAnswerRingsFromTheCommandLine reserves rings, and answers each in another way. The message id is
// enough to find a ring.
func TestWorkersTakeAndAnswerRingsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	s := &shell{t, []string{"CLOCKD_SERVER=" + p.url}}
	application(t, databaseURL, "set", "pool", "--target", "pull")
	eventually(t, "the node knows the target",
		func() bool { return strings.Contains(s.run(0, "applications"), "pull") })
	for _, id := range []string{"done", "later", "broken", "slow"} {
		s.run(0, "set", "pool", id, "--in", "0s", "--ack-timeout", "1h", "--text", id)
	}
	messages := map[string]string{}
	eventually(t, "all rings are reserved", func() bool {
		for line := range strings.Lines(s.run(0, "reserve", "pool", "--count", "64", "--wait", "30s", "--json")) {
			var r client.Ring
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			messages[r.BusinessID] = r.MessageID
		}
		return len(messages) == 4
	})
	for _, c := range []struct{ want, args string }{
		{"pool/done is rung", "ack " + messages["done"]},
		{"pool/later is scheduled", "release " + messages["later"] + " --delay 1h --reason busy --by nightly"},
		{"pool/broken is dead", "bury " + messages["broken"] + " --reason unreadable --application pool"},
		{"pool/slow is ringing", "touch " + messages["slow"] + " --delay 2h"},
	} {
		if out := s.run(0, strings.Fields(c.args)...); !strings.HasPrefix(out, c.want) {
			t.Errorf("clockd %s printed %s, want %s", c.args, out, c.want)
		}
	}
	if later := s.run(0, "get", "pool", "later"); !strings.Contains(later, "busy") ||
		!strings.Contains(later, "by nightly") {
		t.Errorf("the released alarm: %s", later)
	}
	if stale := s.run(1, "release", messages["done"]); !strings.Contains(stale, "stale_ring") {
		t.Errorf("a second answer: %s", stale)
	}
	if unknown := s.run(1, "ack", "987654321.1.1"); !strings.Contains(unknown, `no alarm has rung with the message id "987654321.1.1"`) {
		t.Errorf("an unknown message id: %s", unknown)
	}
	if none := s.run(0, "reserve", "pool", "--wait", "100ms"); none != "no alarm of pool was due within 100ms\n" {
		t.Errorf("a reserve without a due alarm: %q", none)
	}
	p.must(http.StatusCreated, http.MethodPut, alarmPath("pool", "plain"), map[string]any{"delay": "0s", "text": "x"})
	if plain := s.run(0, "reserve", "pool", "--wait", "30s", "--ack"); !strings.HasSuffix(plain, ": x\n") {
		t.Errorf("a ring that needs no answer: %q", plain)
	}
	eventually(t, "the alarm without an answer has rung", func() bool { return p.inState("pool", clock.Rung) == 2 })
}
