package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/clockd/clockd/cmd/clockbench/internal/bench"
)

// benchCommand measures a clockd.
type benchCommand struct {
	Clockd      string `type:"path" placeholder:"FILE" help:"The clockd to measure (default: the file clockd beside clockbench)."`
	DatabaseURL string `env:"CLOCKD_DATABASE_URL" default:"sqlite:clockd.db" placeholder:"URL" help:"Server to measure on; a database of its own is made there (SQLite: a file beside that one) and dropped."`
	AMQPURL     string `name:"amqp-url" env:"CLOCKD_AMQP_URL" placeholder:"URL" help:"Broker to measure on, with an exchange and queues of its own. Without it the stream is measured."`
	Kafka       string `name:"kafka-brokers" env:"CLOCKD_KAFKA_BROKERS" placeholder:"HOST:PORT,..." help:"Brokers of Kafka to measure on, with topics of its own."`
	Queue       string `enum:"quorum,classic" default:"quorum" help:"Type of the queue that rings are consumed from: quorum or classic."`

	Sets        int           `default:"200000" placeholder:"N" help:"Alarms to set and cancel in bulk (${default})."`
	Singles     int           `default:"40000" placeholder:"N" help:"Alarms to set and cancel one a request (${default})."`
	Herd        int           `default:"200000" placeholder:"N" help:"Alarms due at one instant (${default})."`
	Rate        int           `default:"500" placeholder:"N" help:"Alarms a second whose lateness is measured (${default})."`
	For         time.Duration `default:"20s" help:"How long their lateness is measured (${default})."`
	Crowd       int           `default:"1000000" placeholder:"N" help:"Alarms due at one instant while memory is watched (${default})."`
	Pending     int           `default:"10000000" placeholder:"N" help:"Alarms far in the future beside which the rest is measured (${default})."`
	Definitions bool          `help:"The alarms far in the future ring each day, by a cron expression in a time zone."`
	Overdue     int           `default:"100000" placeholder:"N" help:"Alarms that come due while no clockd runs (${default})."`
	Rounds      int           `default:"3" placeholder:"N" help:"Rounds of sets and herd, figure and ceiling by turns; the median counts (${default})."`
	Only        []string      `placeholder:"NAME,..." help:"Measure these alone: sets, singles, herd, stream (the herd without the broker), lateness, memory, pending, cost, nodes, intake (delayed messages), webhook, grpc, pull, kafka (rings that go there), and two that are measured only when they are named: distribution, overload (herds while others take all cores and sync files, twice the possible load, a slow broker, a killed node)."`
	Quick       bool          `help:"Small figures: to see that all works, not how fast."`
	JSON        string        `name:"json" type:"path" placeholder:"FILE" help:"Write all that was found there (- for standard output, in place of the table)."`

	DistributionPending []int    `default:"10000,1000000,10000000" placeholder:"N,..." help:"Alarms far in the future among which the bursts of the distribution ring, by turns (${default})."`
	Plot                string   `type:"path" placeholder:"FILE" help:"Draw the distribution there, as SVG."`
	Against             string   `type:"path" placeholder:"FILE" help:"Compare with an earlier run, whose JSON is there."`
	From                []string `type:"path" placeholder:"FILE,..." help:"Measure nothing: plot these runs, or compare this one, whose JSON is there."`
}

// Run measures, prints, and fails when a ring was lost, early or wrong.
func (b *benchCommand) Run() error {
	if len(b.From) > 0 {
		return b.runFrom()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg, err := b.config(ctx)
	if err != nil {
		return err
	}
	var before *bench.Report
	if b.Against != "" {
		if before, err = bench.ReadReport(b.Against); err != nil {
			return err
		}
	}
	report, failed := bench.Run(ctx, cfg)
	failed = errors.Join(failed, b.write(report))
	if before != nil {
		failed = errors.Join(failed, bench.Compare(b.table(), before, report))
	}
	if b.Plot != "" {
		failed = errors.Join(failed, b.plot(report))
	}
	return errors.Join(failed, report.Bad())
}

// runFrom plots and compares earlier measurements.
func (b *benchCommand) runFrom() error {
	if b.Plot == "" && b.Against == "" {
		return errors.New("--from needs --plot or --against: nothing is measured")
	}
	if b.Against != "" && len(b.From) > 1 {
		return errors.New("--against compares one run: --from must name one file")
	}
	var reports []*bench.Report
	for _, path := range b.From {
		r, err := bench.ReadReport(path)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if b.Against != "" {
		before, err := bench.ReadReport(b.Against)
		if err != nil {
			return err
		}
		if err := bench.Compare(os.Stdout, before, reports[0]); err != nil {
			return err
		}
	}
	if b.Plot == "" {
		return nil
	}
	return b.plot(reports...)
}

// plot draws the distributions of the reports into the file.
func (b *benchCommand) plot(reports ...*bench.Report) error {
	var svg bytes.Buffer
	if err := bench.Plot(&svg, reports...); err != nil {
		return err
	}
	return os.WriteFile(b.Plot, svg.Bytes(), 0o644) //nolint:gosec // a picture is no secret
}

// table returns where tables are printed: beside the JSON where that has the standard output.
func (b *benchCommand) table() io.Writer {
	if b.JSON == "-" {
		return os.Stderr
	}
	return os.Stdout
}

func (b *benchCommand) config(ctx context.Context) (bench.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Config{}, fmt.Errorf("find the executable of clockbench: %w", err)
	}
	clockd := cmp.Or(b.Clockd, filepath.Join(filepath.Dir(self), "clockd"))
	version, err := versionOf(ctx, clockd)
	if err != nil {
		return bench.Config{}, &usageError{fmt.Errorf("--clockd: %w", err)}
	}
	cfg := bench.DefaultConfig()
	cfg.DatabaseURL, cfg.AMQPURL, cfg.Queue = b.DatabaseURL, b.AMQPURL, b.Queue
	cfg.KafkaBrokers = b.Kafka
	cfg.Sets, cfg.Singles, cfg.Herd, cfg.Crowd, cfg.Pending, cfg.Overdue = b.Sets, b.Singles, b.Herd, b.Crowd, b.Pending, b.Overdue
	cfg.Rate, cfg.For, cfg.Rounds, cfg.Only = b.Rate, b.For, b.Rounds, b.Only
	cfg.Definitions, cfg.DistributionPending = b.Definitions, b.DistributionPending
	cfg.Executable, cfg.Baseline, cfg.Version, cfg.Progress = clockd, self, version, os.Stderr
	if b.Quick {
		cfg.Quick()
	}
	err = cfg.Validate()
	if b.Plot != "" && !slices.Contains(b.Only, "distribution") {
		err = errors.Join(err, errors.New("--plot draws what is measured with --only distribution, or was: --from"))
	}
	if err != nil {
		return cfg, &usageError{err}
	}
	return cfg, nil
}

// versionOf returns the version and the commit of an executable of clockd, as it tells them itself.
func versionOf(ctx context.Context, executable string) (string, error) {
	out, err := exec.CommandContext(ctx, executable, "version").Output() //nolint:gosec // the executable that is measured
	if err != nil {
		return "", fmt.Errorf("%s version: %w", executable, err)
	}
	version, ours := strings.CutPrefix(string(out), "clockd ")
	version, _, _ = strings.Cut(version, " go1")
	if !ours || version == "" {
		return "", fmt.Errorf("%s is no clockd: it says %.80q", executable, out)
	}
	return version, nil
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
