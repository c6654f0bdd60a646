package preload

import "github.com/clockd/clockd/store"

// Owner says which shards this node owns.
type Owner interface {
	// Owned returns the shards whose lease this node has, sorted. Other nodes may ring some applications of these
	// shards. The caller must not change the slice.
	Owned() []int
}

// Ownership says which shards this node loads, and which alarms of them it rings. All its results change at the same
// moment.
type Ownership interface {
	Owner
	// Shards returns the shards that this node loads, sorted. They include the owned shards. The caller must not change
	// the slice.
	Shards() []int
	// Rings reports whether this node rings the addressee's alarms of a shard in Shards.
	Rings(shard int, to store.Addressee) bool
	// Gained returns the shards and applications that this node has to read because it rings them since the last call,
	// both sorted. All rows of these shards are to be read, and all rows of these applications in every loaded shard,
	// except alarms of destinations: their rings go to no clients, so the owner of a shard rings them. In a
	// shard that is new in Shards but not returned here, other nodes ring the other applications.
	Gained() (shards []int, applications []string)
	// Changed returns a channel that is closed when Shards, Owned or Rings changes. Each change closes another channel.
	Changed() <-chan struct{}
}
