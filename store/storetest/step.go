package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// testNodeSteps demands that steps read back as written, in order, and that a step of a node is written once.
func testNodeSteps(t *testing.T, f *fixture) {
	const second, minute = 5 * time.Second, time.Minute
	step := func(length time.Duration, begin clock.Instant, node, figures string) clock.NodeStep {
		return clock.NodeStep{Length: length, Begin: begin, Incarnation: node, Figures: figures}
	}
	long := clock.NodeStep{Length: second, Begin: t0 + 5000, Incarnation: strings.Repeat("N", 26),
		Figures: strings.Repeat("’", clock.MaxStepFigures/3)}
	a, b, c := step(second, t0, "A", ""), step(second, t0, "B", "{}"), step(minute, t0, "A", "[]")
	ok(t, f.AddSteps(t.Context(), []clock.NodeStep{long, b, c}), "add steps")
	ok(t, f.AddSteps(t.Context(), []clock.NodeStep{a, step(second, t0, "B", "other")}), "add steps, one of them again")
	ok(t, f.AddSteps(t.Context(), nil), "add no steps")
	read := func(length time.Duration, from clock.Instant, limit int) []clock.NodeStep {
		steps, err := f.Steps(t.Context(), length, from, limit)
		ok(t, err, "read steps")
		return steps
	}
	same(t, "steps", read(second, 0, 10), []clock.NodeStep{a, b, long})
	same(t, "minutes", read(minute, 0, 10), []clock.NodeStep{c})
	same(t, "the first steps", read(second, t0, 2), []clock.NodeStep{a, b})
	same(t, "later steps", read(second, t0+1, 10), []clock.NodeStep{long})
	ok(t, f.DeleteSteps(t.Context(), second, t0), "delete steps")
	same(t, "steps after the deletion of earlier ones", len(read(second, 0, 10)), 3)
	ok(t, f.DeleteSteps(t.Context(), second, t0+1), "delete steps")
	same(t, "steps after the deletion", read(second, 0, 10), []clock.NodeStep{long})
	same(t, "minutes after the deletion", read(minute, 0, 10), []clock.NodeStep{c})
}

// testRacingNodeSteps demands that nodes that add and delete steps at the same moment do not fail each other.
func testRacingNodeSteps(t *testing.T, f *fixture) {
	var nodes errgroup.Group
	const rounds, count = 10, 4
	for node := range count {
		nodes.Go(func() error {
			for round := range clock.Instant(rounds) {
				step := clock.NodeStep{Length: 5 * time.Second, Begin: t0 + 5000*round, Incarnation: fmt.Sprint(node)}
				if err := f.AddSteps(t.Context(), []clock.NodeStep{step}); err != nil {
					return err
				}
				if err := f.DeleteSteps(t.Context(), step.Length, t0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ok(t, nodes.Wait(), "add and delete steps")
	steps, err := f.Steps(t.Context(), 5*time.Second, 0, 100)
	ok(t, err, "read steps")
	same(t, "steps", len(steps), rounds*count)
}
