package clockhttp

import (
	"context"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// NodesView is the database's view of the nodes and the shards.
type NodesView struct {
	Self         string        // incarnation of the node that sends the response
	DatabaseTime clock.Instant // database's time as this node knows it
	Settings     int64         // changes of settings of all applications so far, counted before the nodes were read
	Nodes        []NodeView
	Shards       []ShardView // all shards, by number
}

// NodeView is one node: one running clockd process.
type NodeView struct {
	Name         string // name that a person gave
	Incarnation  string // id of this start of the node
	Address      string
	Version      string
	StartedAt    clock.Instant
	ExpiresAt    clock.Instant // time after which the node counts as dead, unless it renews before
	Alive        bool
	NameShared   bool     // true: another living node has the same name
	Settings     int64    // changes of settings that the node has confirmed; below 0: its build does not tell
	Shards       []int    // shards that the node owns, ascending
	Applications []string // applications that have a subscriber or a worker at this node
	Lacks        []string // abilities that the node does not have now, sorted
	SecretKeys   []string // ids of the keys that it has for the secrets of settings; the first encrypts
}

// ShardView is one shard and its owner. Node, Incarnation and ExpiresAt are empty for a shard without an owner.
type ShardView struct {
	Shard       int
	Node        string // name of the owner
	Incarnation string // incarnation of the owner
	Epoch       int64
	ExpiresAt   clock.Instant // end of the lease
}

// nodes responds with the nodes and the shards that each node owns.
func (s *Server) nodes(c echo.Context) error {
	if s.readNodes == nil {
		return absentPart("this node does not know other nodes")
	}
	ctx, cancel := lastingContext(c, clock.RequestTimeout) // not as long as this client waits: other requests share the read
	defer cancel()
	v, err, _ := s.nodeReads.Do("", func() (any, error) { // one read at a time, because reads share connections with the leases
		v, err := s.readNodes(ctx)
		return &v, err
	})
	if err != nil {
		return clock.UnavailableIfLate(ctx, err)
	}
	view, _ := v.(*NodesView)
	return s.respondRead(c, view.append(nil, front.CallerOf(c.Request()).Covers))
}

// append appends the view, with the covered applications alone. It does not change the view.
func (v *NodesView) append(b []byte, covers func(application string) bool) []byte {
	b = appendString(append(b, `{"self":`...), v.Self)
	b = appendInstant(append(b, `,"database_time":`...), v.DatabaseTime)
	b = strconv.AppendInt(append(b, `,"settings_changes":`...), v.Settings, 10)
	b = appendList(append(b, `,"nodes":`...), v.Nodes,
		func(n *NodeView, b []byte) []byte { return n.append(b, covers) })
	b = appendList(append(b, `,"shards":`...), v.Shards, (*ShardView).append)
	return append(b, '}')
}

func (n *NodeView) append(b []byte, covers func(application string) bool) []byte {
	b = appendString(append(b, `{"name":`...), n.Name)
	b = appendString(append(b, `,"incarnation":`...), n.Incarnation)
	b = appendString(append(b, `,"address":`...), n.Address)
	b = appendString(append(b, `,"version":`...), n.Version)
	b = appendInstant(append(b, `,"started_at":`...), n.StartedAt)
	b = appendInstant(append(b, `,"expires_at":`...), n.ExpiresAt)
	b = strconv.AppendBool(append(b, `,"alive":`...), n.Alive)
	b = strconv.AppendBool(append(b, `,"name_shared":`...), n.NameShared)
	if b = append(b, `,"settings":`...); n.Settings < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, n.Settings, 10)
	}
	b = appendList(append(b, `,"shards":`...), n.Shards,
		func(shard *int, b []byte) []byte { return strconv.AppendInt(b, int64(*shard), 10) })
	covered := slices.DeleteFunc(slices.Clone(n.Applications),
		func(application string) bool { return !covers(application) })
	b = appendList(append(b, `,"applications":`...), covered, appendText)
	b = appendList(append(b, `,"lacks":`...), n.Lacks, appendText)
	b = appendList(append(b, `,"secret_keys":`...), n.SecretKeys, appendText)
	return append(b, '}')
}

func (l *ShardView) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"shard":`...), int64(l.Shard), 10)
	b = appendOptional(append(b, `,"node":`...), l.Node)
	b = appendOptional(append(b, `,"incarnation":`...), l.Incarnation)
	b = strconv.AppendInt(append(b, `,"epoch":`...), l.Epoch, 10)
	expires := l.ExpiresAt
	if l.Incarnation == "" {
		expires = clock.NoInstant
	}
	b = appendInstant(append(b, `,"expires_at":`...), expires)
	return append(b, '}')
}

func appendText(text *string, b []byte) []byte { return appendString(b, *text) }

// appendList appends an array. It calls element for each element.
func appendList[T any](b []byte, list []T, element func(*T, []byte) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(&list[i], b)
	}
	return append(b, ']')
}

// Nodes reads the nodes and their shards from the database.
type Nodes func(ctx context.Context) (NodesView, error)
