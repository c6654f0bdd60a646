package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// sharesTimeout is within what time nodes must have divided the shards among them.
const sharesTimeout = 30 * time.Second

// waitShares waits until so many nodes are alive and own the shards in even shares.
func (b *bed) waitShares(ctx context.Context, nodes int) error {
	ctx, cancel := context.WithTimeout(ctx, sharesTimeout)
	defer cancel()
	for {
		got, err := shares(ctx, b.child.url)
		if err == nil && even(got, nodes) {
			return nil
		}
		if slept := sleep(ctx, 50*time.Millisecond); slept != nil {
			return fmt.Errorf("%d nodes do not divide the shards among them, they own %v: %w", nodes, got, errors.Join(slept, err))
		}
	}
}

// even tells whether so many nodes own all shards, none more than one more than another.
func even(owned []int, nodes int) bool {
	sum := 0
	for _, n := range owned {
		if sum += n; n != shards/nodes && n != (shards+nodes-1)/nodes {
			return false
		}
	}
	return len(owned) == nodes && sum == shards
}

// shares returns how many shards each node owns that is alive, as the one at base sees it.
func shares(ctx context.Context, base string) (owned []int, err error) {
	answer, err := askNodes(ctx, base)
	for _, n := range answer.Nodes {
		if n.Alive {
			owned = append(owned, len(n.Shards))
		}
	}
	return owned, err
}

// nodesAnswer is what a node says of who shares the work.
type nodesAnswer struct {
	Nodes []struct {
		Alive  bool
		Shards []int
	}
	Shards []struct{ Node string } // by number; empty: nobody's
}

func askNodes(ctx context.Context, base string) (answer nodesAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/nodes", http.NoBody)
	if err != nil {
		return answer, err
	}
	res, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	defer func() { _ = res.Body.Close() }()
	err = expect(res.StatusCode, json.NewDecoder(res.Body).Decode(&answer), http.StatusOK)
	return answer, err
}
