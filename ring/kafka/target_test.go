package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/kafka/kafkatest"
)

// produces counts the produce requests that brokers get, and replies to them with an error; 0: not at all.
func (b *bench) produces(code func(n int) int16) (requests func() []time.Time) {
	var mu sync.Mutex
	var at []time.Time
	b.cluster.Fake.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.Fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		c := code(len(at))
		if c == 0 {
			return nil, nil, false
		}
		req := r.(*kmsg.ProduceRequest)
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, c
				topic.Partitions = append(topic.Partitions, part)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(at)
	}
}

func TestRecordsHaveTheKeyAndHeadersOfTheSettings(t *testing.T) {
	b := openTarget(t)
	b.create("shop", nil)
	l := b.open()
	deliver := func(key Key, headers Headers) map[string]string {
		t.Helper()
		before := len(b.records("shop"))
		b.point("shop", &Topic{Name: b.prefix + "shop", Key: key, Headers: headers})
		all := rings("shop", 1)
		all[0].Traceparent, all[0].Before.RetryTimes = "00-1-2-01", 3
		all[0].Before.Progress = clock.Progress{
			Current:    repeat.Occurrence{Number: 5, At: 1_700_000_000_900},
			PreviousAt: 1_699_900_000_000, Next: repeat.Occurrence{Number: 6, At: 1_700_100_000_000},
		}
		wantKinds(t, l.Deliver(t.Context(), all, ample()), clock.Confirmed)
		var newest map[string]string
		latest := time.Time{}
		records := b.records("shop")
		if len(records) != before+1 {
			t.Fatalf("%d records after %d", len(records), before)
		}
		for _, r := range records {
			if r.Timestamp.Before(latest) {
				continue
			}
			latest, newest = r.Timestamp, map[string]string{"key": string(r.Key), "value": string(r.Value)}
			for _, h := range r.Headers {
				newest[h.Key] = string(h.Value)
			}
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the timestamps of records are in milliseconds
		return newest
	}
	full := map[string]string{
		"value": `{"n":1}`, "message-id": "1.4.2", "content-type": "application/json", "x-application": "shop",
		"x-business-id": "b0",
		"x-generation":  "4", "x-ring-no": "2", "x-target-ring-at": "1700000000000", "x-rung-at": "1700000000007",
		"x-retry-times": "3",
		"x-claim-id":    "claim", "traceparent": "00-1-2-01",
		"x-occurrence": "5", "x-occurrence-at": "1700000000900",
		"x-occurrence-previous-at": "1699900000000", "x-occurrence-next-at": "1700100000000",
	}
	for _, c := range []struct {
		key     Key
		headers Headers
		want    string
		without []string
	}{
		{KeyBusinessID, FullHeaders, "b0", nil},
		{KeyApplication, FullHeaders, "shop", nil},
		{KeyNone, FullHeaders, "", nil},
		{KeyBusinessID, LeanHeaders, "b0",
			[]string{"x-business-id", "x-generation", "x-ring-no"}},
		{KeyApplication, LeanHeaders, "shop",
			[]string{"x-application", "x-generation", "x-ring-no"}},
		{KeyNone, LeanHeaders, "", []string{"x-generation", "x-ring-no"}},
	} {
		got := deliver(c.key, c.headers)
		if got["key"] != c.want || len(got) != len(full)+1-len(c.without) {
			t.Errorf("key %s, headers %s: %v", c.key, c.headers, got)
		}
		for name, value := range full {
			if want := value; !slices.Contains(c.without, name) && got[name] != want {
				t.Errorf("key %s, headers %s: %s is %q, want %q", c.key, c.headers, name, got[name], want)
			}
		}
	}
}

func TestRecordsHaveTheKeyAndHeadersOfTheirAlarm(t *testing.T) {
	ofSettings := &Topic{Name: "rings", Key: KeyApplication, Headers: LeanHeaders}
	r := &rings("shop", 1)[0]
	rec := recordOf(r, ofSettings.with(&Topic{Name: "own", OwnKey: "k/7", OwnHeaders: map[string]string{"b": "ä", "a": ""}}))
	headers := map[string]string{}
	for _, h := range rec.Headers {
		headers[h.Key] = string(h.Value)
	}
	if rec.Topic != "own" || string(rec.Key) != "k/7" || headers["a"] != "" || headers["b"] != "ä" ||
		headers[headerApplication] != "shop" || headers[headerBusinessID] != r.BusinessID {
		t.Errorf("topic %s, key %s, headers %v", rec.Topic, rec.Key, headers)
	}
	if _, has := headers["a"]; !has {
		t.Errorf("headers %v lack the empty one", headers)
	}
	if rec := recordOf(r, ofSettings.with(&Topic{})); rec.Topic != "rings" || string(rec.Key) != "shop" {
		t.Errorf("topic %s, key %s without own fields", rec.Topic, rec.Key)
	}
}

func TestMissingTopicReturnsOnlyItsOwnRings(t *testing.T) {
	b := openTarget(t)
	b.create("shop", nil)
	b.point("lost", NewTopic(b.prefix+"lost"))
	l := b.open()
	all := append(rings("shop", 20), rings("lost", 20)...)
	limits := ring.Limits{WriteBy: time.Now().Add(10 * time.Second), ReplyBy: time.Now().Add(12 * time.Second)}
	outcomes := l.Deliver(t.Context(), all, limits)
	wantKinds(t, outcomes[:20], clock.Confirmed)
	wantKinds(t, outcomes[20:], clock.Returned)
	if !strings.Contains(outcomes[20].Reason, "UNKNOWN_TOPIC_OR_PARTITION") {
		t.Error(outcomes[20].Reason)
	}
	b.create("lost", nil)
	wantKinds(t, l.Deliver(t.Context(), rings("lost", 1), ample()), clock.Confirmed)
}

// A link keeps to a topic that was recreated. Its rings go to another link, and no try is counted.
func TestRecreatedTopicGetsItsRings(t *testing.T) {
	b := openTarget(t)
	b.create("shop", nil)
	b.create("bank", nil)
	l := b.open()
	wantKinds(t, l.Deliver(t.Context(), append(rings("shop", 20), rings("bank", 20)...), ample()), clock.Confirmed)
	b.cluster.Recreate(b.prefix + "shop")
	left := rings("shop", 20)
	for range 3 { // a link, the next one, and one more if that was made before each broker knew the topic
		if err := l.Open(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		outcomes := l.Deliver(t.Context(), append(rings("bank", 20), left...), ample())
		wantKinds(t, outcomes[:20], clock.Confirmed)
		tried := left
		left = nil
		for i, o := range outcomes[20:] {
			switch o.Kind {
			case clock.Confirmed:
			case clock.Unsent:
				left = append(left, tried[i])
			default:
				t.Fatalf("%+v", o)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("%d rings are left", len(left))
	}
	b.cluster.Eventually("the new topic has each ring", func() bool { return len(b.records("shop")) == 20 })
}

func TestRefusedRecordsWereNotStored(t *testing.T) {
	b := openTarget(t)
	b.create("shop", map[string]string{"max.message.bytes": "5000"})
	large, all := rings("shop", 1), rings("shop", 100)
	large[0].Payload = make([]byte, 6000)
	for _, refused := range [][]clock.Ring{large, all} {
		// another link: the last flush of a link may still go on, and would send a few records first
		outcomes := b.open().Deliver(t.Context(), refused, ample())
		wantKinds(t, outcomes, clock.Refused)
		if o := outcomes[0]; !o.Unstored || !strings.Contains(o.Reason, b.prefix+"shop") {
			t.Errorf("%+v", o)
		}
	}
	l := b.open()
	large[0].Payload = make([]byte, maxRecordBytes)
	o := l.Deliver(t.Context(), large, ample())[0]
	if o.Kind != clock.Refused || !o.Unstored || strings.Contains(o.Reason, "server") {
		t.Errorf("%+v", o)
	}
	if n := len(b.records("shop")); n != 0 {
		t.Errorf("%d records were stored", n)
	}
	wantKinds(t, l.Deliver(t.Context(), all[:5], ample()), clock.Confirmed)
}

// Brokers reply with an error that may pass. The client sends the rings again until the write limit, and never after
// it.
func TestNothingIsSentAgainAfterTheWriteLimit(t *testing.T) {
	b := openFake(t)
	b.create("shop", nil)
	l := b.open()
	requests := b.produces(func(int) int16 { return kerr.NotEnoughReplicas.Code })
	limits := ring.Limits{WriteBy: time.Now().Add(700 * time.Millisecond), ReplyBy: time.Now().Add(10 * time.Second)}
	limits.Await = func(late ring.LateRings) {
		t.Error("rings without a hope of a reply are awaited")
		t.Cleanup(late.End)
	}
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 5), limits), clock.Doubtful)
	at := requests()
	if len(at) < 2 {
		t.Errorf("%d requests: nothing was sent again", len(at))
	}
	for _, a := range at {
		if late := a.Sub(limits.WriteBy); late > 5*time.Second { // on a busy machine the way to the broker takes some time
			t.Errorf("a request came %s after the write limit", late)
		}
	}
	select {
	case <-l.Broken():
	default:
		t.Error("the lane keeps the link of rings in doubt")
	}
}

// A broker that is not the leader any more says so. The rings go to the new leader, once.
func TestRingsFollowTheLeader(t *testing.T) {
	b := openFake(t)
	b.create("shop", nil)
	l := b.open()
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 30), ample()), clock.Confirmed)
	for p := range int32(3) {
		topic, fake := b.prefix+"shop", b.cluster.Fake
		if err := fake.MoveTopicPartition(topic, p, 1-fake.LeaderFor(topic, p)); err != nil {
			t.Fatal(err)
		}
	}
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 30), ample()), clock.Confirmed)
	if n := len(b.records("shop")); n != 60 {
		t.Errorf("%d records of 60 rings", n)
	}
}

