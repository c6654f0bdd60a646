package engine

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Steps reads and writes the table node_step.
type Steps interface {
	// AddSteps adds the rows in one transaction. A row that exists stays as it is.
	AddSteps(ctx context.Context, rows []StepRow) error
	// ReadSteps returns at most limit rows that began at from or later, in the order of their begin.
	ReadSteps(ctx context.Context, seconds int64, from clock.Instant, limit int) ([]StepRow, error)
	// DeleteSteps deletes the rows that began before the instant.
	DeleteSteps(ctx context.Context, seconds int64, before clock.Instant) error
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
		StepSeconds: inSeconds(s.Length), BegunAt: int64(s.Begin), Incarnation: s.Incarnation, Figures: s.Figures,
	}
}

func (r *StepRow) step() clock.NodeStep {
	return clock.NodeStep{
		Length: time.Duration(r.StepSeconds) * time.Second, Begin: clock.Instant(r.BegunAt), Incarnation: r.Incarnation,
		Figures: r.Figures,
	}
}

func inSeconds(length time.Duration) int64 { return int64(length / time.Second) }

var _ store.NodeSteps = (*Store)(nil)

// AddSteps adds the steps that the table does not have.
func (s *Store) AddSteps(ctx context.Context, steps []clock.NodeStep) error {
	return s.replayed(ctx, "add steps", func(ctx context.Context) error {
		return s.driver.AddSteps(ctx, Column(steps, stepRow))
	})
}

// Steps reads steps of all nodes, the oldest first.
func (s *Store) Steps(
	ctx context.Context, length time.Duration, from clock.Instant, limit int,
) (steps []clock.NodeStep, err error) {
	err = s.read(ctx, "read steps", func(ctx context.Context) error {
		rows, err := s.driver.ReadSteps(ctx, inSeconds(length), from, limit)
		steps = Column(rows, (*StepRow).step)
		return err
	})
	return steps, err
}

// DeleteSteps deletes the steps that began before the instant.
func (s *Store) DeleteSteps(ctx context.Context, length time.Duration, before clock.Instant) error {
	return s.replayed(ctx, "delete steps", func(ctx context.Context) error {
		return s.driver.DeleteSteps(ctx, inSeconds(length), before)
	})
}
