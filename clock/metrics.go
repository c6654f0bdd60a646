package clock

import "time"

// Metrics takes the domain's measurements; the zero value drops them.
type Metrics struct {
	// Write is called once a write transaction: how many ops it held, how long it took, and its error.
	Write func(ops int, took time.Duration, err error)
	// Op is called once an op that was valid, with what became of it and how long it took from submission.
	Op func(op Op, verdict Verdict, took time.Duration, err error)
}
