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
const stageTimeout = 20 * time.Minute

var errStageTimeout = fmt.Errorf("a stage took more than %s", stageTimeout)

// Run measures what the configuration asks for. With an error the report has what was found until then. All that was made for
// it is removed.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r := &run{cfg: cfg, progress: newProgress(cfg.Progress)}
	r.report = Report{
		Version: cfg.Version, Started: time.Now().UTC(), Host: thisHost(), Load: [2]string{loadAverage()},
		Plan: Plan{Sets: cfg.Sets, Singles: cfg.Singles, Herd: cfg.Herd, Rounds: cfg.Rounds, Rate: cfg.Rate, Seconds: cfg.For.Seconds(), Pending: cfg.Pending},
	}
	err := r.stages(ctx)
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	r.report.Load[1] = loadAverage()
	return &r.report, err
}

func (r *run) stages(ctx context.Context) error {
	stages := map[string]func(context.Context, *bed) error{
		stageSets: r.sets, stageSingles: r.singles, stageHerd: r.herd, stageLateness: r.lateness, stagePending: r.pending,
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

// stage runs one stage in a bed of its own.
func (r *run) stage(ctx context.Context, measure func(context.Context, *bed) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stageTimeout, errStageTimeout)
	defer cancel()
	b, err := r.makeBed(ctx)
	if err != nil {
		return err
	}
	err = measure(ctx, b)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // what else failed then did for that reason
	}
	return errors.Join(err, b.close(ctx))
}

// addRings adds what became of a stage's rings; where some are missing, what the service said is told.
func (r *run) addRings(b *bed, stage string, rings Rings) {
	rings.Stage = stage
	r.report.Rings = append(r.report.Rings, rings)
	if rings.Lost > 0 {
		r.progress.say("%s: %d of %d rings are lost; the end of clockd's log:\n%s", stage, rings.Lost, rings.Expected, b.child.log)
	}
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
