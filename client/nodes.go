package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Cluster is the nodes of a service and the owners of its shards.
type Cluster struct {
	Self         string    `json:"self"` // incarnation of the node that answered
	DatabaseTime time.Time `json:"database_time"`
	// SettingsChanges is the number of changes of settings of all applications so far.
	SettingsChanges int64 `json:"settings_changes"`

	Nodes  []Node  `json:"nodes"`  // in the order of incarnations
	Shards []Shard `json:"shards"` // in the order of numbers

	Raw json.RawMessage `json:"-"` // the cluster as the service wrote it
}

// Node is a process of the service.
type Node struct {
	Name         string    `json:"name"`
	Incarnation  string    `json:"incarnation"` // id of this start
	Address      string    `json:"address"`
	Version      string    `json:"version"`
	StartedAt    time.Time `json:"started_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	Alive        bool      `json:"alive"`
	NameShared   bool      `json:"name_shared"`  // another living node has the same name
	Settings     *int64    `json:"settings"`     // changes of settings that it has confirmed; nil: its build does not tell
	Shards       []int     `json:"shards"`       // shards that it owns, ascending
	Applications []string  `json:"applications"` // applications with a subscriber of the stream on this node
	Lacks        []string  `json:"lacks"`        // abilities that it does not have now
	SecretKeys   []string  `json:"secret_keys"`  // ids of its keys for the secrets of settings; the first encrypts
}

// Shard is a part of the alarms, with its owner.
type Shard struct {
	Shard       int       `json:"shard"`
	Node        string    `json:"node"`        // name of the owner; empty: none
	Incarnation string    `json:"incarnation"` // incarnation of the owner; empty: none
	Epoch       int64     `json:"epoch"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// Nodes reads the nodes of the service.
func (c *Client) Nodes(ctx context.Context) (*Cluster, error) {
	var raw json.RawMessage
	if err := c.call(ctx, &request{method: http.MethodGet, path: "/v1/nodes", repeat: true}, &raw); err != nil {
		return nil, err
	}
	cluster := &Cluster{Raw: raw}
	if err := json.Unmarshal(raw, cluster); err != nil {
		return nil, unreadable(http.StatusOK, err)
	}
	return cluster, nil
}
