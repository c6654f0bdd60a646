package engine

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Steps reads and writes the table node_step.
type Steps interface {
	// AddSteps adds the rows in one transaction. It replaces rows that exist.
	AddSteps(ctx context.Context, rows []StepRow) error
	// ReadSteps returns the rows that the query asks for, in the order of their begin.
	ReadSteps(ctx context.Context, q *clock.StepsQuery) ([]StepRow, error)
	// DeleteSteps deletes the oldest rows that began before the instant, at most limit, and returns how many.
	DeleteSteps(ctx context.Context, seconds int64, before clock.Instant, limit int) (int, error)
}

// StepRow is a row of the table node_step. The row types of each engine's generated code convert to it.
type StepRow struct {
	StepSeconds int64
	BegunAt     int64
	Incarnation string
	Figures     string
}

func stepRow(s *clock.NodeStep) StepRow {
	return StepRow{
		StepSeconds: InSeconds(s.Length), BegunAt: int64(s.Begin), Incarnation: s.Incarnation, Figures: s.Figures,
	}
}

func (r *StepRow) step() clock.NodeStep {
	return clock.NodeStep{
		Length: time.Duration(r.StepSeconds) * time.Second, Begin: clock.Instant(r.BegunAt), Incarnation: r.Incarnation,
		Figures: r.Figures,
	}
}

// InSeconds returns the length of a step as the table has it.
func InSeconds(length time.Duration) int64 { return int64(length / time.Second) }

var _ store.NodeSteps = (*Store)(nil)

// AddSteps adds or replaces steps.
func (s *Store) AddSteps(ctx context.Context, steps []clock.NodeStep) error {
	return s.replayed(ctx, "add steps", func(ctx context.Context) error {
		return s.driver.AddSteps(ctx, Column(steps, stepRow))
	})
}

// Steps reads steps of all nodes, the oldest first. It needs no place for a list, because a node reads them once a
// second at most.
func (s *Store) Steps(ctx context.Context, q clock.StepsQuery) (steps []clock.NodeStep, err error) {
	err = s.call(ctx, "read steps", func(ctx context.Context) error {
		rows, err := s.driver.ReadSteps(ctx, &q)
		steps = Column(rows, (*StepRow).step)
		return err
	})
	return steps, err
}

// DeleteSteps deletes the oldest steps that began before the instant.
func (s *Store) DeleteSteps(
	ctx context.Context, length time.Duration, before clock.Instant, limit int,
) (deleted int, err error) {
	err = s.replayed(ctx, "delete steps", func(ctx context.Context) (err error) {
		deleted, err = s.driver.DeleteSteps(ctx, InSeconds(length), before, min(limit, maxPurge))
		return err
	})
	return deleted, err
}
