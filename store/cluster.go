package store

import (
	"context"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Node is a process that shares the work, as it last said of itself. Text is UTF-8 without NUL.
type Node struct {
	Incarnation  string // of this process alone, 1 to 26 bytes of ASCII
	Name         string // given by a person, at most 128 characters; two processes may have the same
	Address      string // where its HTTP listens, for people; at most 255 characters
	Version      string // at most 64 characters
	Started      clock.Instant
	Expires      clock.Instant // it is taken for dead from then on
	Applications []string      // with a subscriber of their stream there; sorted, nil where rings go to a broker
}

// Alive reports whether the node lives at now.
func (n *Node) Alive(now clock.Instant) bool { return n.Expires > now }

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
	Nodes  []Node  // by incarnation, also those that expired and that no Attend has forgotten yet
	Leases []Lease // one a shard, by shard
}

// Leaser keeps who is there and who has which shard. All times are the caller's lower bound of the database's clock, so
// that nothing is taken before it expired. Each method is one transaction; definite rollbacks are replayed. After
// ErrUnconfirmed the caller does not know: all of them may be called again.
type Leaser interface {
	// Cluster reads everything, as of one moment; nothing is locked or written.
	Cluster(ctx context.Context) (Cluster, error)
	// Attend writes the node's row as given (Started only when the row is new), lets all leases of its incarnation, expired
	// ones too, last until n.Expires, and deletes nodes that expired before forget (exclusive). It takes nothing back that
	// somebody else has taken.
	Attend(ctx context.Context, n Node, forget clock.Instant) error
	// Take gives n those of the shards that are free, or expired at now (Expires <= now, whoever had them), with the next
	// epoch and until n.Expires, and returns which, sorted. Of two that take one shard at once one gets it. Shards whose row
	// is locked at that moment are passed over, and numbers that are no shard.
	Take(ctx context.Context, n Node, now clock.Instant, shards []int) ([]int, error)
	// Yield frees those of the shards that the incarnation has, expired or not; their epochs stay.
	Yield(ctx context.Context, incarnation string, shards []int) error
	// Leave frees all of its shards and deletes its row. An incarnation that nobody knows is no error.
	Leave(ctx context.Context, incarnation string) error
}

// ClusterRow is a node (Shard -1, Owner its name) or a lease (only the first five columns), as the generated code of every
// engine reads them in one statement: the engines' row types convert to it.
type ClusterRow struct {
	Shard        int64
	Incarnation  string
	Owner        string
	Epoch        int64
	Expires      int64
	Address      string
	Version      string
	Started      int64
	Applications string
}

// Add puts a row in its place; rows come in the order of Shard, Incarnation.
func (c *Cluster) Add(r ClusterRow) {
	if r.Shard >= 0 {
		c.Leases = append(c.Leases, Lease{
			Shard: int(r.Shard), Owner: r.Owner, Incarnation: r.Incarnation, Epoch: r.Epoch, Expires: clock.Instant(r.Expires),
		})
		return
	}
	n := Node{
		Incarnation: r.Incarnation, Name: r.Owner, Address: r.Address, Version: r.Version,
		Started: clock.Instant(r.Started), Expires: clock.Instant(r.Expires),
	}
	if r.Applications != "" {
		n.Applications = strings.Split(r.Applications, "\n")
	}
	c.Nodes = append(c.Nodes, n)
}

// ApplicationLines returns the node's applications as the column applications holds them.
func (n *Node) ApplicationLines() string { return strings.Join(n.Applications, "\n") }

// Notifier passes short messages between the nodes on one database, where the engine can: a Store that can is one too. They
// may be lost, and of two that are the same one may come.
type Notifier interface {
	// Notify sends the bodies, each at most MaxNotice bytes of UTF-8 without NUL: all or none.
	Notify(ctx context.Context, bodies []string) error
	// Listen calls ready once, when it hears, and heard with each body that any node sent since, its own included and in
	// the order of sending, until ctx ends (nil) or the connection fails (an error; the caller listens again). Both are called
	// from the caller's goroutine; heard must not block for long.
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
