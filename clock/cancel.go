package clock

// Cancel asks that an alarm does not ring.
type Cancel struct {
	Key
	If    Condition // AnyRow or AtGeneration
	Brief bool      // the caller reads only key, id, shard, state and generation of the alarm: a store may leave out the rest
}
