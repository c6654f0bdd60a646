package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// AddSteps adds the rows, one by one (AddStep).
func (d *Driver) AddSteps(ctx context.Context, rows []engine.StepRow) error {
	return engine.InTx(ctx, d.begin, func(t *writeTx) error {
		for _, row := range rows {
			if err := d.q.AddStep(ctx, t, dbsqlc.AddStepParams(row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadSteps reads rows of all nodes (ListSteps).
func (d *Driver) ReadSteps(ctx context.Context, q *clock.StepsQuery) ([]engine.StepRow, error) {
	rows, err := d.q.ListSteps(ctx, d.reads, dbsqlc.ListStepsParams{
		StepSeconds: engine.InSeconds(q.Length), BegunFrom: int64(q.From), BegunUntil: int64(q.Until),
		RowLimit: int64(q.Limit),
	})
	return engine.Column(rows, func(r *dbsqlc.NodeStep) engine.StepRow { return engine.StepRow(*r) }), err
}

// DeleteSteps deletes old rows (DeleteSteps).
func (d *Driver) DeleteSteps(
	ctx context.Context, seconds int64, before clock.Instant, limit int,
) (deleted int, err error) {
	err = engine.InTx(ctx, d.begin, func(t *writeTx) error {
		n, err := d.q.DeleteSteps(ctx, t,
			dbsqlc.DeleteStepsParams{StepSeconds: seconds, BegunBefore: int64(before), RowLimit: int64(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}
