package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a child process: clockd serve, or the HTTP server without a store. One goroutine ends it.
type child struct {
	node   string // name of the node
	url    string
	cmd    *exec.Cmd
	log    *logTail
	done   chan struct{} // closed when the process has ended
	ended  error         // result of the process, valid once done is closed
	readAt chan string   // receives the URL on which it listens
	gone   bool          // the bench has stopped or killed it
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second // a graceful stop takes at most 10 s
)

// startChild starts the service as the node on the database, and waits until it is ready. The service publishes to the
// exchange, or to the stream if exchange is empty. more has further environment variables.
func startChild(
	ctx context.Context, cfg *Config, node, databaseURL, amqpURL, exchange string, more ...string,
) (*child, error) {
	return launch(ctx, cfg.Executable, "serve", node,
		append(environment(node, databaseURL, amqpURL, exchange), more...))
}

// applicationSettings migrates the database, and makes the settings of the application.
func applicationSettings(ctx context.Context, cfg *Config, databaseURL string, flags []string) error {
	for _, arguments := range [][]string{{"migrate"}, append([]string{"application", "set", application}, flags...)} {
		cmd := exec.CommandContext(ctx, cfg.Executable, arguments...) //nolint:gosec // the measured executable
		cmd.Env = environment("", databaseURL, "", "")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("clockd %s: %w: %s", arguments[0], err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// startHTTP starts clockd's HTTP server without a store.
func startHTTP(ctx context.Context, cfg *Config) (*child, error) {
	return launch(ctx, cfg.Baseline, "http", "", environment("", "", "", ""))
}

func launch(ctx context.Context, executable, command, node string, env []string) (*child, error) {
	// the command does not end with ctx, so that the child can stop gracefully
	cmd := exec.CommandContext(context.WithoutCancel(ctx), executable, command) //nolint:gosec // the measured executable
	cmd.Env = env
	detach(cmd)
	c := &child{node: node, cmd: cmd, log: &logTail{}, done: make(chan struct{}), readAt: make(chan string, 1)}
	cmd.Stderr = c.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start clockd: %w", err)
	}
	go c.follow(out)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start clockd: %w\n%s", err, c.log), c.stop())
	}
	return c, nil
}

// ofTests matches the variables of the tests and of deploy/. clockd refuses variables that it does not know.
var ofTests = regexp.MustCompile("^CLOCKD_(TEST|SERVICES|CITUS)_")

// environment returns the environment of the bench, with the child's own settings. Other settings, like
// CLOCKD_RING_WORKERS, are inherited so that they can be measured.
func environment(node, databaseURL, amqpURL, exchange string) []string {
	own := map[string]string{
		"CLOCKD_DATABASE_URL": databaseURL, "CLOCKD_LISTEN": "127.0.0.1:0", "CLOCKD_NODE": node,
		"CLOCKD_LOG_LEVEL": "warn",
		"CLOCKD_AMQP_URL":  "", "CLOCKD_AMQP_EXCHANGE": "clock", "CLOCKD_AMQP_DECLARE_QUEUES": "",
		"CLOCKD_NO_MIGRATE": "", "CLOCKD_KAFKA_BROKERS": "",
	}
	if exchange != "" {
		own["CLOCKD_AMQP_URL"], own["CLOCKD_AMQP_EXCHANGE"] = amqpURL, exchange
	}
	var env []string
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if _, ours := own[name]; !ours && !ofTests.MatchString(name) {
			env = append(env, setting)
		}
	}
	for name, value := range own {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// address matches the URL on which a service listens. The service prints it in its first line.
var address = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

// follow reads the output of the process, and waits for its end.
func (c *child) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at := address.FindString(lines.Text()); at != "" {
			select {
			case c.readAt <- at:
			default:
			}
		}
	}
	c.ended = c.cmd.Wait()
	close(c.done)
}

// ready waits until the service reports that it is ready.
func (c *child) ready(ctx context.Context) error {
	select {
	case c.url = <-c.readAt:
	case <-c.done:
		return fmt.Errorf("it ended: %w", c.ended)
	case <-ctx.Done():
		return fmt.Errorf("it does not print the URL on which it listens: %w", context.Cause(ctx))
	}
	for {
		trouble := readiness(ctx, c.url)
		if trouble == nil {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("it does not become ready: %w", trouble)
		}
	}
}

// client opens a connection for each request, so that none is left over when a child has ended.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// readiness returns an error if the service cannot set or ring alarms.
func readiness(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var response struct {
		Ready  bool
		Checks []struct{ Name, Status, Detail string }
	}
	if err := json.NewDecoder(res.Body).Decode(&response); err != nil {
		return err
	}
	for _, c := range response.Checks {
		if (c.Name == "database" || c.Name == "target") && c.Status != "ok" {
			return fmt.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if !response.Ready {
		return errors.New("not ready")
	}
	return nil
}

// peakRSS returns the peak memory of the process, in bytes; 0 if the system does not report it.
func (c *child) peakRSS() int64 { return peakRSS(c.cmd.Process.Pid) }

// cpu returns the processor time that the process has used; 0 if the system does not report it.
func (c *child) cpu() time.Duration { return processTime(c.cmd.Process.Pid) }

// kill ends the process at once, as a crash of the machine does.
func (c *child) kill() {
	c.gone = true
	_ = c.cmd.Process.Kill() // fails only if the process has ended
	<-c.done
}

// stop ends the process gracefully, or kills it after stopTimeout. It does nothing if the bench has already ended the process. The error says
// why the process did not end well.
func (c *child) stop() error {
	if c.gone {
		return nil
	}
	c.gone = true
	select {
	case <-c.done:
		return fmt.Errorf("clockd ended by itself: %w\n%s", c.ended, c.log)
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopTimeout, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	<-c.done
	if c.ended != nil {
		return fmt.Errorf("clockd did not stop gracefully: %w\n%s", c.ended, c.log)
	}
	return nil
}

// logTail keeps the end of a log.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write appends p and drops the beginning beyond tailBytes.
func (t *logTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String returns the end of the log.
func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
