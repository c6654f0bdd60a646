package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Queue types.
const (
	Quorum  = "quorum"
	Classic = "classic"
)

// The stages, in the order in which they run.
const (
	stageSets     = "sets"
	stageSingles  = "singles"
	stageHerd     = "herd"
	stageStream   = "stream"
	stageLateness = "lateness"
	stageMemory   = "memory"
	stagePending  = "pending"
	stageCost     = "cost"
	stageNodes    = "nodes"
	stageIntake   = "intake"
	stageWebhook  = "webhook"
	stageGRPC     = "grpc"
	stagePull     = "pull"
	stageKafka    = "kafka"

	stageDistribution = "distribution" // runs only when it is named, because it takes long
	stageOverload     = "overload"     // runs only when it is named, because it takes the machine from others
)

// Stages returns the names of all stages, in the order in which they run.
func Stages() []string {
	return []string{stageSets, stageSingles, stageHerd, stageStream, stageLateness, stageMemory, stagePending,
		stageCost, stageNodes, stageIntake, stageWebhook, stageGRPC, stagePull, stageKafka,
		stageDistribution, stageOverload}
}

// brokerStages are the stages that need a broker.
var brokerStages = []string{stageStream, stageNodes, stageIntake}

// Config says which stages to run, with how many alarms, and on which servers.
type Config struct {
	DatabaseURL string // mysql://, postgres:// or sqlite:; the bench makes databases of its own on this server, or beside this file
	AMQPURL     string // URL with one host; empty: rings go to the stream
	Queue       string // Quorum or Classic; default Quorum
	// KafkaBrokers are brokers of Kafka, as host:port, separated by commas; empty: Kafka is not measured.
	KafkaBrokers string

	Sets        int           // alarms set and cancelled in bulk, over all rounds; default 200,000
	Singles     int           // alarms set and cancelled with one request each; default 40,000
	Herd        int           // alarms due at one instant; default 200,000
	Rate        int           // alarms per second in the lateness stage; default 500
	For         time.Duration // duration of the lateness stage; default 20s
	Crowd       int           // alarms due at one instant in the memory stage; default 1,000,000
	Pending     int           // alarms far in the future; default 10,000,000
	Definitions bool          // these ring each day, by a cron expression in a time zone; default: each rings once
	Overdue     int           // alarms that came due while no clockd ran; default 100,000
	Rounds      int           // rounds of sets, singles and herd, figure and ceiling in turn; the median counts; default 3
	Only        []string      // stages to run; empty: all except the distribution

	DistributionPending []int // numbers of pending alarms among which bursts ring, ascending; default 10,000, 1,000,000 and 10,000,000

	Executable string    // path of the measured clockd
	Baseline   string    // path of the clockbench whose command http runs clockd's HTTP server without a store
	Version    string    // version of the measured clockd, shown in the report
	Progress   io.Writer // receives progress lines; nil: no progress

	ahead time.Duration // time between set and due time while others ring
	// settle is the interval at which the bench checks whether the database has settled; 0: it does not wait.
	settle       time.Duration
	idle         time.Duration // duration of the measurement of an idle node
	few          int           // number of pending alarms in the comparison with many
	bursts       []int         // sizes of the bursts, each due within one second
	busyPerCore  int           // busy threads on each core in the overload stage
	floodFor     time.Duration // duration of the flood of single sets in the overload stage
	silence      time.Duration // time for which the broker falls silent in the overload stage
	slowFor      time.Duration // time for which the broker's confirms are late in the overload stage
	slowLeast    time.Duration // least time by which they are late
	slowMost     time.Duration // most time by which they are late
	singleAlarms int           // number of single alarms, due one after the other
	quick        bool          // figures get no verdicts
}

// DefaultConfig returns a Config with the default of each field.
func DefaultConfig() Config {
	return Config{
		Queue: Quorum, Sets: 200_000, Singles: 40_000, Herd: 200_000, Rate: 500, For: 20 * time.Second,
		Crowd: 1_000_000, Pending: 10_000_000,
		Overdue: 100_000, Rounds: 3, ahead: 3 * time.Second, settle: 20 * time.Second, idle: 20 * time.Second,
		few:                 10_000,
		DistributionPending: []int{10_000, 1_000_000, 10_000_000}, bursts: []int{10_000, 100_000}, singleAlarms: 200,
		busyPerCore: 6, floodFor: time.Minute, silence: 10 * time.Second, slowFor: time.Minute,
		slowLeast: 3 * time.Second, slowMost: 10 * time.Second,
	}
}