// The reply to a request is lost with its connection. The client sends the same batch again, and the broker knows the
// copy.
func TestLostReplyMakesNoCopyWithinTheWriteLimit(t *testing.T) {
	b := openTarget(t)
	b.create("shop", nil)
	l := b.open()
	b.hold()
	time.AfterFunc(300*time.Millisecond, func() {
		b.cut()
		b.release()
	})
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 30), ample()), clock.Confirmed)
	if n := len(b.records("shop")); n != 30 {
		t.Errorf("%d records of 30 rings", n)
	}
}

func TestFinalErrorOfABrokerIsANack(t *testing.T) {
	b := openFake(t)
	b.create("shop", nil)
	l := b.open()
	b.produces(func(int) int16 { return kerr.PolicyViolation.Code })
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 2), ample()), clock.Nacked)
}

// Leaders get more time for their acks if no other application waits for the replies.
func TestLeadersHaveMoreTimeForABatchOfOneApplication(t *testing.T) {
	b := openFake(t)
	b.create("a", nil)
	b.create("b", nil)
	l := b.open()
	times := make(chan int32, 100)
	b.cluster.Fake.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.Fake.KeepControl()
		times <- r.(*kmsg.ProduceRequest).TimeoutMillis
		return nil, nil, false
	})
	for _, c := range []struct {
		what   string
		rings  []clock.Ring
		shared bool
		want   time.Duration
	}{
		{"one application", rings("a", 3), true, b.cfg.PatientAckTimeout},
		{"two applications", append(rings("a", 3), rings("b", 3)...), true, b.cfg.AckTimeout},
		{"two applications in quarantine", append(rings("a", 3), rings("b", 3)...), false, b.cfg.PatientAckTimeout},
	} {
		limits := ample()
		limits.Shared = c.shared
		wantKinds(t, l.Deliver(t.Context(), c.rings, limits), clock.Confirmed)
		for len(times) > 0 {
			if got := time.Duration(<-times) * time.Millisecond; got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
	}
}

