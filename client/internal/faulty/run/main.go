// Command run runs the tests of a client with a clockd, and lets them cut its connections and kill it.
//
//	run PROGRAM COMMAND...
//
// PROGRAM is a clockd. The command finds in CLOCKD_TEST_SERVER the URL of a clockd on SQLite, and in CLOCKD_TEST_CONTROL
// a URL for its wishes, each a POST with JSON in the body and in the response:
//
//	/faulty [FAULT...]     a server before the clockd, whose first requests meet the faults: {"url"}
//	/asked {"url"}         the requests of that server: ["PUT /v1/applications/shop/alarms/x"]
//	/start {"url"}         another clockd, of the caller alone; with url the one that was killed, on its port: {"url"}
//	/kill {"url"}          kills that clockd
//	/target {"application", "target"}   changes the target of an application of the clockd of all tests
//
// A fault is cut, lose, half, stall, half-ring, copies, or {"status", "headers", "body"}. See package faulty.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/clockd/clockd/client/internal/clockdtest"
	"github.com/clockd/clockd/client/internal/faulty"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: run PROGRAM COMMAND...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// run returns the error of the command.
func run(ctx context.Context, program string, command []string) (err error) {
	dir, err := os.MkdirTemp("", "clockd-clients")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := &control{program: program, dir: dir, servers: map[string]*faulty.Server{}, started: map[string]*clockd{}}
	defer c.close()
	shared, err := c.startClockd("")
	if err != nil {
		return err
	}
	c.shared = shared.URL
	server := httptest.NewServer(c.handler())
	defer server.Close()
	tests := exec.CommandContext(ctx, command[0], command[1:]...)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	tests.Env = append(clockdtest.Environ(), "CLOCKD_TEST_SERVER="+shared.URL, "CLOCKD_TEST_CONTROL="+server.URL)
	return tests.Run()
}

// control does what the tests wish.
type control struct {
	program, dir string
	shared       string // URL of the clockd of all tests

	mu      sync.Mutex
	servers map[string]*faulty.Server // by URL
	started map[string]*clockd        // by URL
}

// clockd is a clockd, which may have been killed.
type clockd struct {
	*clockdtest.Service
	file string
}

// reference names a server.
type reference struct {
	URL string `json:"url"`
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faulty", answer(c.faulty))
	mux.HandleFunc("POST /asked", answer(c.asked))
	mux.HandleFunc("POST /start", answer(c.start))
	mux.HandleFunc("POST /kill", answer(c.kill))
	mux.HandleFunc("POST /target", answer(c.target))
	return mux
}

// answer returns the handler of a wish.
func answer[In, Out any](do func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		err := json.NewDecoder(r.Body).Decode(&in)
		var out Out
		if err == nil {
			out, err = do(r.Context(), in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(out) // a test that has left needs no answer
	}
}

func (c *control) faulty(_ context.Context, wished []json.RawMessage) (reference, error) {
	faults := make([]faulty.Fault, len(wished))
	for i, text := range wished {
		fault, err := faultOf(text)
		if err != nil {
			return reference{}, err
		}
		faults[i] = fault
	}
	s, err := faulty.Start(c.shared, faults...)
	if err != nil {
		return reference{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[s.URL] = s
	return reference{s.URL}, nil
}

// faultOf returns the fault that a test has named.
func faultOf(text json.RawMessage) (faulty.Fault, error) {
	var response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	if json.Unmarshal(text, &response) == nil {
		var headers []string
		for name, value := range response.Headers {
			headers = append(headers, name, value)
		}
		return faulty.Respond(response.Status, response.Body, headers...), nil
	}
	switch string(text) {
	case `"cut"`:
		return faulty.Cut, nil
	case `"lose"`:
		return faulty.Lose, nil
	case `"half"`:
		return faulty.Half, nil
	case `"stall"`:
		return faulty.Stall, nil
	case `"half-ring"`:
		return faulty.HalfRing(), nil
	case `"copies"`:
		return faulty.Copies(), nil
	}
	return nil, fmt.Errorf("no such fault: %s", text)
}

func (c *control) asked(_ context.Context, of reference) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.servers[of.URL]
	if !known {
		return nil, errors.New("no such server")
	}
	return append([]string{}, s.Asked()...), nil // JSON has no nil
}

func (c *control) start(_ context.Context, killed reference) (reference, error) {
	s, err := c.startClockd(killed.URL)
	if err != nil {
		return reference{}, err
	}
	return reference{s.URL}, nil
}

// startClockd starts a clockd on a file of its own, or the one with this URL again.
func (c *control) startClockd(killed string) (*clockd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file := filepath.Join(c.dir, fmt.Sprintf("%d.db", len(c.started)))
	var settings []string
	if killed != "" {
		before, known := c.started[killed]
		if !known {
			return nil, errors.New("no such clockd")
		}
		file, settings = before.file, []string{"CLOCKD_LISTEN=" + strings.TrimPrefix(killed, "http://")}
	}
	log, err := os.OpenFile(file+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the clockd has its own
	s, err := clockdtest.Start(c.program, file, log, settings...)
	if err != nil {
		return nil, err
	}
	started := &clockd{s, file}
	c.started[s.URL] = started
	return started, nil
}

func (c *control) kill(_ context.Context, of reference) (struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.started[of.URL]
	if !known {
		return struct{}{}, errors.New("no such clockd")
	}
	s.Kill()
	return struct{}{}, nil
}

// wishedTarget is the target that an application is to have.
type wishedTarget struct {
	Application string `json:"application"`
	Target      string `json:"target"`
}

func (c *control) target(ctx context.Context, of wishedTarget) (struct{}, error) {
	c.mu.Lock()
	file := c.started[c.shared].file
	c.mu.Unlock()
	set := exec.CommandContext(ctx, c.program, "application", "set", of.Application, "--target", of.Target, "--database-url", "sqlite:"+file)
	set.Env = clockdtest.Environ()
	if out, err := set.CombinedOutput(); err != nil {
		return struct{}{}, fmt.Errorf("%w: %s", err, out)
	}
	return struct{}{}, nil
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.Close()
	}
	for _, s := range c.started {
		s.Kill()
	}
}
