package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/oidc"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/grpc"
	"github.com/clockd/clockd/ring/kafka"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/webhook"
	"github.com/clockd/clockd/store"
)

// configError is an invalid configuration, with all its faults.
type configError struct{ reasons error }

// Error lists the faults, one on each line.
func (e *configError) Error() string {
	return "the configuration cannot be used:\n  - " + strings.ReplaceAll(e.reasons.Error(), "\n", "\n  - ")
}

// configFlag is the flag for the configuration file, and configVariable its variable.
const (
	configFlag     = "config"
	configVariable = "CLOCKD_CONFIG"
)

// databaseFlags select the database.
type databaseFlags struct {
	Config       string `env:"CLOCKD_CONFIG" placeholder:"FILE" help:"File of settings: lines of a flag's name, a colon and the value. Flags and variables override it."`
	DatabaseURL  string `env:"CLOCKD_DATABASE_URL" default:"sqlite:clockd.db" placeholder:"URL" help:"mysql://user:pass@host:3306/db (or mariadb://), postgres://user:pass@host:5432/db or sqlite:FILE."`
	DatabaseMode string `env:"CLOCKD_DATABASE_MODE" default:"server" enum:"server,distributed" help:"server or distributed. Distributed: the URL leads to the coordinator of Citus."`
	Shards       int    `env:"CLOCKD_SHARDS" default:"0" help:"Shard count of a new database (0: 64). The count of an existing database must be the same."`
}

// logFlags configure the log, which is written to standard error.
type logFlags struct {
	LogLevel  slog.Level `env:"CLOCKD_LOG_LEVEL" default:"info" values:"debug,info,warn,error" help:"debug, info, warn or error."`
	LogFormat string     `env:"CLOCKD_LOG_FORMAT" default:"text" enum:"text,json" help:"text or json."`
}

// formatJSON is the log format of one JSON object a line.
const formatJSON = "json"

// errorLogger returns the log for the error that ends the command, nil if the error is for a person at a terminal.
func (f logFlags) errorLogger() *slog.Logger {
	if f.LogFormat == formatJSON {
		return f.logger()
	}
	return nil
}

func (f logFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == formatJSON {
		return slog.New(slog.NewJSONHandler(stderr, options))
	}
	return slog.New(slog.NewTextHandler(stderr, options))
}

