package store

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
)

// Node is a clockd process that shares the work, as it last described itself. Texts are UTF-8 without NUL.
type Node struct {
	Incarnation  string // name of this process alone, 1 to 26 bytes of ASCII
	Name         string // name chosen by a person, at most clock.MaxNodeName bytes; two processes may have the same
	Address      string // where the process serves HTTP, for people; at most 255 characters
	Version      string // at most 64 characters
	Started      clock.Instant
	Expires      clock.Instant // when the other nodes count this node as dead
	Applications []string      // lines about the applications that have subscribers or workers at this node (lease.Announcement); sorted, nil for none
	// Lacks names the abilities that the node lacks now, as short words of ASCII. It is sorted and has at most 255
	// bytes in all. Nil means that the node reports no missing ability. Builds that do not know the column report none.
	Lacks []string
	// Settings is the number of changes of all settings (Settings.SettingChanges) that the node applies and has
	// confirmed: no claim that they forbid starts, and none is under way. SettingsUnknown: a build that does not know
	// the column has written the row.
	Settings int64
	// SecretKeys are the ids of the keys that the node has for the secrets of settings, as short words of ASCII; the
	// first encrypts. They have at most 255 bytes in all. Builds that do not know the column report none.
	SecretKeys []string
}

// SettingsUnknown is the Settings of nodes that do not report them.
const SettingsUnknown = -1

// Alive reports whether the node is not expired at now.
func (n *Node) Alive(now clock.Instant) bool { return n.Expires > now }

// HasKey reports whether the node has the key of secrets.
func (n *Node) HasKey(id string) bool { return slices.Contains(n.SecretKeys, id) }

// Lease says which node owns a shard. A free shard has a lease with Shard and Epoch only.
type Lease struct {
	Shard       int
	Owner       string // the node's name, for people
	Incarnation string
	Epoch       int64         // grows by one each time a node takes the shard
	Expires     clock.Instant // from when on any node may take the shard
}

// Cluster holds all nodes and leases at one moment.
type Cluster struct {
	Nodes  []Node  // by incarnation; includes expired nodes that no Attend has deleted yet
	Leases []Lease // one for each shard, by shard

	OldestBuild int64 // oldest build level that may work on the database
}

// Leaser records which nodes live and which node owns which shard. All instants are the caller's lower bound of the
// database's clock, so no lease is taken before it expires. Each method except Attend is one transaction. The store
// replays a method after a definite rollback. After ErrUnconfirmed, and after any error of Attend, the outcome is
// unknown. Every method may be called again.
type Leaser interface {
	// Cluster reads all nodes and leases as of one moment. It locks and writes nothing.
	Cluster(ctx context.Context) (Cluster, error)
	// Attend writes the node's row as given; it writes Started only into a new row. It extends all leases of the node's
	// incarnation until n.Expires, expired leases too. It extends none when this build is below Cluster.OldestBuild.
	// With a forget later than 0 it also deletes nodes that expired before forget (exclusive). It takes no shard back
	// from another node.
	Attend(ctx context.Context, n Node, forget clock.Instant) error
	// Take gives n the free and expired shards among the given ones, and returns them sorted. A lease is expired when
	// Expires <= now, whichever node held it. Each new lease has the next epoch and lasts until n.Expires. When two
	// nodes take one shard at once, a single node gets it. Take skips shards whose row is locked at that moment, and
	// numbers that are no shard.
	Take(ctx context.Context, n Node, now clock.Instant, shards []int) ([]int, error)
	// Yield frees the given shards that the incarnation owns, expired or not. Their epochs stay.
	Yield(ctx context.Context, incarnation string, shards []int) error
	// Leave frees all shards of the incarnation and deletes its node row. An unknown incarnation is no error.
	Leave(ctx context.Context, incarnation string) error
}

// Notifier passes short messages between the nodes of one database. A Store whose engine can do so implements it.
// Messages may be lost, and two equal messages may arrive as one.
type Notifier interface {
	// Notify sends all bodies, or none. Each is at most MaxNotice bytes of UTF-8 without NUL.
	Notify(ctx context.Context, bodies []string) error
	// Listen calls ready once, when it begins to receive. It then calls heard with each body that any node sends, this
	// node included, in the order of sending. It returns nil when ctx ends, and an error when the connection fails; the
	// caller then calls it again. Both functions run on the caller's goroutine. heard must not block for long.
	Listen(ctx context.Context, ready func(), heard func(body string)) error
}

// MaxNotice is the longest body of a Notifier, in bytes. PostgreSQL accepts less than 8000.
const MaxNotice = 7900

// Finding is one server setting that decides how safe commits are.
type Finding struct {
	Name   string // stable name of the setting: innodb_flush_log_at_trx_commit, synchronous_commit, ...
	Value  string // value as the server reported it
	Safe   bool
	Detail string // a sentence for a person: what a failure loses, or why the value is safe
}

// DurabilityChecker asks the database how durable its commits are.
type DurabilityChecker interface {
	// Durability returns the findings in a fixed order.
	Durability(ctx context.Context) ([]Finding, error)
}
