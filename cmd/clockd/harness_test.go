package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	amqp "github.com/rabbitmq/amqp091-go"
)

// The tests of this package use clockd as its users do: the built program as processes of its own, over HTTP and RabbitMQ.

// asClockd in the environment makes the test binary be clockd.
const asClockd = "CLOCKD_TEST_AS_CLOCKD"

func TestMain(m *testing.M) {
	if os.Getenv(asClockd) != "" {
		os.Exit(run(os.Args[1:]))
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", waiting)
	}
	os.Exit(m.Run())
}

// waiting is how many tests run at once where nothing else is asked for: most of their time they wait for processes.
const waiting = "8"

// setting returns an environment variable or the default that deploy/services starts with.
func setting(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func amqpURL() string {
	return setting("CLOCKD_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:23672/")
}

// random returns a short name that no other test has.
func random() string { return strings.ToLower(rand.Text()[:10]) }

// engines are the databases that every flow is tested on.
var engines = []struct {
	name string
	open func(t *testing.T) (databaseURL string)
}{
	{"mariadb", mariadb}, {"postgresql", postgres}, {"sqlite", sqliteFile},
}

func mariadb(t *testing.T) string {
	base := parse(t, setting("CLOCKD_TEST_MYSQL_URL", "mysql://clockd:clockd@127.0.0.1:23306/clockd"))
	password, _ := base.User.Password()
	dsn := fmt.Sprintf("%s:%s@tcp(%s)/", base.User.Username(), password, base.Host)
	return database(t, "mysql", dsn, base, "DROP DATABASE %s")
}

func postgres(t *testing.T) string {
	base := parse(t, setting("CLOCKD_TEST_POSTGRES_URL", "postgres://clockd@127.0.0.1:23432/clockd?sslmode=disable"))
	return database(t, "pgx", base.String(), base, "DROP DATABASE %s WITH (FORCE)")
}

// database creates a database for the test and returns its URL.
func database(t *testing.T, driver, dsn string, base *url.URL, drop string) string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := "clockd_e2e_" + random()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create a database: %v; start the servers with: make up", err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec(fmt.Sprintf(drop, name)); err != nil {
			t.Errorf("drop database: %v", err)
		}
		_ = db.Close()
	})
	u := *base
	u.Path = "/" + name
	return u.String()
}

func sqliteFile(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "clockd.db") }

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// process is a running clockd.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	log    *lockedBuffer
	exited chan struct{}
	err    error // how it exited, once exited is closed
}

// command returns clockd as a command with that environment, and none of ours.
func command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{asClockd + "=1", "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"}, env...)
	return cmd
}

// start runs clockd serve on a free port until the test ends and returns once it listens.
func start(t *testing.T, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: command(append(env, "CLOCKD_LISTEN=127.0.0.1:0"), "serve"), log: &lockedBuffer{}, exited: make(chan struct{})}
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	listening := make(chan string, 1)
	go func() {
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), "listens on "); ok {
				listening <- strings.SplitN(rest, ": ", 2)[0]
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of clockd:\n%s", p.log)
		}
	})
	select {
	case p.url = <-listening:
	case <-p.exited:
		t.Fatalf("clockd ended at start: %v\n%s", p.err, p.log)
	case <-time.After(time.Minute):
		t.Fatalf("clockd does not listen\n%s", p.log)
	}
	return p
}

// kill ends the process as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate asks for a graceful stop and waits for it.
func (p *process) terminate() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(2 * stopTimeout):
		return fmt.Errorf("did not stop within %s", 2*stopTimeout)
	}
}

// lockedBuffer collects what a process writes while others read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is what the tests look at in an answer.
type answer struct {
	Status     int
	RetryAfter string
	State      string         `json:"state"`
	Code       string         `json:"code"`
	Field      string         `json:"field"`
	LastError  string         `json:"last_error"`
	InDoubt    bool           `json:"in_doubt"`
	RetryTimes int            `json:"retry_times"`
	Attempts   []any          `json:"attempts"`
	Results    []answerResult `json:"results"`
	Ready      bool           `json:"ready"`
	Checks     []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
		Detail string `json:"detail"`
	} `json:"checks"`
}

type answerResult struct {
	BusinessID string `json:"business_id"`
	Status     int    `json:"status"`
	State      string `json:"state"`
	Code       string `json:"code"`
}

// do sends a request; body may be nil or anything that JSON can say.
func (p *process) do(method, path string, body any) (answer, error) {
	var a answer
	status, header, err := p.decode(method, path, body, &a)
	a.Status, a.RetryAfter = status, header.Get("Retry-After")
	return a, err
}

// decode sends a request and reads the JSON of its answer into out.
func (p *process) decode(method, path string, body, out any) (status int, header http.Header, err error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, p.url+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, res.Header, err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return res.StatusCode, res.Header, fmt.Errorf("%s %s answered %q: %w", method, path, b, err)
	}
	return res.StatusCode, res.Header, nil
}

