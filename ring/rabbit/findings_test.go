package rabbit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

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
	amqpURL, managementURL := rabbittest.ManagementBroker(t)
	b := rabbittest.OpenWithAnswers(t, amqpURL, rabbittest.Quorum)
	cfg := configOf(b)
	cfg.ManagementURL = managementURL
	queue := func(args amqp.Table) string { return b.Queue("shop", args) }
	safe := map[string]string{
		queue(rabbittest.Quorum): "quorum, durable",
		queue(amqp.Table{"x-queue-type": "quorum", "x-max-length": 5,
			"x-overflow": "reject-publish"}): "quorum, durable",
		b.AnswerQueue(): "quorum, durable",
	}
	unsafe := map[string]string{
		queue(nil): "a classic queue on one node",
		queue(amqp.Table{"x-queue-type": "quorum",
			"x-max-length": 5}): "drops the oldest beyond max-length 5",
		queue(amqp.Table{"x-max-length-bytes": 500}): "drops the oldest beyond max-length-bytes 500",
		queue(amqp.Table{"x-message-ttl": 60_000}):   "no consumer took within 60000 ms",
		queue(amqp.Table{"x-message-ttl": 60_001,
			"x-dead-letter-exchange": b.Exchange}): "go to its dead letter exchange",
		queue(amqp.Table{"x-queue-type": "quorum",
			"x-expires": 3_600_000}): "after 3600000 ms without a consumer",
		queue(amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": b.Exchange,
			"x-max-length-bytes": 5000}): "drops the oldest beyond max-length-bytes 5000",
	}
	transient := rabbittest.Unique("transient")
	_, err := b.Ch.QueueDeclare(transient, false, true, false, false, nil)
	b.Must(err)
	t.Cleanup(func() { b.Remove(transient) })
	b.Must(b.Ch.QueueBind(transient, "shop", b.Exchange, false, nil))
	b.Must(b.Ch.QueueBind(transient, "shop too", b.Exchange, false, nil))
	unsafe[transient] = "not durable: a restart of the broker deletes it with all messages; it is deleted with all messages when its last consumer ends"
	unbound := b.Queue("shop", nil)
	b.Must(b.Ch.QueueUnbind(unbound, "shop", b.Exchange, nil))

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
	if !b.IsRabbitMQ3() {
		policy, value = `{"max-length":7}`, "classic, durable"
	}
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "set_policy", bounded, "^"+bounded+"$", policy)
	t.Cleanup(func() { rabbittest.OnPrivate(t, "ctl", "rabbitmq", "clear_policy", bounded) })
	rabbittest.Eventually(t, 30*time.Second, "the API shows the policy", func() bool {
		f := findingsOf(t, cfg)[fmt.Sprintf("queue %q", bounded)]
		return f.Value == value && strings.Contains(f.Detail, "beyond max-length 7") &&
			strings.Contains(f.Detail, "one node") == (value == "classic, durable")
	})

	u, err := url.Parse(managementURL)
	b.Must(err)
	u.User = url.UserPassword("guest", "wrong")
	cfg.ManagementURL = u.String()
	s, err := New(cfg, Deps{})
	b.Must(err)
	if _, err := s.Findings(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "401 Unauthorized: the user needs the tag") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// An argument of the queue cannot lift the limit of a policy.
func TestFindingsNameDeliveryLimitsOfTheQueueOfAnswers(t *testing.T) {
	amqpURL, managementURL := rabbittest.ManagementBroker(t)
	b := rabbittest.OpenWithAnswers(t, amqpURL, rabbittest.Quorum)
	cfg := configOf(b)
	cfg.ManagementURL = managementURL
	other := b.Queue("shop", rabbittest.Limited(nil)) // its consumer decides how often a ring is delivered
	name := b.AnswerQueue()
	found := findingsOf(t, cfg)
	for _, queue := range []string{name, other} {
		if f := found[fmt.Sprintf("queue %q", queue)]; !f.Safe {
			t.Errorf("queue %s: %+v", queue, f)
		}
	}
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "set_policy", name, "^"+b.Exchange, `{"delivery-limit":7}`)
	t.Cleanup(func() { rabbittest.OnPrivate(t, "ctl", "rabbitmq", "clear_policy", name) })
	rabbittest.Eventually(t, 30*time.Second, "the API shows the policy", func() bool {
		f := findingsOf(t, cfg)[fmt.Sprintf("queue %q", name)]
		return !f.Safe && strings.Contains(f.Detail, "delivered more than 7 times")
	})
	for args, want := range map[string]string{`{}`: "", `{"x-delivery-limit": -1}`: "", `{"x-delivery-limit": 0}`: "more than 0 times"} {
		q := queue{Type: "quorum", Durable: true}
		decoder := json.NewDecoder(strings.NewReader(args))
		decoder.UseNumber()
		b.Must(decoder.Decode(&q.Arguments))
		if f := q.finding(q.answerLosses()...); f.Safe != (want == "") || !strings.Contains(f.Detail, want) {
			t.Errorf("arguments %s: %+v", args, f)
		}
	}
}

func TestFindingsAreEmptyWithoutAManagementURL(t *testing.T) {
	t.Parallel()
	if found := findingsOf(t, configOf(rabbittest.Shared(t))); len(found) != 0 {
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
