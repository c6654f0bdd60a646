package rabbit

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/inbox"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Config holds the settings of a Session.
type Config struct {
	// URL of the broker: amqp:// or amqps://, with the query parameters of RabbitMQ's URI specification. DialTimeout
	// replaces the parameter connection_timeout. The URL may name several hosts of one cluster:
	// amqp://user:password@h1:5672,h2:5672,h3/vhost. Each dial tries them in turn. The URL may contain a password and
	// is never printed.
	URL string
	// Exchange is the name of the exchange for rings. It is declared as durable and direct. Default clock.
	Exchange string
	// Exchanges lists further exchanges that rings of applications may go to (Deps.Destination). They must exist.
	// Default none.
	Exchanges []string
	// ConnectionName is the name of clockd's connections in the broker's lists. Default clockd.
	ConnectionName string
	// DeclareQueues lists applications. For each, clockd declares and binds a durable quorum queue
	// <exchange>.<application>. Default none: applications declare and bind their own queues.
	DeclareQueues []string

	// Headers says which headers rings have. Default FullHeaders.
	Headers Headers

	// Heartbeat is the heartbeat interval that clockd asks of the broker; a heartbeat in the URL wins. At least 1 s,
	// default 10 s.
	Heartbeat time.Duration
	// DialTimeout bounds the opening of a connection: TCP, TLS and AMQP together, on all hosts together, and the
	// channel of a lane too. The TCP connect to one of several hosts has an even share of it. Each later declaration,
	// binding and consumer has the same time. Default 10 s.
	DialTimeout time.Duration
	// WriteTimeout bounds one write outside a delivery: handshake, heartbeat, probe. It also bounds the wait for the
	// confirms of a batch of copies of answers. Default 5 s.
	WriteTimeout time.Duration
	// ProbeInterval is the time between two probes, which find out whether the broker still takes messages. Default 1
	// s.
	ProbeInterval time.Duration
	// ProbeTimeout is the longest time until the broker confirms a probe. Default 2 s.
	ProbeTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait before dialling again. The wait doubles each time, and is drawn at
	// random between half and all of that. Default 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// GatherBytes is the size of the buffer that collects the messages of a delivery before a write. Each lane has one.
	// 0 writes every message separately. Default 128 KiB.
	GatherBytes int
	// AnswerPrefetch is the largest number of answers that a node has in flight: taken from the broker and not settled.
	// Each takes at most some 10 KiB of memory, whatever its body. From 1 to 10000, default 500.
	AnswerPrefetch int

	// Intake says from which queue clockd takes delayed messages. Default: none.
	Intake inbox.IntakeConfig

	// ManagementURL is the URL of the broker's management API, like http://user:password@host:15672, for Findings. It
	// may contain a password and is never printed. Default none: clockd does not ask the API.
	ManagementURL string
}

// Headers says which headers a ring has.
type Headers string

// The values of Headers.
const (
	FullHeaders Headers = "full" // all of them
	LeanHeaders Headers = "lean" // those whose content is not also in a property or in the routing key
)

// DefaultConfig returns the defaults, without a URL.
func DefaultConfig() Config {
	return Config{
		Exchange:       "clock",
		ConnectionName: "clockd",
		Headers:        FullHeaders,
		Heartbeat:      10 * time.Second,
		DialTimeout:    10 * time.Second,
		WriteTimeout:   5 * time.Second,
		ProbeInterval:  time.Second,
		ProbeTimeout:   2 * time.Second,
		BackoffMin:     100 * time.Millisecond,
		BackoffMax:     5 * time.Second,
		GatherBytes:    128 << 10,
		AnswerPrefetch: 500,
		Intake:         inbox.DefaultIntakeConfig(),
	}
}

// String returns the address of the broker with all its hosts, and the exchange, without user and password.
func (c Config) String() string {
	hosts, err := wire.ParseURL(c.URL)
	if err != nil {
		return "no valid URL, exchange " + c.Exchange
	}
	return wire.Address(hosts) + ", exchange " + c.Exchange
}

// LogValue returns String, so that no log handler prints the fields.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// maxExchange is the longest exchange name, in bytes. Names of queues add ".answers" or ".<application>" and have at
// most 255 bytes.
const maxExchange = 127

// Validate returns every rule that the configuration breaks, joined, or nil. It never quotes the URL.
func (c Config) Validate() error {
	var broken []error
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("rabbit: "+format, args...))
		}
	}
	if hosts, err := wire.ParseURL(c.URL); err != nil {
		broken = append(broken, err)
	} else if err := hosts[0].CheckTLS(); err != nil { // the hosts differ in the server name only
		broken = append(broken, fmt.Errorf("rabbit: %w", err))
	}
	if _, err := newManagement(c.ManagementURL, ""); err != nil {
		broken = append(broken, err)
	}
	rule(c.Exchange != "",
		"the exchange needs a name: an empty one is the broker's default exchange, which routes by queue name")
	rule(len(c.Exchange) <= maxExchange, "the exchange's name has %d bytes, at most %d are allowed", len(c.Exchange),
		maxExchange)
	for _, exchange := range c.Exchanges {
		rule(exchange != "" && len(exchange) <= wire.MaxShortString,
			"%q is no name of an exchange: names have 1 to %d bytes", exchange, wire.MaxShortString)
	}
	for _, application := range c.DeclareQueues {
		rule(clock.ValidateApplication(application) == nil,
			"%q is no application's name, so no queue can be declared for it", application)
	}
	rule(c.Headers == FullHeaders || c.Headers == LeanHeaders, "headers must be %q or %q", FullHeaders, LeanHeaders)
	rule(c.Heartbeat >= time.Second, "heartbeat %s is below 1s, the protocol's unit", c.Heartbeat)
	rule(c.DialTimeout > 0, "the dial timeout must be positive: a silent broker would hold a worker for ever")
	rule(c.WriteTimeout > 0, "the write timeout must be positive: a blocked broker would hold a write for ever")
	rule(c.ProbeInterval > 0, "the probe interval must be positive")
	rule(c.ProbeTimeout > 0, "the probe timeout must be positive")
	rule(c.BackoffMin > 0,
		"the shortest backoff must be positive: a broker that is down would be dialled without pause")
	rule(c.BackoffMax >= c.BackoffMin, "the longest backoff %s is below the shortest, %s", c.BackoffMax, c.BackoffMin)
	rule(c.GatherBytes >= 0, "the gather buffer cannot be negative; 0 turns gathering off")
	rule(c.AnswerPrefetch >= 1 && c.AnswerPrefetch <= 10_000,
		"the prefetch for answers must be from 1 to 10000: a node holds all these answers in memory")
	broken = append(broken, c.Intake.Validate()...)
	return errors.Join(broken...)
}
