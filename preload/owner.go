package preload

// Ownership says which shards this node loads, and what of them it rings. Its answers change together.
type Ownership interface {
	// Shards returns the shards to be loaded, sorted and not to be changed.
	Shards() []int
	// Owned returns those of them that are this node's to look after: others may load a part of them, too.
	Owned() []int
	// Wanted reports whether this node rings the application's alarms of one of the shards.
	Wanted(shard int, application string) bool
	// Changed returns a channel that is closed when the others answer differently; ask anew each time.
	Changed() <-chan struct{}
}

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

// Owned returns what Shards does.
func (n AllShards) Owned() []int { return n.Shards() }

// Wanted returns true.
func (n AllShards) Wanted(int, string) bool { return true }

// Changed returns nil: it never changes.
func (n AllShards) Changed() <-chan struct{} { return nil }
