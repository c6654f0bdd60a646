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

// child is a clockd serve of its own. One goroutine ends it.
type child struct {
	node   string // its name
	url    string
	cmd    *exec.Cmd
	log    *logTail
	done   chan struct{} // closed when the process has ended
	ended  error         // how, once done is closed
	readAt chan string   // gets where it listens
	gone   bool          // stopped or killed by us
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second // a graceful stop takes 10 s at most
)

// startChild starts the service under a node's name on the database, publishing to the exchange (empty: to the stream), and waits
// until it is ready.
func startChild(ctx context.Context, cfg *Config, node, databaseURL, amqpURL, exchange string) (*child, error) {
	return launch(ctx, cfg.Executable, "serve", node, environment(node, databaseURL, amqpURL, exchange))
}

// startHTTP starts the service's HTTP face over nothing.
func startHTTP(ctx context.Context, cfg *Config) (*child, error) {
	return launch(ctx, cfg.Executable, "bench-http", "", environment("", "", "", ""))
}

func launch(ctx context.Context, executable, command, node string, env []string) (*child, error) {
	// not the command's context: a child is stopped in good order
	cmd := exec.CommandContext(context.WithoutCancel(ctx), executable, command) //nolint:gosec // the executable that is measured
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

// environment is ours with what must be the child's own. Settings like CLOCKD_RING_WORKERS pass, so that they can be measured.
func environment(node, databaseURL, amqpURL, exchange string) []string {
	own := map[string]string{
		"CLOCKD_DATABASE_URL": databaseURL, "CLOCKD_LISTEN": "127.0.0.1:0", "CLOCKD_NODE": node, "CLOCKD_LOG_LEVEL": "warn",
		"CLOCKD_AMQP_URL": "", "CLOCKD_AMQP_EXCHANGE": "clock", "CLOCKD_AMQP_DECLARE_QUEUES": "", "CLOCKD_NO_MIGRATE": "",
	}
	if exchange != "" {
		own["CLOCKD_AMQP_URL"], own["CLOCKD_AMQP_EXCHANGE"] = amqpURL, exchange
	}
	var env []string
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if _, ours := own[name]; !ours {
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

// address is where a service listens, as its first line tells.
var address = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

// follow reads what the process prints, and its end.
func (c *child) follow(out io.Reader) {
	in := bufio.NewScanner(out)
	for in.Scan() {
		if at := address.FindString(in.Text()); at != "" {
			select {
			case c.readAt <- at:
			default:
			}
		}
	}
	c.ended = c.cmd.Wait()
	close(c.done)
}

// ready waits until the service says that all its parts are well.
func (c *child) ready(ctx context.Context) error {
	select {
	case c.url = <-c.readAt:
	case <-c.done:
		return fmt.Errorf("it ended: %w", c.ended)
	case <-ctx.Done():
		return fmt.Errorf("it does not say where it listens: %w", context.Cause(ctx))
	}
	for {
		trouble := readiness(ctx, c.url)
		if trouble == nil {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("it does not get ready: %w", trouble)
		}
	}
}

// client makes a connection a request: none is left over when a child has ended.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// readiness returns what keeps the service from setting and ringing.
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
	var answer struct {
		Ready  bool
		Checks []struct{ Name, Status, Detail string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	for _, c := range answer.Checks {
		if (c.Name == "database" || c.Name == "target") && c.Status != "ok" {
			return fmt.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if !answer.Ready {
		return errors.New("not ready")
	}
	return nil
}

// peakRSS returns the most memory that the process had, in bytes; 0 where the system does not tell.
func (c *child) peakRSS() int64 { return peakRSS(c.cmd.Process.Pid) }

// cpu returns the processor time that the process has used; 0 where the system does not tell.
func (c *child) cpu() time.Duration { return processTime(c.cmd.Process.Pid) }

// kill ends the process at once, as a crash of the machine does.
func (c *child) kill() {
	c.gone = true
	_ = c.cmd.Process.Kill() // fails only where it has ended
	<-c.done
}

// stop ends the process in good order, or else at once; one that we ended before is left. Its error says why it did not end well.
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
		return fmt.Errorf("clockd did not stop in good order: %w\n%s", c.ended, c.log)
	}
	return nil
}

// logTail keeps the end of a log.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write appends and forgets the beginning.
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
