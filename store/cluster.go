package store

import (
	"context"

	"github.com/clockd/clockd/clock"
)

// Node is a process that shares the work, as it last said of itself.
type Node struct {
	Incarnation  string // of this process alone
	Name         string // given by a person; two processes may have the same
	Address      string // where its HTTP listens, for people
	Version      string
	Started      clock.Instant
	Expires      clock.Instant // it is taken for dead from then on
	Applications []string      // with a subscriber of their stream there; sorted, nil where rings go to a broker
}

// Lease is who has a shard. One that nobody has is empty but for Shard and Epoch.
type Lease struct {
	Shard       int
	Owner       string // the node's name, for people
	Incarnation string
	Epoch       int64         // grows by one each time the shard is taken
	Expires     clock.Instant // from then on anybody may take it
}

// Cluster is all nodes and leases at one moment.
type Cluster struct {
	Nodes  []Node  // by incarnation, also those that expired less than NodeMemory ago
	Leases []Lease // one a shard, by shard
}

// Leaser keeps who is there and who has which shard. All times are the caller's lower bound of the database's clock, so
// that nothing is taken before it expired. Each method is one transaction; definite rollbacks are replayed.
type Leaser interface {
	// Cluster reads everything; nothing is locked or written.
	Cluster(ctx context.Context) (Cluster, error)
	// Attend writes the node's row as given (Started only when the row is new), lets all leases of its incarnation, expired
	// ones too, last until n.Expires, and deletes nodes that expired before forget.
	Attend(ctx context.Context, n Node, forget clock.Instant) error
	// Take gives n those of the shards that are free or expired at now, with the next epoch and until n.Expires, and returns
	// which, sorted.
	Take(ctx context.Context, n Node, now clock.Instant, shards []int) ([]int, error)
	// Yield frees those of the shards that the incarnation has.
	Yield(ctx context.Context, incarnation string, shards []int) error
	// Leave frees all of its shards and deletes its row.
	Leave(ctx context.Context, incarnation string) error
}

// Notifier passes short messages between the nodes on one database, where the engine can. They may be lost.
type Notifier interface {
	// Notify sends the bodies, each at most MaxNotice bytes of UTF-8.
	Notify(ctx context.Context, bodies []string) error
	// Listen calls ready when it hears, and heard with each body that any node sent since, its own included, until
	// ctx ends (nil) or the connection fails. heard must not block for long.
	Listen(ctx context.Context, ready func(), heard func(body string)) error
}

// MaxNotice is the longest body of a Notifier, in bytes: PostgreSQL takes less than 8000.
const MaxNotice = 7900

// Finding is one thing that the database says of how safe its commits are.
type Finding struct {
	Name   string // stable: innodb_flush_log_at_trx_commit, synchronous_commit, ...
	Value  string // as the server gave it
	Safe   bool
	Detail string // a sentence for a person: what is lost when, or why it is safe
}

// Auditor asks the database how durable its commits are.
type Auditor interface {
	// Durability returns what was found, in a fixed order.
	Durability(ctx context.Context) ([]Finding, error)
}