// A broker hangs: the target stays usable, new lanes open, and the partitions of the other broker take rings.
func TestBrokerThatHangsHoldsUpOnlyItsOwnPartitions(t *testing.T) {
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := openFake(t)
			b.create("healthy", nil)
			b.create("stuck", nil)
			b.cluster.Eventually("the target is usable", func() bool { return b.Usable() == nil })
			fake := b.cluster.Fake
			for p := range int32(3) {
				for application, leader := range map[string]int32{"stuck": int32(i), "healthy": int32(1 - i)} {
					if err := fake.MoveTopicPartition(b.prefix+application, p, leader); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.hang(b.cluster.Brokers[i])
			b.cluster.Eventually("a probe finds the other broker alone", func() bool { return slices.Equal(b.seeds(), b.cluster.Brokers[1-i:2-i]) })
			for range 10 {
				l := b.open()
				all := append(rings("healthy", 5), rings("stuck", 5)...)
				limits := ring.Limits{WriteBy: time.Now().Add(20 * time.Second), ReplyBy: time.Now().Add(21 * time.Second)}
				limits.Await = func(late ring.LateRings) { t.Cleanup(late.End) }
				ctx, cancel := context.WithCancel(t.Context())
				confirmed := 0
				limits.OnConfirmed = func(int) {
					if confirmed++; confirmed == 5 {
						cancel()
					}
				}
				outcomes := l.Deliver(ctx, all, limits)
				cancel()
				wantKinds(t, outcomes[:5], clock.Confirmed)
				if err := b.Usable(); err != nil {
					t.Errorf("the target is unusable: %v", err)
				}
			}
		})
	}
}

