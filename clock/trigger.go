package clock

// Trigger asks that an alarm rings once, now.
type Trigger struct {
	Key
	If Condition // AnyRow or AtGeneration
}
