package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/clockd/clockd/clock"
)

// The SASL mechanisms.
const (
	NoSASL       = "none"
	SASLPlain    = "plain"
	SASLSCRAM    = "scram-sha-256"
	SASLSCRAM512 = "scram-sha-512"
)

// Config says how brokers are reached.
type Config struct {
	Brokers  []string    // seeds, as host:port; at least one
	ClientID string      // name of this process in the brokers' logs; default clockd
	TLS      *tls.Config // nil: no TLS
	SASL     string      // mechanism of SASL: NoSASL (the default) or one of the mechanisms above
	User     string      // user for SASL
	Password string      // password for SASL
	// DialTimeout bounds a connect with its TLS handshake, and the opening of a lane. Default 5s.
	DialTimeout time.Duration
	// AckTimeout is the time in which a partition leader must have the acks of its replicas. The leader then replies to
	// the whole request. So it also bounds how long a slow partition delays the replies to other applications. Default
	// 2s.
	AckTimeout time.Duration
	// PatientAckTimeout is the same for batches of one application, which delay no other. It should be longer than
	// brokers take to notice that one of them has died (broker.session.timeout.ms, 9 s by default): then the leader
	// goes on without the dead replica and confirms, and the rings need no copies. Default 12s.
	PatientAckTimeout time.Duration
	// ProbeInterval is the time between two probes of the cluster. Default 2s.
	ProbeInterval time.Duration
}

// DefaultConfig returns the defaults that the fields' comments name, without brokers.
func DefaultConfig() Config {
	return Config{ClientID: "clockd", SASL: NoSASL, DialTimeout: 5 * time.Second, AckTimeout: 2 * time.Second,
		PatientAckTimeout: 12 * time.Second, ProbeInterval: 2 * time.Second}
}

// Validate returns nil for a valid configuration, else all broken rules, joined. No error has the password.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(len(c.Brokers) > 0, "Kafka needs at least one broker")
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		n, portErr := strconv.ParseUint(port, 10, 16)
		check(err == nil && host != "" && portErr == nil && n > 0,
			fmt.Sprintf("the Kafka broker %.80q must be host:port", b))
	}
	known := []string{NoSASL, SASLPlain, SASLSCRAM, SASLSCRAM512}
	check(slices.Contains(known, c.SASL), "the SASL mechanism of Kafka must be "+strings.Join(known, ", "))
	check(c.SASL != NoSASL || c.User == "" && c.Password == "", "a Kafka user and password need a SASL mechanism")
	check(c.SASL == NoSASL || c.User != "" && c.Password != "", "a SASL mechanism needs a Kafka user and a password")
	check(c.DialTimeout >= 100*time.Millisecond && c.DialTimeout <= time.Minute,
		"the Kafka dial timeout must be from 100ms to 1m")
	check(c.AckTimeout >= 100*time.Millisecond && c.AckTimeout <= time.Minute,
		"the Kafka ack timeout must be from 100ms to 1m")
	check(c.PatientAckTimeout >= c.AckTimeout && c.PatientAckTimeout <= time.Minute,
		"the patient Kafka ack timeout must be from the ack timeout to 1m")
	check(c.ProbeInterval >= 100*time.Millisecond && c.ProbeInterval <= time.Minute,
		"the Kafka probe interval must be from 100ms to 1m")
	return errors.Join(errs...)
}

// Deps are the parts that a Target works with.
type Deps struct {
	// Topics returns where the rings of a receiver (clock.ReceiverOf) go, nil if it has no topic. It must not block.
	// Any goroutine may call it. When its results change, the caller calls Target.TopicsChanged.
	Topics func(receiver string) *Topic
	// Own returns where a ring goes whose alarm brings fields of its topic itself. The error says why the settings do
	// not allow it any more, in the same words at each try. It must not block. Any goroutine may call it. Nil: there
	// are no such alarms.
	Own func(r *clock.Ring) (*Topic, error)
	Log *slog.Logger
	// Dial connects to the address of a broker, without TLS. Nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// mechanism returns the SASL mechanism, nil for none.
func (c Config) mechanism() sasl.Mechanism {
	switch c.SASL {
	case SASLPlain:
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()
	case SASLSCRAM:
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()
	case SASLSCRAM512:
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()
	}
	return nil
}

// replyOverhead is the time beside the ack timeout in which a reply must have come. Then the connection is closed.
const replyOverhead = 3 * time.Second

// options returns the options of a client. All its connections pass through the gate g; nil: the client produces
// nothing.
func (t *Target) options(g *gate) []kgo.Opt {
	versions := newestVersions()
	opts := []kgo.Opt{
		kgo.SeedBrokers(t.seeds()...), kgo.ClientID(t.cfg.ClientID), kgo.MaxVersions(versions),
		kgo.Dialer(t.dialer(g)),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProduceRequestTimeout(t.cfg.PatientAckTimeout),
		kgo.RequestTimeoutOverhead(replyOverhead), kgo.ProducerBatchMaxBytes(maxRecordBytes),
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(metadataMinAge), kgo.RetryTimeout(t.cfg.DialTimeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryPause }),
	}
	if g != nil {
		opts = append(opts, kgo.WithHooks(g))
	}
	if m := t.cfg.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

const (
	// metadataMinAge is the least time between two looks for the leaders of partitions.
	metadataMinAge = 100 * time.Millisecond
	// retryPause is the pause of the client before it sends a request again, within the write limit.
	retryPause = 100 * time.Millisecond
)

// maxRecordBytes is the size of the largest batch of records for one partition, and so of the largest record. It is
// what brokers take by default.
const maxRecordBytes = 1_000_012

// dialer returns the function that connects to a broker.
func (t *Target) dialer(g *gate) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, t.cfg.DialTimeout)
		defer cancel()
		conn, err := t.deps.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if t.cfg.TLS != nil {
			cfg := t.cfg.TLS.Clone()
			if cfg.ServerName == "" {
				if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
					return nil, errors.Join(err, conn.Close())
				}
			}
			secure := tls.Client(conn, cfg)
			if err := secure.HandshakeContext(ctx); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			conn = secure
		}
		if g == nil {
			return conn, nil
		}
		return &gatedConn{Conn: conn, gate: g}, nil
	}
}
