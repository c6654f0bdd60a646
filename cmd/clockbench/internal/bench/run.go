package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run is a running bench.
type run struct {
	cfg      Config
	progress *progress
	report   Report
}

// stageTimeout is the longest time that a stage may take.
const stageTimeout = 30 * time.Minute

var errStageTimeout = fmt.Errorf("a stage took more than %s", stageTimeout)

// Run runs the stages of the configuration and returns their report. With an error the report holds the results so far.
// Run removes everything that it has made.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := &run{cfg: cfg, progress: newProgress(cfg.Progress)}
	r.report = Report{
		Version: cfg.Version, Started: time.Now().UTC(), Host: thisHost(), Load: [2]string{loadAverage()},
		Target: "stream",
		Plan: Plan{
			Sets: cfg.Sets, Singles: cfg.Singles, Herd: cfg.Herd, Rounds: cfg.Rounds, Rate: cfg.Rate,
			Seconds: cfg.For.Seconds(),
			Crowd:   cfg.Crowd, Pending: cfg.Pending, Overdue: cfg.Overdue,
		},
	}
	if cfg.runs(stageDistribution) {
		r.report.Plan.DistributionPending = cfg.DistributionPending
	}
	err := r.stages(ctx)
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	r.report.Load[1] = loadAverage()
	return &r.report, err
}

func (r *run) stages(ctx context.Context) error {
	stages := map[string]func(context.Context) error{
		stageSets: r.inTestbed(r.sets), stageSingles: r.inTestbed(r.singles), stageHerd: r.inTestbed(r.herd),
		stageStream:   r.onStream(r.stream),
		stageLateness: r.inTestbed(r.lateness), stageMemory: r.inTestbed(r.memory),
		stagePending: r.inTestbed(r.pending),
		stageCost:    r.inCountedTestbed(r.cost), stageNodes: r.nodes,
		stageIntake:       inTestbedOf(r.makeIntakeTestbed, r.intake),
		stageWebhook:      r.onServer(stageWebhook, newWebhooks),
		stageGRPC:         r.onServer(stageGRPC, newCalls),
		stagePull:         r.pull,
		stageKafka:        r.onServer(stageKafka, newTopic),
		stageDistribution: r.inTestbed(r.distribution), stageOverload: r.overload,
	}
	for _, name := range Stages() {
		if !r.cfg.runs(name) {
			continue
		}
		if err := r.stage(ctx, stages[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// stage runs one stage.
func (r *run) stage(ctx context.Context, measure func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stageTimeout, errStageTimeout)
	defer cancel()
	return measure(ctx)
}

// inTestbed returns a stage that runs in one testbed. Its rings go to the broker if there is one.
func (r *run) inTestbed(measure func(context.Context, *testbed) error) func(context.Context) error {
	return inTestbedOf(r.makeTestbed, measure)
}

// onStream returns a stage that runs in one testbed without a broker.
func (r *run) onStream(measure func(context.Context, *testbed) error) func(context.Context) error {
	return inTestbedOf(func(ctx context.Context) (*testbed, error) { return r.makeTestbedOn(ctx, "") }, measure)
}

// inCountedTestbed returns a stage that runs in one testbed with counting proxies.
func (r *run) inCountedTestbed(measure func(context.Context, *testbed) error) func(context.Context) error {
	return inTestbedOf(r.makeCountedTestbed, measure)
}

func inTestbedOf(
	makeTestbed func(context.Context) (*testbed, error), measure func(context.Context, *testbed) error,
) func(context.Context) error {
	return func(ctx context.Context) error {
		b, err := makeTestbed(ctx)
		if err != nil {
			return err
		}
		err = measure(ctx, b)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // the end of ctx caused the other errors
		}
		return errors.Join(err, b.close(ctx))
	}
}

// addRings adds the counts of a stage's rings to the report. If rings are lost, it prints the end of the service's log.
func (r *run) addRings(b *testbed, stage string, rings Rings) {
	rings.Stage = stage
	r.report.Rings = append(r.report.Rings, rings)
	if rings.Lost > 0 {
		r.progress.say("%s: %d of %d rings are lost; the end of clockd's log:\n%s", stage, rings.Lost, rings.Expected,
			b.child.log)
	}
}

// addCosts adds costs to the report.
func (r *run) addCosts(costs ...Cost) {
	r.report.Costs = append(r.report.Costs, costs...)
}

// add adds figures to the report and prints them. The small figures of Quick lose their verdicts.
func (r *run) add(stage string, figures ...Figure) {
	for _, f := range figures {
		f.Stage = stage
		if r.cfg.quick {
			f.Target, f.Verdict = "", ""
		}
		r.report.Figures = append(r.report.Figures, f)
		r.progress.say("%s: %s%s", f.What, number(f.Value, f.Unit), f.ceilingText())
	}
}

// ceilingText describes the ceiling for the progress line; "" without a ceiling.
func (f Figure) ceilingText() string {
	if f.Ceiling == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s, ratio %s)", f.CeilingWhat, f.ceiling(), f.ratio())
}
