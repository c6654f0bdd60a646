package clockhttp

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// NodesView is who shares the work, as the database says.
type NodesView struct {
	Self         string // incarnation of the node that answers
	DatabaseTime clock.Instant
	Nodes        []NodeView
	Shards       []ShardView // one a shard, by number
}

// NodeView is one process.
type NodeView struct {
	Name         string // given by a person
	Incarnation  string // of this process alone
	Address      string
	Version      string
	StartedAt    clock.Instant
	ExpiresAt    clock.Instant // when it is taken for dead unless it says that it lives
	Alive        bool
	NameShared   bool     // another that lives has the same name
	Shards       []int    // it owns, ascending
	Applications []string // with a subscriber of their stream there
}

// ShardView is who owns a shard; one that nobody owns has neither node nor incarnation nor end.
type ShardView struct {
	Shard       int
	Node        string
	Incarnation string
	Epoch       int64
	ExpiresAt   clock.Instant
}

// nodes answers which nodes there are and which shards each owns.
func (s *Server) nodes(c echo.Context) error {
	if s.lookAtNodes == nil {
		return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: "this node does not know of any others"}
	}
	ctx, cancel := readContext(c)
	defer cancel()
	v, err := s.lookAtNodes(ctx)
	if err != nil {
		return unavailableIfLate(ctx, err)
	}
	return s.answerJSON(c, http.StatusOK, v.append(nil))
}

func (v *NodesView) append(b []byte) []byte {
	b = appendString(append(b, `{"self":`...), v.Self)
	b = appendInstant(append(b, `,"database_time":`...), v.DatabaseTime)
	b = appendList(append(b, `,"nodes":`...), v.Nodes, (*NodeView).append)
	b = appendList(append(b, `,"shards":`...), v.Shards, (*ShardView).append)
	return append(b, '}')
}

func (n *NodeView) append(b []byte) []byte {
	b = appendString(append(b, `{"name":`...), n.Name)
	b = appendString(append(b, `,"incarnation":`...), n.Incarnation)
	b = appendString(append(b, `,"address":`...), n.Address)
	b = appendString(append(b, `,"version":`...), n.Version)
	b = appendInstant(append(b, `,"started_at":`...), n.StartedAt)
	b = appendInstant(append(b, `,"expires_at":`...), n.ExpiresAt)
	b = strconv.AppendBool(append(b, `,"alive":`...), n.Alive)
	b = strconv.AppendBool(append(b, `,"name_shared":`...), n.NameShared)
	b = appendList(append(b, `,"shards":`...), n.Shards, func(shard *int, b []byte) []byte { return strconv.AppendInt(b, int64(*shard), 10) })
	b = appendList(append(b, `,"applications":`...), n.Applications, func(app *string, b []byte) []byte { return appendString(b, *app) })
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

// appendList appends an array, each element by its own function.
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

// Nodes looks at who shares the work.
type Nodes func(ctx context.Context) (NodesView, error)
