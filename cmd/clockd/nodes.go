package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// nodesCommand shows the nodes and their shards.
type nodesCommand struct {
	clientFlags
}

// nodesResponse has the fields of GET /v1/nodes that the client shows.
type nodesResponse struct {
	Self         string         `json:"self"`
	DatabaseTime string         `json:"database_time"`
	Nodes        []nodeResponse `json:"nodes"`
	Shards       []struct {
		Shard int     `json:"shard"`
		Node  *string `json:"node"`
	} `json:"shards"`
}

type nodeResponse struct {
	Name         string   `json:"name"`
	Incarnation  string   `json:"incarnation"`
	Address      string   `json:"address"`
	Version      string   `json:"version"`
	StartedAt    string   `json:"started_at"`
	ExpiresAt    string   `json:"expires_at"`
	Alive        bool     `json:"alive"`
	NameShared   bool     `json:"name_shared"`
	Shards       []int    `json:"shards"`
	Applications []string `json:"applications"`
	Lacks        []string `json:"lacks"`
}

// Run asks the server and prints a table.
func (n *nodesCommand) Run() error {
	response, err := n.call(http.MethodGet, "/v1/nodes", nil, nil)
	if err != nil {
		return err
	}
	if n.JSON {
		_, err := fmt.Fprintf(stdout, "%s\n", bytes.TrimSpace(response))
		return err
	}
	var a nodesResponse
	if err := json.Unmarshal(response, &a); err != nil {
		return fmt.Errorf("the server's response cannot be read: %w", err)
	}
	return a.print(stdout)
}

// print writes one line for each node, ordered by name. The lines below are remarks for a person.
func (a *nodesResponse) print(out io.Writer) error {
	slices.SortStableFunc(a.Nodes, func(x, y nodeResponse) int { return strings.Compare(x.Name, y.Name) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NODE\tINCARNATION\tSTATE\tADDRESS\tVERSION\tSTARTED\tSHARDS\t\tSTREAMS")
	for i := range a.Nodes {
		_, _ = fmt.Fprintln(table, a.row(&a.Nodes[i]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, line := range a.remarks() {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func (a *nodesResponse) row(node *nodeResponse) string {
	name, state := node.Name, "alive"
	if node.Incarnation == a.Self {
		name += " *"
	}
	if !node.Alive {
		state = "gone since " + node.ExpiresAt
	} else if len(node.Lacks) > 0 {
		state += ", lacks " + strings.Join(node.Lacks, ",")
	}
	return strings.Join([]string{
		name, node.Incarnation, state, dash(node.Address), dash(node.Version), node.StartedAt, strconv.Itoa(len(node.Shards)), dash(ranges(node.Shards)),
		dash(strings.Join(node.Applications, ",")),
	}, "\t")
}

// remarks returns lines about facts that the table does not show.
func (a *nodesResponse) remarks() []string {
	lines := []string{"* responded, at " + a.DatabaseTime + " by the database's clock"}
	var free []int
	for _, s := range a.Shards {
		if s.Node == nil {
			free = append(free, s.Shard)
		}
	}
	if len(free) > 0 {
		lines = append(lines, fmt.Sprintf("%d of %d shards have no owner: %s", len(free), len(a.Shards), ranges(free)))
	}
	shared := map[string]bool{}
	for _, n := range a.Nodes {
		if n.NameShared && !shared[n.Name] {
			shared[n.Name] = true
			lines = append(lines, fmt.Sprintf("several processes are named %q: give each its own with --node or CLOCKD_NODE", n.Name))
		}
	}
	return lines
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ranges writes ascending numbers as ranges: 0-3,7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
