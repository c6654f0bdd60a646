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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// The tests of this package use clockd as its users do: as separate processes, over HTTP and RabbitMQ.

// asClockd is the environment variable that makes the test binary run as clockd. clockd refuses
// unknown variables named CLOCKD_...
const asClockd = "TEST_AS_CLOCKD"

func TestMain(m *testing.M) {
	if os.Getenv(asClockd) != "" {
		os.Exit(run(os.Args[1:]))
	}
	_ = os.Unsetenv("GOGC") // of the tests, from the Makefile; a clockd paces its collector itself
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", defaultParallel)
	}
	code := m.Run()
	_ = os.RemoveAll(releaseDirectory)
	os.Exit(code)
}

// defaultParallel is the default of -test.parallel. It exceeds the number of cores, because the tests mostly wait for
// processes.
const defaultParallel = "8"

// setting returns the environment variable, or the fallback: the default of deploy/services.
func setting(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func amqpURL() string {
	return setting("CLOCKD_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:23672/")
}

// randomName returns a short name that no other test has.
func randomName() string { return strings.ToLower(rand.Text()[:10]) }

// engines are the databases. The first two are servers that several nodes can share.
var engines = []databaseEngine{{"mariadb", mariadb}, {"postgresql", postgres}, {"sqlite", sqliteFile}}

// allFlows makes every flow run on every engine with every target, and every process with the race detector. `make
// test-flows` sets its environment variable. Otherwise a flow runs on the engines that it chooses, and only on SQLite
// with the race detector.
var allFlows = os.Getenv("CLOCKD_TEST_FLOWS") == "all"

// chosen returns the engines with these names, for a flow that does not depend on the engine: storetest tests all
// engines alike.
func chosen(names ...string) []databaseEngine {
	if allFlows {
		return engines
	}
	some := slices.DeleteFunc(slices.Clone(engines),
		func(e databaseEngine) bool { return !slices.Contains(names, e.name) })
	if len(some) != len(names) {
		panic(fmt.Sprintf("no such engine in %q", names)) // a flow on no engine cannot fail
	}
	return some
}

// chosenShared is chosen for a flow of several nodes.
func chosenShared(name string) []databaseEngine {
	if allFlows {
		return sharedEngines()
	}
	return chosen(name)
}

// databaseEngine is a kind of database.
type databaseEngine struct {
	name string
	open func(t *testing.T) (databaseURL string)
}

// sharedEngines are the engines that several nodes can share.
func sharedEngines() []databaseEngine { return engines[:min(2, len(engines))] }

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
	name := "clockd_e2e_" + randomName()
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

// distributedName is the beginning of the names of distributed databases. clockd runs on them in the distributed mode.
const distributedName = "clockd_citus_"

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
	err    error // error of the exit, valid once exited is closed

	listening chan string // receives its URL when it listens

	database struct { // for inState
		once sync.Once
		*sql.DB
	}
}

// raceOptions let a process with the race detector end at its first data race, and without the second of sleep that is
// usual at its end.
const raceOptions = "GORACE=halt_on_error=1 atexit_sleep_ms=0"

// command returns a command that runs clockd. Its environment is env alone, without the test's variables. A service on
// SQLite is the test's own program, with the race detector if the test has it, and so is every command if allFlows. All
// others are the program that people install.
func command(env []string, args ...string) *exec.Cmd {
	program := os.Args[0]
	onServer := slices.ContainsFunc(env, func(setting string) bool {
		return strings.HasPrefix(setting, "CLOCKD_DATABASE_URL=postgres") ||
			strings.HasPrefix(setting, "CLOCKD_DATABASE_URL=mysql")
	})
	if !allFlows && (onServer || len(args) > 0 && args[0] != "serve") {
		program = release()
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{asClockd + "=1", "PATH=" + os.Getenv("PATH"), raceOptions}, env...)
	if slices.ContainsFunc(env, func(setting string) bool { return strings.Contains(setting, "/"+distributedName) }) {
		cmd.Env = append(cmd.Env, "CLOCKD_DATABASE_MODE="+modeDistributed)
	}
	return cmd
}

// withoutVariables returns the environment of the test without the variables of clockd and of its tests.
func withoutVariables() []string {
	return slices.DeleteFunc(os.Environ(),
		func(setting string) bool { return strings.HasPrefix(setting, variablePrefix) })
}

// releaseDirectory has the program that release builds.
var releaseDirectory string

