package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// buildClockd builds the program as `make build` does, so that both share what is built, but without the symbol tables:
// linking takes half of the time.
func buildClockd(program, linkerFlags string, flags ...string) error {
	args := slices.Concat([]string{"build", "-trimpath", "-ldflags=-s -w " + linkerFlags}, flags,
		[]string{"-o", program, "."})
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// buildOverlaid is buildClockd with other files in place of some. The keys are paths in the repository, and need not
// exist.
func buildOverlaid(program string, files map[string]string) error {
	replace := map[string]string{}
	for name, other := range files {
		path, err := filepath.Abs(filepath.Join("..", "..", name))
		if err != nil {
			return err
		}
		replace[path] = other
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+".json", overlay, 0o600); err != nil {
		return err
	}
	return buildClockd(program, "", "-overlay", program+".json")
}

// builtAt builds clockd with a build level and returns the path of the program.
func builtAt(t *testing.T, level int) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), fmt.Sprintf("clockd-%d", level))
	if err := buildClockd(program, fmt.Sprintf("-X github.com/clockd/clockd/store.buildLevel=%d", level)); err != nil {
		t.Fatal(err)
	}
	return program
}

// Two builds work side by side on one database while it allows both. When the database demands the newer build, the
// older build reports that, drains by itself and exits with a failure. The newer build rings all alarms. No alarm is
// lost, and none rings twice without a reason.
func TestOlderBuildDrainsWhenTheDatabaseDemandsTheNewerOne(t *testing.T) {
	t.Parallel()
	older, newer := release(), builtAt(t, int(store.BuildLevel())+1)
	forOne(t, "mariadb", func(t *testing.T, databaseURL string, b *testBroker) {
		env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
		if b != nil {
			env = append(env, b.env()...)
		}
		old := startProgram(t, older, append(env, "CLOCKD_NODE=older")...)
		young := startProgram(t, newer, append(env, "CLOCKD_NODE=newer")...)
		var received []*receiver
		for _, p := range []*process{old, young} {
			if b == nil || len(received) == 0 {
				received = append(received, receiveFrom(p, b, "shop"))
			}
		}
		shares := func(p *process, least int) func() bool {
			return func() bool { return p.metric("clockd_preload_shards") >= float64(least) }
		}
		eventually(t, "both have shards", func() bool { return shares(old, 20)() && shares(young, 20)() })

		const count = 400
		set := func(p *process, prefix string, due time.Time) {
			for i := range count {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("%s-%d", prefix, i)),
					map[string]any{"ring_at": due.UnixMilli() + int64(i)*10, "payload": i})
			}
		}
		set(old, "set-by-older", time.Now().Add(2*time.Second))
		set(young, "set-by-newer", time.Now().Add(2*time.Second))
		rings := func() int {
			n := 0
			for _, r := range received {
				n += len(r.all())
			}
			return n
		}
		eventually(t, "some have rung", func() bool { return rings() > 50 })

		unready := watchUnready(old)
		mustExec(t, openDatabase(t, databaseURL),
			fmt.Sprintf("UPDATE build_level SET oldest = %d", store.BuildLevel()+1))
		select {
		case <-old.exited:
		case <-time.After(time.Minute):
			t.Fatal("the older build does not end")
		}
		if code := old.cmd.ProcessState.ExitCode(); code != exitFailure {
			t.Errorf("the older build ended with %d", code)
		}
		reason := fmt.Sprintf("it demands build level %d or later, and this build has %d", store.BuildLevel()+1,
			store.BuildLevel())
		if said := old.log.String(); strings.Count(said, `msg="the database demands a newer build: this node drains"`) != 1 || !strings.Contains(said, reason) {
			t.Errorf("the older build says\n%s", said)
		}
		if said := unready(); !strings.Contains(said, reason) {
			t.Errorf("/readyz of the older build said %q", said)
		}
		eventually(t, "the newer build has all shards", shares(young, 64))
		set(young, "set-after", time.Now())
		eventually(t, "all ring",
			func() bool { return rings() >= 3*count && young.inState("shop", clock.Rung) == 3*count })
		copies := copiesOf(received...)
		young.requireOnce("shop", copies, old)
		if len(copies) != 3*count {
			t.Errorf("%d of %d alarms rang", len(copies), 3*count)
		}
		out, err := programCommand(older, append(env, "CLOCKD_LISTEN=127.0.0.1:0"), "serve").CombinedOutput()
		if err == nil || !strings.Contains(string(out), reason) || strings.Contains(string(out), "does not answer") {
			t.Errorf("the older build starts again: %v\n%s", err, out)
		}
	})
}

// watchUnready reads the readiness of a process until it exits. The returned function waits for that, and returns the
// detail of the build's check in the last response with 503.
func watchUnready(p *process) func() string {
	var said atomic.Pointer[string]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			a, err := p.do(http.MethodGet, "/readyz", nil)
			for _, c := range a.Checks {
				if err == nil && a.Status == http.StatusServiceUnavailable && c.Name == "build" &&
					c.Status == statusFailing {
					said.Store(&c.Detail)
				}
			}
			select {
			case <-p.exited:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() string {
		<-done
		if s := said.Load(); s != nil {
			return *s
		}
		return ""
	}
}

// programCommand is command for another program.
func programCommand(program string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}
