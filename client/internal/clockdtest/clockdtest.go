// Package clockdtest builds clockd and runs it for the tests of the clients, which import nothing of the service.
package clockdtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Build returns the path of a clockd: the variable CLOCKD_TEST_PROGRAM, or what it builds in the directory as
// `make build` does. Tests with a Go that is too old for clockd need the variable.
func Build(directory string) (program string, err error) {
	if given := os.Getenv("CLOCKD_TEST_PROGRAM"); given != "" {
		return given, nil
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/clockd/clockd/client").Output()
	if err != nil {
		return "", fmt.Errorf("find clockd: %w", err)
	}
	program = filepath.Join(directory, "clockd")
	root := filepath.Dir(strings.TrimSpace(string(module)))
	build := exec.Command("go", "build", "-C", root, "-trimpath", "-o", program, "./cmd/clockd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build clockd: %w\n%s", err, out)
	}
	return program, nil
}

// Service is a clockd that runs.
type Service struct {
	URL string

	process *exec.Cmd
	output  sync.WaitGroup // the reader of the standard output
}

var serves = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// Start starts a clockd on a SQLite file, and returns when it serves. A setting has the form CLOCKD_NAME=value.
// CLOCKD_LISTEN is a free port of 127.0.0.1 by default. What clockd logs goes to log.
func Start(program, file string, log io.Writer, settings ...string) (*Service, error) {
	s := &Service{process: exec.Command(program, "serve")}
	s.process.Env = append(Environ(), "CLOCKD_LISTEN=127.0.0.1:0", "CLOCKD_DATABASE_URL=sqlite:"+file)
	s.process.Env = append(s.process.Env, settings...)
	s.process.Stderr = log
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	said := ""
	for s.URL == "" {
		line, err := lines.ReadString('\n')
		said += line
		if err != nil {
			return nil, fmt.Errorf("clockd does not serve: %w\n%s", errors.Join(s.process.Wait(), err), said)
		}
		s.URL = serves.FindString(line)
	}
	s.output.Add(1)
	go func() {
		defer s.output.Done()
		_, _ = io.Copy(io.Discard, lines)
	}()
	return s, nil
}

// Log returns a writer to the log of a test, for a service that ends before the test.
func Log(t testing.TB) io.Writer { return testLog{t} }

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSuffix(p, []byte("\n")))
	return len(p), nil
}

// Leaked returns the stacks of the goroutines that are left after 10 s, empty if there are none.
func Leaked() string {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b := make([]byte, 1<<20)
		stacks := strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n")[1:] // without the caller's
		stacks = slices.DeleteFunc(stacks, func(s string) bool { return strings.Contains(s, "os/signal.loop()") })
		if len(stacks) == 0 || time.Now().After(deadline) {
			return strings.Join(stacks, "\n\n")
		}
	}
}

// Environ returns the environment without the settings of clockd that other tests need.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(setting string) bool { return strings.HasPrefix(setting, "CLOCKD_") })
}

// Stop ends the clockd as SIGINT does, and returns its error.
func (s *Service) Stop() error {
	if err := s.process.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	s.output.Wait()
	return s.process.Wait()
}

// Kill kills the clockd, if it runs.
func (s *Service) Kill() {
	if s.process.Process.Kill() == nil {
		s.output.Wait()
		_ = s.process.Wait() // killed
	}
}