// release builds clockd as `make build` does, and returns the path of the program.
var release = sync.OnceValue(func() string {
	directory, err := os.MkdirTemp("", "clockd-e2e-")
	if err != nil {
		panic(err)
	}
	releaseDirectory = directory
	program := filepath.Join(directory, "clockd")
	if err := buildClockd(program, ""); err != nil {
		panic(err)
	}
	return program
})

// start runs clockd serve on a free port until the test ends. It returns when the process listens.
func start(t *testing.T, env ...string) *process {
	t.Helper()
	p := starting(t, env...)
	p.awaitListening()
	return p
}

// startProgram is start for another build of clockd.
func startProgram(t *testing.T, program string, env ...string) *process {
	t.Helper()
	p := startingProgram(t, program, env...)
	p.awaitListening()
	return p
}

// startingProgram is startProgram without the wait.
func startingProgram(t *testing.T, program string, env ...string) *process {
	t.Helper()
	return spawn(t, programCommand(program, append([]string{"CLOCKD_LISTEN=127.0.0.1:0"}, env...), "serve"))
}

// starting is start without the wait.
func starting(t *testing.T, env ...string) *process {
	t.Helper()
	return spawn(t, command(append([]string{"CLOCKD_LISTEN=127.0.0.1:0"}, env...), "serve"))
}

// spawn runs a command until the test ends.
func spawn(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, log: &lockedBuffer{}, exited: make(chan struct{}), listening: make(chan string, 1)}
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	go func() {
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), "listens on "); ok {
				p.listening <- strings.SplitN(rest, ": ", 2)[0]
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
	return p
}

// awaitListening waits until the process listens.
func (p *process) awaitListening() {
	p.t.Helper()
	select {
	case p.url = <-p.listening:
	case <-p.exited:
		p.t.Fatalf("clockd ended at start: %v\n%s", p.err, p.log)
	case <-time.After(time.Minute):
		p.t.Fatalf("clockd does not listen\n%s", p.log)
	}
}

// kill ends the process at once, without a graceful stop.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate requests a graceful stop and waits for it.
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

// lockedBuffer collects the output of a process. Tests may read it while the process runs.
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

// response has the fields of all responses that the tests read.
type response struct {
	Repeated   bool // must has repeated the request after a 503
	Status     int
	RetryAfter string
	RingAt     time.Time      `json:"ring_at"`
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

// do sends a request. body is nil or a value for JSON.
func (p *process) do(method, path string, body any) (response, error) {
	var a response
	status, header, err := p.decode(method, path, body, &a)
	a.Status, a.RetryAfter = status, header.Get("Retry-After")
	return a, err
}

// doWithRoom is do. It repeats a request that the service refuses for lack of room, as Retry-After says.
func (p *process) doWithRoom(method, path string, body any) (response, error) {
	for {
		a, err := p.do(method, path, body)
		seconds, parseErr := strconv.Atoi(a.RetryAfter)
		if err != nil || a.Status != http.StatusServiceUnavailable || parseErr != nil || p.t.Context().Err() != nil {
			return a, err
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

// decode sends a request and reads the JSON of the response into out.
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
		return res.StatusCode, res.Header, fmt.Errorf("%s %s returned %q: %w", method, path, b, err)
	}
	return res.StatusCode, res.Header, nil
}

// must is do for a request whose response must have the status. It repeats the request after a 503, as a client does:
// on a busy machine the database may be slow. A repeated set may find its alarm, so its status is 200 in place of 201.
func (p *process) must(status int, method, path string, body any) (a response) {
	p.t.Helper()
	eventually(p.t, method+" "+path, func() bool {
		repeated := a.Status != 0
		var err error
		if a, err = p.do(method, path, body); err != nil {
			p.t.Fatal(err)
		}
		if a.Repeated = repeated; repeated && status == http.StatusCreated && a.Status == http.StatusOK {
			return true
		}
		if a.Status != status && a.Status != http.StatusServiceUnavailable {
			p.t.Fatalf("%s %s: got %+v, want status %d", method, path, a, status)
		}
		return a.Status == status
	})
	return a
}

// inState returns how many alarms of the application are in the state. It asks the database: a list of many alarms
// would keep the machine busy.
func (p *process) inState(application string, state clock.State) (count int) {
	p.t.Helper()
	p.database.once.Do(func() {
		for _, setting := range p.cmd.Env {
			if databaseURL, ok := strings.CutPrefix(setting, "CLOCKD_DATABASE_URL="); ok {
				p.database.DB = openDatabase(p.t, databaseURL)
			}
		}
	})
	if p.database.DB == nil {
		p.t.Fatal("the process was started without CLOCKD_DATABASE_URL")
	}
	query := fmt.Sprintf("SELECT COUNT(*) FROM alarm WHERE application = '%s' AND state = %d", application, state)
	eventually(p.t, "the database counts", func() bool { return p.database.QueryRow(query).Scan(&count) == nil })
	return count
}

func alarmPath(application, id string) string {
	return "/v1/applications/" + application + "/alarms/" + url.PathEscape(id)
}

// giveUpAfter is how long a test waits for a step, at most. It is much longer than any step takes, even on a busy
// machine.
const giveUpAfter = 5 * time.Minute

// eventually calls ok again and again, at most ten times a second, until it returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(giveUpAfter)
	for {
		begun := time.Now()
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", giveUpAfter, what)
		}
		time.Sleep(max(100*time.Millisecond, 3*time.Since(begun))) // some looks read many alarms
	}
}

