package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// testNodeSteps demands that steps read back as last written, in order.
func testNodeSteps(t *testing.T, f *fixture) {
	const second, minute = 5 * time.Second, time.Minute
	step := func(length time.Duration, begin clock.Instant, node, figures string) clock.NodeStep {
		return clock.NodeStep{Length: length, Begin: begin, Incarnation: node, Figures: figures}
	}
	long := clock.NodeStep{Length: second, Begin: t0 + 5000, Incarnation: strings.Repeat("N", 26),
		Figures: strings.Repeat("’", clock.MaxStepFigures/3)}
	a, b, c := step(second, t0, "A", ""), step(second, t0, "B", "{}"), step(minute, t0, "A", "[]")
	ok(t, f.AddSteps(t.Context(), []clock.NodeStep{long, step(second, t0, "B", "other"), c}), "add steps")
	ok(t, f.AddSteps(t.Context(), []clock.NodeStep{a, b, a}), "add steps, also again")
	ok(t, f.AddSteps(t.Context(), nil), "add no steps")
	read := func(length time.Duration, from clock.Instant, limit int) []clock.NodeStep {
		steps, err := f.Steps(t.Context(), clock.StepsQuery{Length: length, From: from, Until: t0 + 9000, Limit: limit})
		ok(t, err, "read steps")
		return steps
	}
	same(t, "steps", read(second, 0, 10), []clock.NodeStep{a, b, long})
	same(t, "minutes", read(minute, 0, 10), []clock.NodeStep{c})
	same(t, "the first steps", read(second, t0, 2), []clock.NodeStep{a, b})
	same(t, "later steps", read(second, t0+1, 10), []clock.NodeStep{long})
	f.exec("INSERT INTO node_step (step_seconds, begun_at, incarnation, figures) VALUES (5, %d, 'C', '%s')", t0,
		strings.Repeat("x", clock.MaxStepFigures+1))
	same(t, "steps without one that is too long", read(second, t0, 10), []clock.NodeStep{a, b, long})
	f.exec("DELETE FROM node_step WHERE incarnation = 'C'")
	steps, err := f.Steps(t.Context(), clock.StepsQuery{Length: second, From: t0, Until: t0 + 5000, Limit: 9})
	ok(t, err, "read steps")
	same(t, "earlier steps", steps, []clock.NodeStep{a, b})
	for _, c := range []struct {
		before        clock.Instant
		limit, delete int
		left          []clock.NodeStep
	}{
		{t0, 9, 0, []clock.NodeStep{a, b, long}},
		{t0 + 9000, 1, 1, []clock.NodeStep{b, long}},
		{t0 + 1, 9, 1, []clock.NodeStep{long}},
	} {
		n, err := f.DeleteSteps(t.Context(), second, c.before, c.limit)
		ok(t, err, "delete steps")
		same(t, "deleted steps", n, c.delete)
		same(t, "steps after the deletion", read(second, 0, 10), c.left)
	}
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
				if _, err := f.DeleteSteps(t.Context(), step.Length, t0, 9); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ok(t, nodes.Wait(), "add and delete steps")
	steps, err := f.Steps(t.Context(), clock.StepsQuery{Length: 5 * time.Second, Until: t0 + 5000*rounds, Limit: 100})
	ok(t, err, "read steps")
	same(t, "steps", len(steps), rounds*count)
}
