package rabbit

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// managementBroker starts the management plugin of the private broker. It returns the broker's URL and the API's URL.
// The plugin runs until the end of the test.
func managementBroker(tb testing.TB) (amqpURL, managementURL string) {
	tb.Helper()
	amqpURL = privateBroker(tb)
	plugins := filepath.Join(ownBroker.dir, "rabbitmq", "enabled_plugins")
	if err := os.WriteFile(plugins, []byte("[rabbitmq_management].\n"), 0o644); err != nil { //nolint:gosec // the broker's user reads it
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	// start the plugin without a restart of the broker, which would take longer
	onPrivate(tb, "ctl", "rabbitmq", "eval", fmt.Sprintf(`application:load(rabbitmq_management),
		application:set_env(rabbit, collect_statistics_interval, 500), %% how soon the API shows policies
		application:set_env(rabbitmq_management, tcp_config, [{port, %d}, {ip, "127.0.0.1"}]), {ok, _, _} = rabbit_plugins:ensure(%q).`, port, plugins))
	if err := os.WriteFile(plugins, []byte("[].\n"), 0o644); err != nil { //nolint:gosec // after a restart the plugin is off again
		tb.Fatal(err)
	}
	tb.Cleanup(func() { onPrivate(tb, "ctl", "rabbitmq", "eval", fmt.Sprintf("rabbit_plugins:ensure(%q).", plugins)) })
	return amqpURL, fmt.Sprintf("http://guest:guest@127.0.0.1:%d", port)
}

// findingsOf returns the findings of a session with that configuration, by name.
func findingsOf(tb testing.TB, cfg Config) map[string]Finding {
	tb.Helper()
	s, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	found, err := s.Findings(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	byName := map[string]Finding{}
	last := ""
	for _, f := range found {
		if f.Name <= last {
			tb.Errorf("%s after %s", f.Name, last)
		}
		last = f.Name
		byName[f.Name] = f
	}
	return byName
}

func TestFindingsNameQueuesThatLoseRings(t *testing.T) {
	amqpURL, managementURL := managementBroker(t)
	b := openWithAnswerQueue(t, amqpURL, quorum)
	cfg := b.config()
	cfg.ManagementURL = managementURL
	queue := func(args amqp.Table) string { return b.queue("shop", args) }
	safe := map[string]string{
		queue(quorum): "quorum, durable",
		queue(amqp.Table{"x-queue-type": "quorum", "x-max-length": 5,
			"x-overflow": "reject-publish"}): "quorum, durable",
		answerQueue(b.exchange): "quorum, durable",
	}
	unsafe := map[string]string{
		queue(nil): "a classic queue on one node",
		queue(amqp.Table{"x-queue-type": "quorum",
			"x-max-length": 5}): "drops the oldest beyond max-length 5",
		queue(amqp.Table{"x-max-length-bytes": 500}): "drops the oldest beyond max-length-bytes 500",
		queue(amqp.Table{"x-message-ttl": 60_000}):   "no consumer took within 60000 ms",
		queue(amqp.Table{"x-message-ttl": 60_001,
			"x-dead-letter-exchange": b.exchange}): "go to its dead letter exchange",
		queue(amqp.Table{"x-queue-type": "quorum",
			"x-expires": 3_600_000}): "after 3600000 ms without a consumer",
		queue(amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": b.exchange,
			"x-max-length-bytes": 5000}): "drops the oldest beyond max-length-bytes 5000",
	}
	transient := unique("transient")
	_, err := b.ch.QueueDeclare(transient, false, true, false, false, nil)
	b.must(err)
	t.Cleanup(func() { b.remove(transient) })
	b.must(b.ch.QueueBind(transient, "shop", b.exchange, false, nil))
	b.must(b.ch.QueueBind(transient, "shop too", b.exchange, false, nil))
	unsafe[transient] = "not durable: a restart of the broker deletes it with all messages; it is deleted with all messages when its last consumer ends"
	unbound := b.queue("shop", nil)
	b.must(b.ch.QueueUnbind(unbound, "shop", b.exchange, nil))

	found := findingsOf(t, cfg)
	if len(found) != len(safe)+len(unsafe) {
		t.Errorf("%d findings, want %d", len(found), len(safe)+len(unsafe))
	}
	for name, value := range safe {
		if f := found[fmt.Sprintf("queue %q", name)]; !f.Safe || f.Value != value || f.Detail == "" {
			t.Errorf("queue %s: %+v", name, f)
		}
	}
	for name, want := range unsafe {
		if f := found[fmt.Sprintf("queue %q", name)]; f.Safe || !strings.Contains(f.Detail, want) || f.Value == "" {
			t.Errorf("queue %s: %+v, want %s", name, f, want)
		}
	}

	// a policy limits the length of one queue, and mirrors it where the broker still has mirrors
	bounded, policy, value := queue(nil), `{"ha-mode":"all","max-length":7}`, "classic, mirrored, durable"
	if major(fmt.Sprint(b.conn.Properties["version"])) >= 4 {
		policy, value = `{"max-length":7}`, "classic, durable"
	}
	onPrivate(t, "ctl", "rabbitmq", "set_policy", bounded, "^"+bounded+"$", policy)
	t.Cleanup(func() { onPrivate(t, "ctl", "rabbitmq", "clear_policy", bounded) })
	eventually(t, 30*time.Second, "the API shows the policy", func() bool {
		f := findingsOf(t, cfg)[fmt.Sprintf("queue %q", bounded)]
		return f.Value == value && strings.Contains(f.Detail, "beyond max-length 7") &&
			strings.Contains(f.Detail, "one node") == (value == "classic, durable")
	})

	u, err := url.Parse(managementURL)
	b.must(err)
	u.User = url.UserPassword("guest", "wrong")
	cfg.ManagementURL = u.String()
	s, err := New(cfg, Deps{})
	b.must(err)
	if _, err := s.Findings(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "401 Unauthorized: the user needs the tag") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// An argument of the queue cannot lift the limit of a policy.
func TestFindingsNameDeliveryLimitsOfTheQueueOfAnswers(t *testing.T) {
	amqpURL, managementURL := managementBroker(t)
	b := openWithAnswerQueue(t, amqpURL, quorum)
	cfg := b.config()
	cfg.ManagementURL = managementURL
	other := b.queue("shop", limited(nil)) // its consumer decides how often a ring is delivered
	name := answerQueue(b.exchange)
	found := findingsOf(t, cfg)
	for _, queue := range []string{name, other} {
		if f := found[fmt.Sprintf("queue %q", queue)]; !f.Safe {
			t.Errorf("queue %s: %+v", queue, f)
		}
	}
	onPrivate(t, "ctl", "rabbitmq", "set_policy", name, "^"+b.exchange, `{"delivery-limit":7}`)
	t.Cleanup(func() { onPrivate(t, "ctl", "rabbitmq", "clear_policy", name) })
	eventually(t, 30*time.Second, "the API shows the policy", func() bool {
		f := findingsOf(t, cfg)[fmt.Sprintf("queue %q", name)]
		return !f.Safe && strings.Contains(f.Detail, "delivered more than 7 times")
	})
	for args, want := range map[string]string{`{}`: "", `{"x-delivery-limit": -1}`: "", `{"x-delivery-limit": 0}`: "more than 0 times"} {
		q := queue{Type: "quorum", Durable: true}
		decoder := json.NewDecoder(strings.NewReader(args))
		decoder.UseNumber()
		b.must(decoder.Decode(&q.Arguments))
		if f := q.finding(q.answerLosses()...); f.Safe != (want == "") || !strings.Contains(f.Detail, want) {
			t.Errorf("arguments %s: %+v", args, f)
		}
	}
}

func TestFindingsAreEmptyWithoutAManagementURL(t *testing.T) {
	t.Parallel()
	if found := findingsOf(t, shared(t).config()); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An invalid response of the API, or none, causes an error within the timeout.
func TestFindingsReportManagementErrors(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	for want, respond := range map[string]http.HandlerFunc{
		"responds with 500": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"read the response": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "[{") },
		"deadline exceeded": func(w http.ResponseWriter, r *http.Request) { <-hang },
	} {
		var paths []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.EscapedPath())
			respond(w, r)
		}))
		cfg := DefaultConfig()
		cfg.URL, cfg.ManagementURL, cfg.DialTimeout = "amqp://localhost/a%2Fb", server.URL+"/prefix/", 300*time.Millisecond
		s, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := s.Findings(t.Context()); err == nil || !strings.Contains(err.Error(), want) || found != nil {
			t.Errorf("%v, %v; want %s", found, err, want)
		}
		if want == "deadline exceeded" {
			close(hang)
		}
		server.Close()
		if paths[0] != "/prefix/api/exchanges/a%2Fb/clock/bindings/source" {
			t.Errorf("asked for %s", paths[0])
		}
	}
}
