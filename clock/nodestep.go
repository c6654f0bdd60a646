package clock

import "time"

// NodeStep is what a node did in one step of time, as a store keeps it. A store does not look into the figures.
type NodeStep struct {
	Length      time.Duration // whole seconds
	Begin       Instant
	Incarnation string // of the node, at most 26 bytes of ASCII
	Figures     string // JSON of package stats, at most MaxStepFigures
}

// StepsQuery asks for steps of nodes.
type StepsQuery struct {
	Length time.Duration
	From   Instant // steps that began then or later
	Until  Instant // and before this instant
	Limit  int
}

// MaxStepFigures is the most bytes of the figures of a step.
const MaxStepFigures = 60_000
