package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run is one bench under way.
type run struct {
	cfg      Config
	progress *progress
	report   Report
}

// stageTimeout ends a stage that hangs.
const stageTimeout = 30 * time.Minute

var errStageTimeout = fmt.Errorf("a stage took more than %s", stageTimeout)

// Run measures what the configuration asks for. With an error the report has what was found until then. All that was made for
// it is removed.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := &run{cfg: cfg, progress: newProgress(cfg.Progress)}
	r.report = Report{
		Version: cfg.Version, Started: time.Now().UTC(), Host: thisHost(), Load: [2]string{loadAverage()},
		Target: "stream",
		Plan: Plan{
			Sets: cfg.Sets, Singles: cfg.Singles, Herd: cfg.Herd, Rounds: cfg.Rounds, Rate: cfg.Rate, Seconds: cfg.For.Seconds(),
			Crowd: cfg.Crowd, Pending: cfg.Pending, Overdue: cfg.Overdue,
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
		stageSets: r.inBed(r.sets), stageSingles: r.inBed(r.singles), stageHerd: r.inBed(r.herd), stageStream: r.onStream(r.stream),
		stageLateness: r.inBed(r.lateness), stageMemory: r.inBed(r.memory), stagePending: r.inBed(r.pending),
		stageCost: r.inCountedBed(r.cost), stageNodes: r.nodes,
		stageDistribution: r.inBed(r.distribution),
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

// inBed returns a stage that is measured in one bed, on the broker where there is one.
func (r *run) inBed(measure func(context.Context, *bed) error) func(context.Context) error {
	return inBedOf(r.makeBed, measure)
}

// onStream returns a stage that is measured in one bed, without a broker.
func (r *run) onStream(measure func(context.Context, *bed) error) func(context.Context) error {
	return inBedOf(func(ctx context.Context) (*bed, error) { return r.makeBedOn(ctx, "") }, measure)
}

// inCountedBed returns a stage that is measured in one bed with wires.
func (r *run) inCountedBed(measure func(context.Context, *bed) error) func(context.Context) error {
	return inBedOf(r.makeCountedBed, measure)
}

func inBedOf(makeBed func(context.Context) (*bed, error), measure func(context.Context, *bed) error) func(context.Context) error {
	return func(ctx context.Context) error {
		b, err := makeBed(ctx)
		if err != nil {
			return err
		}
		err = measure(ctx, b)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // what else failed then did for that reason
		}
		return errors.Join(err, b.close(ctx))
	}
}

// addRings adds what became of a stage's rings; where some are missing, what the service said is told.
func (r *run) addRings(b *bed, stage string, rings Rings) {
	rings.Stage = stage
	r.report.Rings = append(r.report.Rings, rings)
	if rings.Lost > 0 {
		r.progress.say("%s: %d of %d rings are lost; the end of clockd's log:\n%s", stage, rings.Lost, rings.Expected, b.child.log)
	}
}

// addCosts adds what was counted.
func (r *run) addCosts(costs ...Cost) {
	r.report.Costs = append(r.report.Costs, costs...)
}

// add adds figures; small ones, of Quick, are not judged.
func (r *run) add(stage string, figures ...Figure) {
	for _, f := range figures {
		f.Stage = stage
		if r.cfg.quick {
			f.Target, f.Verdict = "", ""
		}
		r.report.Figures = append(r.report.Figures, f)
		r.progress.say("%s: %s%s", f.What, number(f.Value, f.Unit), f.aside())
	}
}

// aside returns the ceiling in words, for the progress.
func (f Figure) aside() string {
	if f.Ceiling == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s, ratio %s)", f.CeilingWhat, f.ceiling(), f.ratio())
}