// serveFlags configure the service.
type serveFlags struct {
	databaseFlags
	logFlags
	kafkaFlags
	intakeFlags
	tracingFlags
	accessFlags
	tlsFlags
	keyFlags
	oidcFlags

	AMQPURL           string   `name:"amqp-url" env:"CLOCKD_AMQP_URL" placeholder:"URL" help:"amqp://user:pass@host:5672/vhost. Several hosts of one cluster: h1:5672,h2:5672. Without it rings go to the stream by default."`
	AMQPExchange      string   `name:"amqp-exchange" env:"CLOCKD_AMQP_EXCHANGE" default:"clock" help:"Direct exchange that rings are published to."`
	AMQPExchanges     []string `name:"amqp-exchanges" env:"CLOCKD_AMQP_EXCHANGES" placeholder:"NAME,..." help:"Further exchanges that the settings of applications may name. They must exist."`
	AMQPHeaders       string   `name:"amqp-headers" env:"CLOCKD_AMQP_HEADERS" default:"full" enum:"full,lean" help:"full or lean: headers of a ring. Lean rings have no header whose content is also in a property or in the routing key."`
	AMQPDeclareQueues []string `name:"amqp-declare-queues" env:"CLOCKD_AMQP_DECLARE_QUEUES" placeholder:"APP,..." help:"Applications to declare and bind a durable quorum queue EXCHANGE.APP for."`
	AMQPManagementURL string   `name:"amqp-management-url" env:"CLOCKD_AMQP_MANAGEMENT_URL" placeholder:"URL" help:"http://user:pass@host:15672 of the broker's management API. clockd asks it whether the bound queues are durable."`

	WebhookAllow           []string      `env:"CLOCKD_WEBHOOK_ALLOW" placeholder:"HOST,..." help:"Hosts and addresses that webhooks and calls of gRPC may reach although they are not public: hooks.internal, *.svc.internal, 10.0.0.0/8."`
	WebhookInFlight        int           `env:"CLOCKD_WEBHOOK_IN_FLIGHT" default:"1024" help:"Requests to webhooks under way at once, at most. Half of them are for requests whose reply is overdue."`
	WebhookHostConcurrency int           `env:"CLOCKD_WEBHOOK_HOST_CONCURRENCY" default:"128" help:"Requests to one host at once, at most. Half of them are for requests whose reply is overdue."`
	WebhookConnectTimeout  time.Duration `env:"CLOCKD_WEBHOOK_CONNECT_TIMEOUT" default:"5s" help:"Longest wait for a connection to a webhook, with its name and its handshake."`
	WebhookProxy           bool          `env:"CLOCKD_WEBHOOK_PROXY" help:"Send requests through the proxy that HTTPS_PROXY and NO_PROXY name. Then the proxy must refuse addresses that are not public."`

	Listen                string   `env:"CLOCKD_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on for HTTP."`
	MetricsListen         string   `env:"CLOCKD_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address of a further port for /metrics, /healthz, /readyz and /debug/pprof/. The first port has no /metrics then."`
	Hosts                 []string `env:"CLOCKD_HOSTS" placeholder:"NAME,..." help:"Host names that clients may use for this server, besides addresses and localhost."`
	Connections           int      `env:"CLOCKD_CONNECTIONS" default:"4096" help:"Open HTTP connections, at most; further connections are refused."`
	ConnectionsPerAddress int      `env:"CLOCKD_CONNECTIONS_PER_ADDRESS" default:"2048" help:"Open HTTP connections from one remote address, at most (0: no limit). All clients of a proxy share its address."`
	Node                  string   `env:"CLOCKD_NODE" placeholder:"NAME" help:"This node's name (default: host name and process id)."`

	RequireDurable bool `env:"CLOCKD_REQUIRE_DURABLE" help:"Refuse to start on a database whose settings may lose commits."`

	NoMigrate    bool          `env:"CLOCKD_NO_MIGRATE" help:"Do not bring the schema up to date at start."`
	StartTimeout time.Duration `env:"CLOCKD_START_TIMEOUT" default:"60s" help:"Longest wait at start for an unavailable database."`
	Retention    time.Duration `env:"CLOCKD_RETENTION" default:"24h" help:"How long finished alarms are kept."`
	AuditKeep    time.Duration `name:"audit-retention" env:"CLOCKD_AUDIT_RETENTION" default:"2160h" help:"How long the audit keeps the acts of people."`
	MaxPayload   int           `env:"CLOCKD_MAX_PAYLOAD" default:"65536" help:"Bytes of a payload, at most."`

	WriteLanes   int           `env:"CLOCKD_WRITE_LANES" default:"2" help:"Concurrent write transactions, at most."`
	RingWorkers  int           `env:"CLOCKD_RING_WORKERS" default:"3" help:"Batches of one target that ring at the same time, each with a database connection and a connection to the broker."`
	RingBatch    int           `env:"CLOCKD_RING_BATCH" help:"Alarms of a batch, at most; by default 300, on SQLite 500."`
	HeapEntries  int           `env:"CLOCKD_HEAP_ENTRIES" default:"100000" help:"Alarms in memory, at most."`
	PreloadAhead time.Duration `env:"CLOCKD_PRELOAD_WINDOW" default:"30s" help:"How far ahead alarms are loaded into memory."`

	CPUProfile string `name:"cpu-profile" env:"CLOCKD_CPU_PROFILE" placeholder:"DIR" help:"Write a CPU profile of the whole run to DIR/clockd-PID.pprof."`
}

// config is the validated configuration of all parts of the service.
type config struct {
	serveFlags
	service   clock.ServiceConfig
	http      clockhttp.Config
	ring      ring.Config
	preload   preload.Config
	retention store.RetentionConfig
	rabbit    rabbit.Config
	webhook   webhook.Config
	grpc      grpc.Config
	kafka     kafka.Config
	form      *settings.Form // of the settings of applications
	oidc      oidc.Config
}

// ringConns returns the number of database connections for rings.
func (c *config) ringConns() int {
	return ring.Connections(c.ring.Workers, c.routes()) + spareRingConns
}

// routes returns the number of routes.
func (c *config) routes() int {
	n := 0
	for i := range knownTargets {
		if knownTargets[i].isOpen(c) {
			n++
		}
	}
	return n
}

// usesBroker reports whether rings go to RabbitMQ.
func (c *config) usesBroker() bool { return c.AMQPURL != "" }