// must is do for requests that have to be answered with the status.
func (p *process) must(status int, method, path string, body any) answer {
	p.t.Helper()
	a, err := p.do(method, path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.Status != status {
		p.t.Fatalf("%s %s: got %+v, want status %d", method, path, a, status)
	}
	return a
}

// inState counts the application's alarms in a state.
func (p *process) inState(application, state string) int {
	p.t.Helper()
	count, more := 0, ""
	for {
		var page struct {
			Alarms []any   `json:"alarms"`
			Cursor *string `json:"next_cursor"`
		}
		path := "/v1/applications/" + application + "/alarms?limit=1000&state=" + state + more
		if status, _, err := p.decode(http.MethodGet, path, nil, &page); err != nil || status != http.StatusOK {
			p.t.Fatalf("list: %d, %v", status, err)
		}
		if count += len(page.Alarms); page.Cursor == nil {
			return count
		}
		more = "&cursor=" + url.QueryEscape(*page.Cursor)
	}
}

func alarmPath(application, id string) string {
	return "/v1/applications/" + application + "/alarms/" + url.PathEscape(id)
}

// eventually waits until ok, asking ten times a second.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		<-tick.C
	}
}

// ringing is one ring as its receiver got it.
type ringing struct {
	messageID, businessID, claimID string
	body                           string
	arrived                        time.Time
	target                         time.Time
}

// receiver collects the rings of one application.
type receiver struct {
	mu    sync.Mutex
	rings []ringing
}

func (r *receiver) add(g ringing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = append(r.rings, g)
}

// all returns what was received so far.
func (r *receiver) all() []ringing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]ringing(nil), r.rings...)
}

// byID returns how often each business id rang, under different message ids and in all.
func (r *receiver) byID() (distinct, copies map[string]int) {
	distinct, copies = map[string]int{}, map[string]int{}
	seen := map[string]bool{}
	for _, g := range r.all() {
		copies[g.businessID]++
		if !seen[g.messageID] {
			seen[g.messageID] = true
			distinct[g.businessID]++
		}
	}
	return distinct, copies
}

// lateness returns how late each ring was, sorted.
func lateness(rings []ringing) []time.Duration {
	var lates []time.Duration
	for _, r := range rings {
		lates = append(lates, r.arrived.Sub(r.target).Round(100*time.Microsecond))
	}
	slices.Sort(lates)
	return lates
}

// slow is what a busy machine may add to a bound that the log shows to be met.
const slow = 5 * time.Second

// testBroker is a connection to RabbitMQ with an exchange name of the test's own.
type testBroker struct {
	t        *testing.T
	url      string
	exchange string
	conn     *amqp.Connection
}

func dialBroker(t *testing.T, url string) *testBroker {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("connect to RabbitMQ: %v; start it with: make up", err)
	}
	b := &testBroker{t: t, url: url, exchange: "e2e." + random(), conn: conn}
	t.Cleanup(func() {
		if ch, err := conn.Channel(); err == nil {
			_ = ch.ExchangeDelete(b.exchange, false, false)
		}
		_ = conn.Close()
	})
	return b
}

// env configures clockd for the broker.
func (b *testBroker) env() []string {
	return []string{"CLOCKD_AMQP_URL=" + b.url, "CLOCKD_AMQP_EXCHANGE=" + b.exchange}
}

// declare declares a durable queue for the application with the arguments, binds it, and returns its name.
func (b *testBroker) declare(application string, args amqp.Table) (queue string) {
	b.t.Helper()
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	queue = b.exchange + "." + application
	err = ch.ExchangeDeclare(b.exchange, "direct", true, false, false, false, nil)
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, args)
	}
	if err == nil {
		err = ch.QueueBind(queue, application, b.exchange, false, nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	return queue
}

// consume declares and binds a quorum queue for the application and hands what comes to take, in one goroutine.
func (b *testBroker) consume(application string, take func(amqp.Delivery)) {
	b.t.Helper()
	queue := b.declare(application, amqp.Table{"x-queue-type": "quorum"})
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	rings, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		for d := range rings {
			take(d)
		}
	}()
}

// count counts the application's rings.
func (b *testBroker) count(application string) *atomic.Int64 {
	b.t.Helper()
	var n atomic.Int64
	b.consume(application, func(amqp.Delivery) { n.Add(1) })
	return &n
}

// receive collects the application's rings.
func (b *testBroker) receive(application string) *receiver {
	b.t.Helper()
	r := &receiver{}
	b.consume(application, func(d amqp.Delivery) {
		target, _ := d.Headers["x-target-ring-at"].(int64)
		claim, _ := d.Headers["x-claim-id"].(string)
		r.add(ringing{
			messageID: d.MessageId, businessID: d.CorrelationId, claimID: claim, body: string(d.Body),
			arrived: time.Now(), target: time.UnixMilli(target),
		})
	})
	return r
}

// answer replies to a ring as its consumer would.
func (b *testBroker) answer(messageID, kind string) {
	b.t.Helper()
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	err = ch.PublishWithContext(b.t.Context(), "", b.exchange+".answers", true, false, amqp.Publishing{
		Type: kind, CorrelationId: messageID, DeliveryMode: amqp.Persistent, AppId: "e2e",
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// listen collects the application's rings from the stream until the test ends or the process does.
func (p *process) listen(application string) *receiver {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/applications/"+application+"/rings", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // closed by the goroutine below
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		p.t.Fatalf("the stream answers %s", res.Status)
	}
	r := &receiver{}
	go func() {
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var d struct {
				MessageID  string          `json:"message_id"`
				BusinessID string          `json:"business_id"`
				ClaimID    string          `json:"claim_id"`
				RingAt     time.Time       `json:"ring_at"`
				Payload    json.RawMessage `json:"payload"`
			}
			if json.Unmarshal([]byte(data), &d) == nil {
				r.add(ringing{
					messageID: d.MessageID, businessID: d.BusinessID, claimID: d.ClaimID, body: string(d.Payload),
					arrived: time.Now(), target: d.RingAt,
				})
			}
		}
	}()
	return r
}
