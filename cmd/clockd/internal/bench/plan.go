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

	stageDistribution = "distribution" // only where it is named: it takes long
)

// Stages returns the names of what can be measured.
func Stages() []string {
	return []string{stageSets, stageSingles, stageHerd, stageStream, stageLateness, stageMemory, stagePending, stageCost, stageNodes, stageDistribution}
}

// Config says what to measure, and where.
type Config struct {
	DatabaseURL string // mysql://, postgres:// or sqlite:; a database of our own is made beside the one it names
	AMQPURL     string // empty: rings go to the stream
	Queue       string // Quorum or Classic; default Quorum

	Sets    int           // alarms set and cancelled in bulk, over all rounds; default 200,000
	Singles int           // alarms set and cancelled one a request; default 40,000
	Herd    int           // alarms due at one instant; default 200,000
	Rate    int           // alarms a second of the lateness; default 500
	For     time.Duration // how long; default 20s
	Crowd   int           // alarms due at one instant while memory is watched; default 1,000,000
	Pending int           // alarms far in the future; default 10,000,000
	Overdue int           // alarms that came due while no clockd ran; default 100,000
	Rounds  int           // of sets and herd, figure and ceiling by turns; the median counts; default 3
	Only    []string      // stages to run; empty: all but the distribution

	DistributionPending []int // alarms far in the future among which bursts ring, by turns; default 10,000, 1,000,000 and 10,000,000

	Executable string    // the clockd to measure
	Version    string    // of it, for the report
	Progress   io.Writer // nil: none

	ahead time.Duration // how far ahead alarms are set while others ring
	// settle is how long the database is left to itself after the pending alarms were set, and again until it has settled.
	settle time.Duration
	idle   time.Duration // how long nothing is asked of the service and nothing is due
	few    int           // pending alarms that the memory with many is compared with
	bursts []int         // alarms due within one second
	singly int           // alarms that are due one after the other
	quick  bool          // figures are not judged
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{
		Queue: Quorum, Sets: 200_000, Singles: 40_000, Herd: 200_000, Rate: 500, For: 20 * time.Second, Crowd: 1_000_000, Pending: 10_000_000,
		Overdue: 100_000, Rounds: 3, ahead: 3 * time.Second, settle: 20 * time.Second, idle: 20 * time.Second, few: 10_000,
		DistributionPending: []int{10_000, 1_000_000, 10_000_000}, bursts: []int{10_000, 100_000}, singly: 200,
	}
}

// Quick makes the figures small: enough to see that all works, not how fast.
func (c *Config) Quick() {
	c.quick, c.ahead, c.settle, c.idle, c.Rounds = true, time.Second, 0, time.Second, 1
	c.Sets, c.Singles, c.Herd, c.Rate, c.For, c.Crowd, c.Pending, c.Overdue, c.few = 2_000, 300, 2_000, 600, time.Second, 4_000, 5_000, 500, 500
	c.DistributionPending, c.bursts, c.singly = []int{2_000, 4_000}, []int{1_000}, 10
}

// Validate returns all reasons against the configuration, joined, or nil.
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
		errs = append(errs, fmt.Errorf("the pending alarms of the distribution must be rising numbers from 1 to %d", maxSeries))
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
	for _, name := range c.Only {
		if !slices.Contains(Stages(), name) {
			errs = append(errs, fmt.Errorf("%q is not measured; there is %s", name, strings.Join(Stages(), ", ")))
		}
	}
	if c.Executable == "" {
		errs = append(errs, errors.New("no clockd to measure is given"))
	}
	return errors.Join(errs...)
}

// rising tells whether numbers from 1 to maxSeries are given, each larger than the one before.
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

// runs says whether a stage is measured. Without a broker the herd is on the stream anyway, and nodes do not share evenly what
// one of them has the subscribers of; the distribution has to be named.
func (c *Config) runs(stage string) bool {
	if len(c.Only) == 0 {
		return stage != stageDistribution && (stage != stageStream && stage != stageNodes || c.AMQPURL != "")
	}
	return slices.Contains(c.Only, stage)
}

// What is done at once, on either side of a ratio.
const (
	bulkRows      = 500 // rows a bulk request, and a statement of its ceiling
	bulkWriters   = 4   // connections that set in bulk, and writers of the ceiling
	singleConns   = 64  // connections that send single requests
	ringWorkers   = 3   // of the bare loop: as many as clockd has by default
	ringRows      = 300 // a batch of the bare loop: as many as clockd takes by default
	streamReaders = 2   // subscribers of the stream
)
