package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// sharesTimeout is the longest time in which nodes must divide the shards evenly.
const sharesTimeout = 30 * time.Second

// waitShares waits until so many nodes are alive and own even shares of the shards.
func (b *testbed) waitShares(ctx context.Context, nodes int) error {
	ctx, cancel := context.WithTimeout(ctx, sharesTimeout)
	defer cancel()
	for {
		got, err := shares(ctx, b.child.url)
		if err == nil && even(got, nodes) {
			return nil
		}
		if slept := sleep(ctx, 50*time.Millisecond); slept != nil {
			return fmt.Errorf("%d nodes do not divide the shards evenly, they own %v: %w", nodes, got,
				errors.Join(slept, err))
		}
	}
}

// even reports whether so many nodes own all shards, with numbers that differ by at most one.
func even(owned []int, nodes int) bool {
	sum := 0
	for _, n := range owned {
		if sum += n; n != shards/nodes && n != (shards+nodes-1)/nodes {
			return false
		}
	}
	return len(owned) == nodes && sum == shards
}

// shares returns the number of shards of each living node, as the node at base reports it.
func shares(ctx context.Context, base string) (owned []int, err error) {
	response, err := requestNodes(ctx, base)
	for _, n := range response.Nodes {
		if n.Alive {
			owned = append(owned, len(n.Shards))
		}
	}
	return owned, err
}

// nodesResponse is the response of /v1/nodes.
type nodesResponse struct {
	Nodes []struct {
		Alive  bool
		Shards []int
	}
	Shards []struct{ Node string } // owner of each shard, by shard number; "" if the shard is free
}

func requestNodes(ctx context.Context, base string) (response nodesResponse, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/nodes", http.NoBody)
	if err != nil {
		return response, err
	}
	res, err := client.Do(req)
	if err != nil {
		return response, err
	}
	defer func() { _ = res.Body.Close() }()
	err = expect(res.StatusCode, json.NewDecoder(res.Body).Decode(&response), http.StatusOK)
	return response, err
}
