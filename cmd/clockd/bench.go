package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/clockd/clockd/cmd/clockd/internal/bench"
)

// benchCommand measures this executable.
type benchCommand struct {
	DatabaseURL string `env:"CLOCKD_DATABASE_URL" default:"sqlite:clockd.db" placeholder:"URL" help:"Server to measure on; a database of its own is made there (SQLite: a file beside that one) and dropped."`
	AMQPURL     string `name:"amqp-url" env:"CLOCKD_AMQP_URL" placeholder:"URL" help:"Broker to measure on, with an exchange and queues of its own. Without it the stream is measured."`
	Queue       string `enum:"quorum,classic" default:"quorum" help:"Type of the queue that rings are consumed from: quorum or classic."`

	Sets    int           `default:"200000" placeholder:"N" help:"Alarms to set and cancel in bulk (${default})."`
	Singles int           `default:"40000" placeholder:"N" help:"Alarms to set and cancel one a request (${default})."`
	Herd    int           `default:"100000" placeholder:"N" help:"Alarms due at one instant (${default})."`
	Rate    int           `default:"500" placeholder:"N" help:"Alarms a second whose lateness is measured (${default})."`
	For     time.Duration `default:"20s" help:"How long their lateness is measured (${default})."`
	Pending int           `default:"1000000" placeholder:"N" help:"Alarms far in the future whose memory is measured (${default})."`
	Rounds  int           `default:"3" placeholder:"N" help:"Rounds of sets and herd, figure and ceiling by turns; the median counts (${default})."`
	Only    []string      `placeholder:"NAME,..." help:"Measure these alone: sets, singles, herd, lateness, pending."`
	Quick   bool          `help:"Small figures: to see that all works, not how fast."`
	JSON    string        `name:"json" type:"path" placeholder:"FILE" help:"Write all that was found there (- for standard output, in place of the table)."`
}

// Run measures, prints, and fails when a ring was lost, early or wrong.
func (b *benchCommand) Run() error {
	cfg, err := b.config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	report, failed := bench.Run(ctx, cfg)
	if err := b.write(report); err != nil {
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, report.Bad())
}

func (b *benchCommand) config() (bench.Config, error) {
	executable, err := os.Executable()
	if err != nil {
		return bench.Config{}, fmt.Errorf("find our own executable: %w", err)
	}
	cfg := bench.DefaultConfig()
	cfg.DatabaseURL, cfg.AMQPURL, cfg.Queue = b.DatabaseURL, b.AMQPURL, b.Queue
	cfg.Sets, cfg.Singles, cfg.Herd, cfg.Pending = b.Sets, b.Singles, b.Herd, b.Pending
	cfg.Rate, cfg.For, cfg.Rounds, cfg.Only = b.Rate, b.For, b.Rounds, b.Only
	cfg.Executable, cfg.Version, cfg.Progress = executable, version+commit(), os.Stderr
	if b.Quick {
		cfg.Quick()
	}
	if err := cfg.Validate(); err != nil {
		return cfg, &configError{reasons: err}
	}
	return cfg, nil
}

// write prints the table, and writes the JSON where it is wanted.
func (b *benchCommand) write(report *bench.Report) error {
	if b.JSON != "-" {
		if err := report.Write(os.Stdout); err != nil {
			return err
		}
	}
	if b.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if b.JSON == "-" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(b.JSON, text, 0o644) //nolint:gosec // a report is no secret
}
