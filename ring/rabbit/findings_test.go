package rabbit

import (
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

// managed returns the private broker with its management plugin, which runs until the broker is restarted, and the API's URL.
func managed(tb testing.TB) (amqpURL, managementURL string) {
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
	// the broker goes on as it is; a restart would take longer than the plugin's start
	onPrivate(tb, "ctl", "rabbitmq", "eval", fmt.Sprintf(`application:load(rabbitmq_management),
		application:set_env(rabbit, collect_statistics_interval, 500), %% how soon policies are told
		application:set_env(rabbitmq_management, tcp_config, [{port, %d}, {ip, "127.0.0.1"}]), {ok, _, _} = rabbit_plugins:ensure(%q).`, port, plugins))
	if err := os.WriteFile(plugins, []byte("[].\n"), 0o644); err != nil { //nolint:gosec // a restart is to be without it
		tb.Fatal(err)
	}
	return amqpURL, fmt.Sprintf("http://guest:guest@127.0.0.1:%d", port)
}

// findings returns what a session with that configuration finds, by name.
func findings(tb testing.TB, cfg Config) map[string]Finding {
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

func TestQueuesThatLoseRingsAreFound(t *testing.T) {
	amqpURL, managementURL := managed(t)
	b := answerable(t, amqpURL, quorum)
	cfg := b.config()
	cfg.ManagementURL = managementURL
	queue := func(args amqp.Table) string { return b.queue("shop", args) }
	safe := map[string]string{
		queue(quorum): "quorum, durable",
		queue(amqp.Table{"x-queue-type": "quorum", "x-max-length": 5, "x-overflow": "reject-publish"}): "quorum, durable",
		answerQueue(b.exchange): "quorum, durable",
	}
	unsafe := map[string]string{
		queue(nil): "a classic queue on one node",
		queue(amqp.Table{"x-queue-type": "quorum", "x-max-length": 5}):                                                "drops the oldest beyond max-length 5",
		queue(amqp.Table{"x-max-length-bytes": 500}):                                                                  "drops the oldest beyond max-length-bytes 500",
		queue(amqp.Table{"x-message-ttl": 60_000}):                                                                    "nobody took within 60000 ms",
		queue(amqp.Table{"x-message-ttl": 60_001, "x-dead-letter-exchange": b.exchange}):                              "goes to its dead letter exchange",
		queue(amqp.Table{"x-queue-type": "quorum", "x-expires": 3_600_000}):                                           "nobody has consumed for 3600000 ms",
		queue(amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": b.exchange, "x-max-length-bytes": 5000}): "drops the oldest beyond max-length-bytes 5000",
	}
	transient := unique("transient")
	_, err := b.ch.QueueDeclare(transient, false, true, false, false, nil)
	b.must(err)
	t.Cleanup(func() { b.remove(transient) })
	b.must(b.ch.QueueBind(transient, "shop", b.exchange, false, nil))
	b.must(b.ch.QueueBind(transient, "shop too", b.exchange, false, nil))
	unsafe[transient] = "not durable: all in it is gone when the broker restarts; it is deleted with all in it when its last consumer goes"
	unbound := b.queue("shop", nil)
	b.must(b.ch.QueueUnbind(unbound, "shop", b.exchange, nil))

	found := findings(t, cfg)
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

	// a policy mirrors one queue, and shortens it
	mirrored := queue(nil)
	onPrivate(t, "ctl", "rabbitmq", "set_policy", mirrored, "^"+mirrored+"$", `{"ha-mode":"all","max-length":7}`)
	t.Cleanup(func() { onPrivate(t, "ctl", "rabbitmq", "clear_policy", mirrored) })
	eventually(t, 30*time.Second, "the policy is told", func() bool {
		f := findings(t, cfg)[fmt.Sprintf("queue %q", mirrored)]
		return f.Value == "classic, mirrored, durable" && strings.Contains(f.Detail, "beyond max-length 7") && !strings.Contains(f.Detail, "one node")
	})

	u, err := url.Parse(managementURL)
	b.must(err)
	u.User = url.UserPassword("guest", "wrong")
	cfg.ManagementURL = u.String()
	s, err := New(cfg, Deps{})
	b.must(err)
	if _, err := s.Findings(t.Context()); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: the user needs the tag") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestNothingIsFoundWithoutAManagementURL(t *testing.T) {
	if found := findings(t, shared(t).config()); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

// An API that answers nonsense, or nothing, is an error in time.
func TestManagementTrouble(t *testing.T) {
	hang := make(chan struct{})
	for want, answer := range map[string]http.HandlerFunc{
		"answers 500":       func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"read the answer":   func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "[{") },
		"deadline exceeded": func(w http.ResponseWriter, r *http.Request) { <-hang },
	} {
		var paths []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.EscapedPath())
			answer(w, r)
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
