package clock

import "time"

// Limits that several packages keep. Limits of one field are beside the field's type.
const (
	// DefaultShards is the shard count of a new database if its configuration names none.
	DefaultShards = 64
	// MaxShards is the largest shard count that fits the column shard.
	MaxShards = 1 << 15
	// MaxStoredPayload is the longest payload that clockd reads, in bytes. No configuration allows longer payloads.
	MaxStoredPayload = 8 << 20
	// MaxNodeName is the longest name of a node, in bytes. The columns for the name are as long.
	MaxNodeName = 128
	// IdleInTransaction is how long a database waits for the next statement of an open transaction before it rolls the
	// transaction back. A held claim must be settled before that. A server waits as long for a client that does not
	// read.
	IdleInTransaction = 5 * time.Second
	// DatabaseCall is the default time limit of a database call whose context has no deadline.
	DatabaseCall = 5 * time.Second
	// ClaimTimeout is the default time after which a two-phase claim ends.
	ClaimTimeout = 10 * time.Second
	// AwaitTimeout is the time after which an awaited ring is due again, unless its node postpones that time.
	AwaitTimeout = 5 * time.Second
)