// Quick makes all numbers small: enough to see that everything works, but not how fast.
func (c *Config) Quick() {
	c.quick, c.ahead, c.settle, c.idle, c.Rounds = true, time.Second, 0, time.Second, 1
	c.Sets, c.Singles, c.Herd, c.Rate, c.For, c.Crowd, c.Pending, c.Overdue, c.few = 2_000, 300, 2_000, 600, time.Second, 4_000, 5_000, 500, 500
	c.DistributionPending, c.bursts, c.singleAlarms, c.busyPerCore = []int{2_000, 4_000}, []int{1_000}, 10, 1
	c.floodFor, c.silence, c.slowFor, c.slowLeast = time.Second, 3*time.Second, 4*time.Second, 2500*time.Millisecond
	c.slowMost = c.slowLeast + time.Second/2
}

// Validate returns every broken rule of the configuration, joined, or nil.
func (c *Config) Validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{{"sets", c.Sets}, {"singles", c.Singles}, {"herd", c.Herd}, {"rate", c.Rate}, {"crowd", c.Crowd}, {"pending", c.Pending}, {"overdue", c.Overdue}} {
		if n.value < 1 || n.value > maxSeries {
			errs = append(errs, fmt.Errorf("%s must be from 1 to %d", n.name, maxSeries))
		}
	}
	if !rising(c.DistributionPending) {
		errs = append(errs,
			fmt.Errorf("the pending alarms of the distribution must be ascending numbers from 1 to %d", maxSeries))
	}
	if c.Rounds < 1 || c.Rounds > 100 {
		errs = append(errs, errors.New("rounds must be from 1 to 100"))
	}
	if c.For < time.Second || c.For > time.Hour {
		errs = append(errs, errors.New("the time of the lateness must be from 1s to 1h"))
	}
	if c.Queue != Quorum && c.Queue != Classic {
		errs = append(errs, errors.New("the queue must be quorum or classic"))
	}
	if namesSeveralHosts(c.AMQPURL) { // without quoting the URL, which may contain a password
		errs = append(errs, errors.New("the broker's URL names several hosts; the bench measures one: name one host"))
	}
	for _, name := range c.Only {
		if !slices.Contains(Stages(), name) {
			errs = append(errs, fmt.Errorf("%q is not a stage; the stages are %s", name, strings.Join(Stages(), ", ")))
		}
	}
	if slices.Contains(c.Only, stageIntake) && c.AMQPURL == "" {
		errs = append(errs, errors.New("the stage intake takes messages from RabbitMQ: give the broker's URL"))
	}
	if slices.Contains(c.Only, stageKafka) && c.KafkaBrokers == "" {
		errs = append(errs, errors.New("the stage kafka needs Kafka: give its brokers"))
	}
	if c.Executable == "" || c.Baseline == "" {
		errs = append(errs, errors.New("the path of the measured clockd or of clockbench is empty"))
	}
	return errors.Join(errs...)
}

// namesSeveralHosts reports whether the URL has a list of hosts, which clockd accepts.
func namesSeveralHosts(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.Contains(rest[strings.LastIndex(rest, "@")+1:], ",")
}

// rising reports whether there are numbers, all from 1 to maxSeries and in strictly ascending order.
func rising(numbers []int) bool {
	last := 0
	for _, n := range numbers {
		if n <= last || n > maxSeries {
			return false
		}
		last = n
	}
	return last > 0
}

// runs reports whether a stage runs. Without a broker the herd already rings over the stream, so the stream stage does
// not run; the nodes stage does not run, because one node would have all subscribers; and there is no intake.
// Distribution and overload must be named.
func (c *Config) runs(stage string) bool {
	if len(c.Only) == 0 {
		return stage != stageDistribution && stage != stageOverload &&
			(!slices.Contains(brokerStages, stage) || c.AMQPURL != "") && (stage != stageKafka || c.KafkaBrokers != "")
	}
	return slices.Contains(c.Only, stage)
}

// The concurrency and batch sizes, equal for a figure and its ceiling.
const (
	bulkRows      = 500 // rows of one bulk request, and of one statement of its ceiling
	bulkWriters   = 4   // connections that set in bulk, and writers of their ceiling
	singleConns   = 64  // connections that send single requests
	ringWorkers   = 3   // workers of the bare loop: clockd's default
	ringRows      = 300 // rows of one batch of the bare loop: clockd's default
	streamReaders = 2   // subscribers of the stream
)