// newConfig makes the configuration of each part from the flags. It returns a *configError with all faults.
func newConfig(flags serveFlags) (*config, error) {
	cfg := &config{
		serveFlags: flags, service: clock.DefaultServiceConfig(), http: clockhttp.DefaultConfig(),
		ring:    ring.DefaultConfig(),
		preload: preload.DefaultConfig(), retention: store.DefaultRetentionConfig(), rabbit: rabbit.DefaultConfig(),
		webhook: webhook.DefaultConfig(),
	}
	if cfg.Node == "" {
		cfg.Node = defaultNode()
	}
	cfg.service.MaxPayload, cfg.service.Writer.Committers = flags.MaxPayload, flags.WriteLanes
	cfg.http.Listen, cfg.http.Hosts, cfg.http.Exchange = flags.Listen, flags.Hosts, flags.AMQPExchange
	cfg.http.TLS, cfg.http.MetricsListen = flags.files(), flags.MetricsListen
	cfg.http.Connections, cfg.http.ConnectionsPerAddress = flags.Connections, flags.ConnectionsPerAddress
	cfg.ring.Workers = flags.RingWorkers + cfg.routes() - 1 // each other route has a worker to itself
	cfg.ring.BatchRows = cmp.Or(flags.RingBatch, defaultRingBatch(flags.DatabaseURL))
	cfg.preload.Window = flags.PreloadAhead
	cfg.retention.Keep, cfg.retention.KeepActs = flags.Retention, flags.AuditKeep
	cfg.rabbit.URL, cfg.rabbit.Exchange, cfg.rabbit.DeclareQueues = flags.AMQPURL, flags.AMQPExchange, flags.AMQPDeclareQueues
	cfg.rabbit.Exchanges = flags.AMQPExchanges
	cfg.rabbit.ManagementURL, cfg.rabbit.Headers = flags.AMQPManagementURL, rabbit.Headers(flags.AMQPHeaders)
	cfg.rabbit.ConnectionName, cfg.rabbit.Intake = "clockd "+cfg.Node, flags.intakeConfig(flags.MaxPayload)
	cfg.webhook.Allow, cfg.webhook.InFlight, cfg.webhook.HostConcurrency = flags.WebhookAllow, flags.WebhookInFlight, flags.WebhookHostConcurrency
	cfg.webhook.ConnectTimeout, cfg.webhook.EnvironmentProxy = flags.WebhookConnectTimeout, flags.WebhookProxy
	cfg.webhook.UserAgent = "clockd/" + version
	cfg.grpc.Config = cfg.webhook.Config // the same limits, and the same allowed hosts
	var kafkaErr, keyErr, oidcErr error
	cfg.kafka, kafkaErr = flags.kafkaConfig()
	cfg.form, keyErr = flags.form()
	cfg.oidc, oidcErr = flags.provider()
	if err := cfg.check(kafkaErr, keyErr, oidcErr); err != nil {
		return nil, err
	}
	return cfg, nil
}

// defaultRingBatch returns the default of the most alarms in a batch. SQLite has a larger default, because it writes one batch at a
// time, and each of a batch's two commits writes the same pages of the indexes again.
func defaultRingBatch(databaseURL string) int {
	if strings.HasPrefix(databaseURL, "sqlite:") {
		return 500
	}
	return ring.DefaultConfig().BatchRows
}

// check returns all faults of the configuration as a *configError. kafkaErr is the error of the
// files that the options of Kafka name, keyErr the error of the keys of secrets, and oidcErr the error of the groups.
func (c *config) check(kafkaErr, keyErr, oidcErr error) error {
	errs := []error{
		kafkaErr, keyErr, oidcErr,
		checkDatabase(c.databaseFlags, c.ringConns()), c.service.Validate(), c.http.Validate(), c.http.TLS.Validate(), c.ring.Validate(),
		c.preload.Validate(),
		c.retention.Validate(), c.webhook.Validate(), c.tracingFlags.faults(),
	}
	switch {
	case c.usesBroker():
		errs = append(errs, c.rabbit.Validate())
	case len(c.AMQPExchanges) > 0:
		errs = append(errs, errors.New("further exchanges are named, but no AMQP URL is given"))
	case len(c.AMQPDeclareQueues) > 0:
		errs = append(errs, errors.New("queues to declare are named, but no AMQP URL is given"))
	case c.AMQPManagementURL != "":
		errs = append(errs, errors.New("a management URL is given, but no AMQP URL"))
	case c.intakeFlags.named():
		errs = append(errs, errors.New("an intake of delayed messages is named, but no AMQP URL is given"))
	}
	if c.usesKafka() && kafkaErr == nil {
		errs = append(errs, c.kafka.Validate())
	} else if !c.usesKafka() && kafkaErr == nil && c.kafkaFlags.named() {
		errs = append(errs, errors.New("options of Kafka are given, but no Kafka brokers"))
	}
	if least := c.RingWorkers * c.ring.BatchRows; c.HeapEntries < least || c.HeapEntries > maxHeapEntries {
		errs = append(errs,
			fmt.Errorf("heap entries must be from %d (ring workers x ring batch) to %d", least, maxHeapEntries))
	}
	if oidcErr == nil {
		errs = append(errs, c.oidc.Validate())
	}
	errs = append(errs, lease.ValidateNodeName(c.Node))
	if c.TokenRate < 0 {
		errs = append(errs, errors.New("token rate must not be negative (0: no limit)"))
	}
	if c.SessionLifetime < time.Second {
		errs = append(errs, errors.New("session lifetime must be at least 1s"))
	}
	if c.StartTimeout < 0 {
		errs = append(errs, errors.New("start timeout must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return &configError{reasons: err}
	}
	return nil
}

// maxHeapEntries is the most heap entries. They take about half a gigabyte.
const maxHeapEntries = 5_000_000

func defaultNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = "clockd"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// shownURL returns a database URL without password and parameters. If it cannot separate the parts of the URL, it shows none of it.
func shownURL(raw string) string {
	if strings.HasPrefix(raw, "sqlite:") {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" || u.Fragment != "" || strings.Contains(u.Path, "@") {
		return "(URL not shown)"
	}
	user := ""
	if name := u.User.Username(); name != "" {
		user = url.PathEscape(name) + "@"
	}
	return u.Scheme + "://" + user + u.Host + u.EscapedPath()
}
