package clock

// Pause asks that an alarm does not ring until it is resumed.
type Pause struct {
	Key
	If Condition // AnyRow or AtGeneration
	By string    // who asks, of an op without an Actor; may be empty
}

// Resume asks that a paused alarm is scheduled again.
type Resume struct {
	Key
	If Condition // AnyRow or AtGeneration
}
