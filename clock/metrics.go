package clock

import "time"

// Metrics receives the domain's measurements. The zero value drops them.
type Metrics struct {
	// Write is called once for each write transaction, with the number of its ops, its duration and its error.
	Write func(ops int, took time.Duration, err error)
	// Op is called once for each valid op, with its verdict, the time since its submission and its error.
	Op func(op Op, verdict Verdict, took time.Duration, err error)
	// Occurrences is called for each decision that has ended occurrences of a repeating alarm.
	Occurrences func(OccurrenceCounts)
	// Dropped is called once for each op that is refused before it is written. Op is called for it too, with Refuse.
	Dropped func(reason DropReason)
}
