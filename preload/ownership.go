package preload

// Ownership says which shards this node loads, and which alarms of them it rings. All its results change at the same moment.
type Ownership interface {
	// Shards returns the shards that this node loads, sorted. The caller must not change the slice.
	Shards() []int
	// Owned returns the subset of Shards that this node owns. Other nodes may ring some applications of these shards.
	Owned() []int
	// Rings reports whether this node rings the application's alarms of a shard in Shards.
	Rings(shard int, application string) bool
	// Gained returns the shards and applications that this node has to read because it rings them since the last call, both sorted.
	// All rows of these shards are to be read, and all rows of these applications in every loaded shard. In a shard that is new in
	// Shards but not returned here, other nodes ring the other applications.
	Gained() (shards []int, applications []string)
	// Changed returns a channel that is closed when Shards, Owned or Rings changes. Each change closes another channel.
	Changed() <-chan struct{}
}

// AllShards is the Ownership of a single node: the shards 0 to AllShards-1, which never change.
type AllShards int

// Shards returns 0 to n-1.
func (n AllShards) Shards() []int {
	shards := make([]int, n)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// Owned returns all shards.
func (n AllShards) Owned() []int { return n.Shards() }

// Rings returns true.
func (n AllShards) Rings(int, string) bool { return true }

// Gained returns nothing: the shards never change, and loaders read all rows when they start.
func (n AllShards) Gained() (shards []int, applications []string) { return nil, nil }

// Changed returns nil: the shards never change.
func (n AllShards) Changed() <-chan struct{} { return nil }
