package rabbit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Config says which broker to ring through, and how.
type Config struct {
	// URL of the broker: amqp:// or amqps://, with the query parameters of RabbitMQ's URI specification except
	// connection_timeout, for which DialTimeout stands. It may hold a password and is never printed.
	URL string
	// Exchange that rings are published to; declared as durable and direct. Default clock.
	Exchange string
	// ConnectionName is what the broker lists our connections as. Default clockd.
	ConnectionName string
	// DeclareQueues names applications that get a durable quorum queue <exchange>.<application>, bound. Default none:
	// applications declare and bind their own.
	DeclareQueues []string

	// Heartbeat is what we ask of the broker; a heartbeat in the URL wins. From 1 s, default 10 s.
	Heartbeat time.Duration
	// DialTimeout bounds the whole way to an open connection: TCP, TLS and AMQP. A lane's dial ends at its write limit, if
	// that is earlier. Default 5 s.
	DialTimeout time.Duration
	// WriteTimeout bounds one write outside a delivery (handshake, heartbeat, probe). Default 5 s.
	WriteTimeout time.Duration
	// ProbeInterval is how often the control connection asks whether the broker still takes messages. Default 1 s.
	ProbeInterval time.Duration
	// ProbeTimeout is how long the broker may take to confirm a probe. Default 2 s.
	ProbeTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait before dialling again; it doubles, and is drawn from half to the
	// whole. Default 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// GatherBytes is how much of a delivery is collected before it is written; each lane holds a buffer of that size.
	// 0 writes every message by itself. Default 128 KiB.
	GatherBytes int
	// AnswerPrefetch is how many answers a node takes before it has settled them: a batch, at most. From 1 to 10000, default
	// 500.
	AnswerPrefetch int

	// ManagementURL of the broker's management API, like http://user:password@host:15672, for Findings. It may hold a
	// password and is never printed. Default none: it is not asked.
	ManagementURL string
}

// DefaultConfig returns the defaults, without a URL.
func DefaultConfig() Config {
	return Config{
		Exchange:       "clock",
		ConnectionName: "clockd",
		Heartbeat:      10 * time.Second,
		DialTimeout:    5 * time.Second,
		WriteTimeout:   5 * time.Second,
		ProbeInterval:  time.Second,
		ProbeTimeout:   2 * time.Second,
		BackoffMin:     100 * time.Millisecond,
		BackoffMax:     5 * time.Second,
		GatherBytes:    128 << 10,
		AnswerPrefetch: 500,
	}
}

// String names the broker and the exchange, without user and password.
func (c Config) String() string {
	uri, err := parseURL(c.URL)
	if err != nil {
		return "no valid URL, exchange " + c.Exchange
	}
	return address(uri) + ", exchange " + c.Exchange
}

// LogValue is String, so that no log handler prints the fields.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// maxExchange leaves room for ".answers" and ".<application>" in the 255 bytes of a short string.
const maxExchange = 127

// applicationName is what an application may be called (clockd's own rule).
var applicationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Validate returns every rule that the configuration breaks, joined, or nil. It never quotes the URL.
func (c Config) Validate() error {
	var broken []error
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("rabbit: "+format, args...))
		}
	}
	if _, err := parseURL(c.URL); err != nil {
		broken = append(broken, err)
	}
	if _, err := newManagement(c.ManagementURL, ""); err != nil {
		broken = append(broken, err)
	}
	rule(c.Exchange != "", "the exchange needs a name: an empty one is the broker's default exchange, which routes by queue name")
	rule(len(c.Exchange) <= maxExchange, "the exchange's name has %d bytes, at most %d are allowed", len(c.Exchange), maxExchange)
	for _, application := range c.DeclareQueues {
		rule(applicationName.MatchString(application), "%q is no application's name, so no queue can be declared for it", application)
	}
	rule(c.Heartbeat >= time.Second, "heartbeat %s is below 1s, the protocol's unit", c.Heartbeat)
	rule(c.DialTimeout > 0, "the dial timeout must be positive: a silent broker would hold a worker for ever")
	rule(c.WriteTimeout > 0, "the write timeout must be positive: a blocked broker would hold a write for ever")
	rule(c.ProbeInterval > 0, "the probe interval must be positive")
	rule(c.ProbeTimeout > 0, "the probe timeout must be positive")
	rule(c.BackoffMin > 0, "the shortest backoff must be positive: a broker that is down would be dialled without pause")
	rule(c.BackoffMax >= c.BackoffMin, "the longest backoff %s is below the shortest, %s", c.BackoffMax, c.BackoffMin)
	rule(c.GatherBytes >= 0, "the gather buffer cannot be negative; 0 turns gathering off")
	rule(c.AnswerPrefetch >= 1 && c.AnswerPrefetch <= 10_000, "the prefetch for answers must be from 1 to 10000: all of it is held in memory")
	return errors.Join(broken...)
}

// errURL says what a URL has to be like, without the one that is not.
var errURL = errors.New("rabbit: the AMQP URL is not valid: it must be like amqp://user:password@host:5672/vhost (or amqps://), " +
	"with reserved characters in user, password and vhost percent-encoded")

// parseURL returns the URL's parts. The library's error would quote the URL, and so the password; ours does not.
func parseURL(raw string) (amqp.URI, error) {
	if raw == "" {
		return amqp.URI{}, errors.New("rabbit: no AMQP URL is given")
	}
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return amqp.URI{}, errURL
	}
	// a password with a bare "#", "?" or "/" parses too, half of it as the port
	u, err := url.Parse(raw)
	if err != nil || u.Fragment != "" || strings.Contains(u.RawQuery+u.EscapedPath(), "@") {
		return amqp.URI{}, errURL
	}
	return uri, nil
}

// address names the broker without the user and the password.
func address(uri amqp.URI) string {
	return fmt.Sprintf("%s://%s:%d/%s", uri.Scheme, uri.Host, uri.Port, vhostPath(uri.Vhost))
}

func vhostPath(vhost string) string {
	if vhost == "/" {
		return ""
	}
	return vhost
}
