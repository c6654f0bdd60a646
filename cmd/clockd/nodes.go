package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// nodesCommand shows who shares the work.
type nodesCommand struct {
	clientFlags
}

// nodesAnswer is what the client shows of the nodes.
type nodesAnswer struct {
	Self         string       `json:"self"`
	DatabaseTime string       `json:"database_time"`
	Nodes        []nodeAnswer `json:"nodes"`
	Shards       []struct {
		Shard int     `json:"shard"`
		Node  *string `json:"node"`
	} `json:"shards"`
}

type nodeAnswer struct {
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
}

// Run asks the server and prints a table.
func (n *nodesCommand) Run() error {
	answer, err := n.call(http.MethodGet, "/v1/nodes", nil, nil)
	if err != nil {
		return err
	}
	if n.JSON {
		_, err := fmt.Fprintf(os.Stdout, "%s\n", bytes.TrimSpace(answer))
		return err
	}
	var a nodesAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return a.print(os.Stdout)
}

// print writes a line a node, by name, and below it what needs a person's eye.
func (a *nodesAnswer) print(out io.Writer) error {
	slices.SortStableFunc(a.Nodes, func(x, y nodeAnswer) int { return strings.Compare(x.Name, y.Name) })
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

func (a *nodesAnswer) row(n *nodeAnswer) string {
	name, state := n.Name, "alive"
	if n.Incarnation == a.Self {
		name += " *"
	}
	if !n.Alive {
		state = "gone since " + n.ExpiresAt
	}
	return strings.Join([]string{
		name, n.Incarnation, state, dash(n.Address), dash(n.Version), n.StartedAt, strconv.Itoa(len(n.Shards)), dash(ranges(n.Shards)),
		dash(strings.Join(n.Applications, ",")),
	}, "\t")
}

// remarks are lines for what a table of nodes does not show.
func (a *nodesAnswer) remarks() []string {
	lines := []string{"* answered, at " + a.DatabaseTime + " by the database's clock"}
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

// ranges writes ascending numbers briefly: 0-3,7.
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
