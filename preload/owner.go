package preload

// AllShards is the Ownership of a node that is alone: all shards, for ever.
type AllShards int

// Shards returns 0 to n-1.
func (n AllShards) Shards() []int {
	shards := make([]int, n)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// Changed returns nil: it never changes.
func (n AllShards) Changed() <-chan struct{} { return nil }