// receivedRing is one ring that a receiver got.
type receivedRing struct {
	messageID, businessID, claimID string
	body                           string
	arrived                        time.Time
	target                         time.Time
	occurrence                     time.Time // zero: the ring has none
}

// receiver collects the rings of one application.
type receiver struct {
	mu    sync.Mutex
	rings []receivedRing
}

func (r *receiver) add(g receivedRing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings = append(r.rings, g)
}

// all returns the rings received so far.
func (r *receiver) all() []receivedRing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]receivedRing(nil), r.rings...)
}

// number returns how many rings were received so far, including copies.
func (r *receiver) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rings)
}

// byID counts by business id: distinct is the number of different message ids, and copies is the number of all rings.
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

// lateness returns the lateness of each ring, in ascending order.
func lateness(rings []receivedRing) []time.Duration {
	var lates []time.Duration
	for _, r := range rings {
		lates = append(lates, r.arrived.Sub(r.target).Round(100*time.Microsecond))
	}
	slices.Sort(lates)
	return lates
}

// testBroker is a connection to RabbitMQ, with the name of an exchange for one test.
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
	b := &testBroker{t: t, url: url, exchange: "e2e." + randomName(), conn: conn}
	t.Cleanup(func() {
		if ch, err := conn.Channel(); err == nil {
			_ = ch.ExchangeDelete(b.exchange, false, false)
		}
		_ = conn.Close()
	})
	return b
}

// env returns the environment that configures clockd for the broker.
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

// consume declares and binds a quorum queue for the application. It passes each message to take, in one goroutine.
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

// countAll counts the rings of the applications crowd0, crowd1, ... in one queue.
func (b *testBroker) countAll(applications int) *atomic.Int64 {
	b.t.Helper()
	n := b.count("crowd0")
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 1; i < applications && err == nil; i++ {
		err = ch.QueueBind(b.exchange+".crowd0", fmt.Sprint("crowd", i), b.exchange, false, nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// receive collects the application's rings.
func (b *testBroker) receive(application string) *receiver {
	b.t.Helper()
	r := &receiver{}
	b.consume(application, func(d amqp.Delivery) {
		target, _ := d.Headers["x-target-ring-at"].(int64)
		claim, _ := d.Headers["x-claim-id"].(string)
		r.add(receivedRing{
			messageID: d.MessageId, businessID: d.CorrelationId, claimID: claim, body: string(d.Body),
			arrived: time.Now(), target: time.UnixMilli(target), occurrence: occurrenceIn(d.Headers),
		})
	})
	return r
}

// occurrenceIn returns the time of the occurrence in the headers of a ring; zero: there is none.
func occurrenceIn(headers amqp.Table) time.Time {
	if at, ok := headers["x-occurrence-at"].(int64); ok {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// answer answers a ring over RabbitMQ, as a consumer does.
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

// listen collects the application's rings from the stream until the test or the process ends.
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
		p.t.Fatalf("the stream returns %s", res.Status)
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
				Occurrence struct {
					At time.Time `json:"at"`
				} `json:"occurrence"`
			}
			if json.Unmarshal([]byte(data), &d) == nil {
				r.add(receivedRing{
					messageID: d.MessageID, businessID: d.BusinessID, claimID: d.ClaimID, body: string(d.Payload),
					arrived: time.Now(), target: d.RingAt, occurrence: d.Occurrence.At,
				})
			}
		}
	}()
	return r
}
