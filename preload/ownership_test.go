package preload

import "github.com/clockd/clockd/store"

// allShards is the Ownership of a single node: the shards 0 to allShards-1, which never change.
type allShards int

// Shards returns 0 to n-1.
func (n allShards) Shards() []int {
	shards := make([]int, n)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// Owned returns all shards.
func (n allShards) Owned() []int { return n.Shards() }

// Rings returns true.
func (n allShards) Rings(int, store.Addressee) bool { return true }

// Gained returns nothing: the shards never change, and loaders read all rows when they start.
func (n allShards) Gained() (shards []int, applications []string) { return nil, nil }

// Changed returns nil: the shards never change.
func (n allShards) Changed() <-chan struct{} { return nil }
