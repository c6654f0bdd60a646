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
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/store"
)

// configError is a configuration that cannot be used, with all that is wrong with it.
type configError struct{ reasons error }

// Error lists the reasons, a line each.
func (e *configError) Error() string {
	return "the configuration cannot be used:\n  - " + strings.ReplaceAll(e.reasons.Error(), "\n", "\n  - ")
}

// databaseFlags say which database to use.
type databaseFlags struct {
	DatabaseURL string `env:"CLOCKD_DATABASE_URL" default:"sqlite:clockd.db" placeholder:"URL" help:"mysql://user:pass@host:3306/db, postgres://user:pass@host:5432/db or sqlite:FILE."`
	Shards      int    `env:"CLOCKD_SHARDS" default:"0" help:"Shard count of a new database (0: 64). An existing one must agree."`
}

// logFlags say what is logged, to standard error.
type logFlags struct {
	LogLevel  slog.Level `env:"CLOCKD_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string     `env:"CLOCKD_LOG_FORMAT" default:"text" enum:"text,json" help:"text or json."`
}

func (f logFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// serveFlags configure the service.
type serveFlags struct {
	databaseFlags
	logFlags

	AMQPURL           string   `name:"amqp-url" env:"CLOCKD_AMQP_URL" placeholder:"URL" help:"amqp://user:pass@host:5672/vhost. Without it rings go to the stream."`
	AMQPExchange      string   `name:"amqp-exchange" env:"CLOCKD_AMQP_EXCHANGE" default:"clock" help:"Direct exchange that rings are published to."`
	AMQPDeclareQueues []string `name:"amqp-declare-queues" env:"CLOCKD_AMQP_DECLARE_QUEUES" placeholder:"APP,..." help:"Applications to declare and bind a durable quorum queue EXCHANGE.APP for."`
	AMQPManagementURL string   `name:"amqp-management-url" env:"CLOCKD_AMQP_MANAGEMENT_URL" placeholder:"URL" help:"http://user:pass@host:15672 of the broker's management API, to be asked how safe the bound queues are."`

	Listen string `env:"CLOCKD_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on for HTTP."`
	Node   string `env:"CLOCKD_NODE" placeholder:"NAME" help:"This node's name (default: host name and process id)."`

	RequireDurable bool `env:"CLOCKD_REQUIRE_DURABLE" help:"Refuse to start on a database that is set up so that commits may be lost."`

	NoMigrate    bool          `env:"CLOCKD_NO_MIGRATE" help:"Do not bring the schema up to date at start."`
	StartTimeout time.Duration `env:"CLOCKD_START_TIMEOUT" default:"60s" help:"How long to wait at start for a database that does not answer."`
	Retention    time.Duration `env:"CLOCKD_RETENTION" default:"24h" help:"How long alarms that are over are kept."`
	MaxPayload   int           `env:"CLOCKD_MAX_PAYLOAD" default:"65536" help:"Bytes a payload, at most."`

	WriteLanes   int           `env:"CLOCKD_WRITE_LANES" default:"2" help:"Write transactions at once."`
	RingWorkers  int           `env:"CLOCKD_RING_WORKERS" default:"3" help:"Batches rung at once, each with a database connection and a channel to the broker."`
	RingBatch    int           `env:"CLOCKD_RING_BATCH" help:"Alarms a batch, at most; by default 300, on SQLite 500."`
	HeapEntries  int           `env:"CLOCKD_HEAP_ENTRIES" default:"100000" help:"Alarms held in memory, at most."`
	PreloadAhead time.Duration `env:"CLOCKD_PRELOAD_WINDOW" default:"30s" help:"How far ahead alarms are loaded into memory."`

	CPUProfile string `name:"cpu-profile" env:"CLOCKD_CPU_PROFILE" placeholder:"DIR" help:"Write where processor time goes to DIR/clockd-PID.pprof, until the process stops."`
}

// config is all that the service is made of, checked.
type config struct {
	serveFlags
	service   clock.ServiceConfig
	http      clockhttp.Config
	ring      ring.Config
	preload   preload.Config
	retention store.RetentionConfig
	rabbit    rabbit.Config
}

// usesBroker reports whether rings go to RabbitMQ.
func (c *config) usesBroker() bool { return c.AMQPURL != "" }

// newConfig spreads the flags over the parts and returns a *configError with everything that is wrong.
func newConfig(f serveFlags) (*config, error) {
	c := &config{
		serveFlags: f, service: clock.DefaultServiceConfig(), http: clockhttp.DefaultConfig(), ring: ring.DefaultConfig(),
		preload: preload.DefaultConfig(), retention: store.DefaultRetentionConfig(), rabbit: rabbit.DefaultConfig(),
	}
	if c.Node == "" {
		c.Node = defaultNode()
	}
	c.service.MaxPayload, c.service.Writer.Lanes = f.MaxPayload, f.WriteLanes
	c.http.Listen, c.http.Exchange = f.Listen, f.AMQPExchange
	c.ring.Workers, c.ring.BatchRows = f.RingWorkers, cmp.Or(f.RingBatch, defaultRingBatch(f.DatabaseURL))
	c.preload.Window = f.PreloadAhead
	c.retention.Keep = f.Retention
	c.rabbit.URL, c.rabbit.Exchange, c.rabbit.DeclareQueues = f.AMQPURL, f.AMQPExchange, f.AMQPDeclareQueues
	c.rabbit.ManagementURL = f.AMQPManagementURL
	c.rabbit.ConnectionName = "clockd " + c.Node
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// defaultRingBatch returns how many alarms a batch has at most where nothing is said. On SQLite more: one batch at a time is
// written there, and each of its two commits writes the same pages of the indexes once more.
func defaultRingBatch(databaseURL string) int {
	if strings.HasPrefix(databaseURL, "sqlite:") {
		return 500
	}
	return ring.DefaultConfig().BatchRows
}

func (c *config) check() error {
	errs := []error{
		checkDatabase(c.databaseFlags, c.RingWorkers), c.service.Validate(), c.http.Validate(), c.ring.Validate(), c.preload.Validate(),
		c.retention.Validate(),
	}
	switch {
	case c.usesBroker():
		errs = append(errs, c.rabbit.Validate())
	case len(c.AMQPDeclareQueues) > 0:
		errs = append(errs, errors.New("queues to declare are named, but no AMQP URL is given"))
	case c.AMQPManagementURL != "":
		errs = append(errs, errors.New("a management URL is given, but no AMQP URL"))
	}
	if least := c.RingWorkers * c.ring.BatchRows; c.HeapEntries < least || c.HeapEntries > maxHeapEntries {
		errs = append(errs, fmt.Errorf("heap entries must be from %d (ring workers x ring batch) to %d", least, maxHeapEntries))
	}
	if c.StartTimeout < 0 {
		errs = append(errs, errors.New("start timeout must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return &configError{reasons: err}
	}
	return nil
}

// maxHeapEntries is about half a gigabyte.
const maxHeapEntries = 5_000_000

func defaultNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = "clockd"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// withoutPassword returns a URL as it may be shown.
func withoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	if _, secret := u.User.Password(); secret {
		u.User = url.UserPassword(u.User.Username(), "***")
	}
	u.RawQuery = ""
	return strings.Replace(u.String(), "%2A%2A%2A", "***", 1)
}