// A cluster that is gone makes the target unusable; rings under way are not sent.
func TestClusterWithoutBrokersIsUnusable(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DialTimeout = 500 * time.Millisecond
	b := openOn(t, kafkatest.OpenFake(t), cfg)
	b.create("shop", nil)
	l := b.open()
	b.cluster.Fake.Close()
	b.cluster.Eventually("the target is unusable", func() bool { return b.Usable() != nil })
	limits := ring.Limits{WriteBy: time.Now().Add(500 * time.Millisecond), ReplyBy: time.Now().Add(time.Second)}
	wantKinds(t, l.Deliver(t.Context(), rings("shop", 2), limits), clock.Unsent)
	if err := l.Open(t.Context(), 10); err == nil {
		t.Error("a lane opens without a broker")
	}
}

// mechanisms are the mechanisms of SASL with the names that kfake has for them.
var mechanisms = map[string]string{SASLPlain: "PLAIN", SASLSCRAM: "SCRAM-SHA-256", SASLSCRAM512: "SCRAM-SHA-512"}

// secured returns a cluster whose brokers demand TLS and SASL, and the configuration of a target for it.
func secured(t *testing.T, mechanism string) (*kafkatest.Cluster, Config) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.SASL, cfg.User, cfg.Password = mechanism, "clockd", "clockd"
	authorities := x509.NewCertPool()
	cfg.TLS = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	if kafkatest.Real() {
		cfg.Brokers = strings.Split(os.Getenv("CLOCKD_TEST_KAFKA_TLS_BROKERS"), ",")
		certificate, err := os.ReadFile(filepath.Join(os.Getenv("CLOCKD_TEST_TLS_DIR"), "ca.pem"))
		if err != nil || !authorities.AppendCertsFromPEM(certificate) {
			t.Fatalf("the authority of the brokers: %v", err)
		}
		return kafkatest.Open(t), cfg
	}
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	authorities.AddCert(server.Certificate())
	cfg.TLS.ServerName = "example.com"
	return kafkatest.OpenFake(t, kfake.EnableSASL(), kfake.Superuser(mechanisms[mechanism], cfg.User, cfg.Password),
		kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})), cfg
}

func TestLanesAuthenticateOverTLS(t *testing.T) {
	for mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			cluster, cfg := secured(t, mechanism)
			b := openOn(t, cluster, cfg)
			b.create("shop", nil)
			wantKinds(t, b.open().Deliver(t.Context(), rings("shop", 3), ample()), clock.Confirmed)

			cfg.Password, cfg.DialTimeout = "wrong", time.Second
			b = openOn(t, cluster, cfg)
			b.cluster.Eventually("the target says why it is unusable", func() bool {
				err := b.Usable()
				return err != nil && strings.Contains(err.Error(), "no Kafka broker can be used")
			})
			if err := b.Usable(); strings.Contains(err.Error(), "wrong") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	good := DefaultConfig()
	good.Brokers = []string{"k1:9092", "[::1]:9093"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for reason, change := range map[string]func(*Config){
		"at least one broker": func(c *Config) { c.Brokers = nil },
		"must be host:port":   func(c *Config) { c.Brokers = []string{"k1"} },
		"SASL mechanism":      func(c *Config) { c.SASL = "gssapi" },
		"user and password":   func(c *Config) { c.User = "clockd" },
		"needs a Kafka user":  func(c *Config) { c.SASL = SASLPlain },
		"ack timeout":         func(c *Config) { c.AckTimeout = 0 },
		"dial timeout":        func(c *Config) { c.DialTimeout = 0 },
		"probe interval":      func(c *Config) { c.ProbeInterval = 0 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
