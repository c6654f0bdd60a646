package clock

// Kick asks that a dead or expired alarm is scheduled again, due at once.
type Kick struct {
	Key
	If Condition // AnyRow or AtGeneration
}

// Discard asks that a dead or expired alarm is cancelled, because it shall not ring again.
type Discard struct {
	Key
	If Condition // AnyRow or AtGeneration
}
