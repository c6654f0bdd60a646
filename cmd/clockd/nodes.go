package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/clockd/clockd/client"
)

// nodesCommand shows the nodes and their shards.
type nodesCommand struct {
	clientFlags
}

// nodesTable prints a cluster for people.
type nodesTable struct{ *client.Cluster }

// Run asks the server and prints a table.
func (n *nodesCommand) Run() error {
	c, err := n.client()
	if err != nil {
		return err
	}
	cluster, err := c.Nodes(context.Background())
	if err != nil {
		return n.explained(err)
	}
	if n.JSON {
		return printJSON(stdout, cluster.Raw)
	}
	return nodesTable{cluster}.print(stdout)
}

// print writes one line for each node, ordered by name. The lines below are remarks for a person.
func (a nodesTable) print(out io.Writer) error {
	slices.SortStableFunc(a.Nodes, func(x, y client.Node) int { return strings.Compare(x.Name, y.Name) })
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

func (a nodesTable) row(node *client.Node) string {
	name, state := node.Name, "alive"
	if node.Incarnation == a.Self {
		name += " *"
	}
	if !node.Alive {
		state = "gone since " + shown(node.ExpiresAt)
	} else if len(node.Lacks) > 0 {
		state += ", lacks " + strings.Join(node.Lacks, ",")
	}
	return strings.Join([]string{
		name, node.Incarnation, state, dash(node.Address), dash(node.Version), shown(node.StartedAt),
		strconv.Itoa(len(node.Shards)), dash(ranges(node.Shards)),
		dash(strings.Join(node.Applications, ",")),
	}, "\t")
}

// remarks returns lines about facts that the table does not show.
func (a nodesTable) remarks() []string {
	lines := []string{"* responded, at " + shown(a.DatabaseTime) + " by the database's clock"}
	var free []int
	for _, s := range a.Shards {
		if s.Node == "" {
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
			lines = append(lines,
				fmt.Sprintf("several processes are named %q: give each its own with --node or CLOCKD_NODE", n.Name))
		}
	}
	return append(lines, a.missingKeys()...)
}

// missingKeys names the living nodes without a key with which others encrypt secrets.
func (a nodesTable) missingKeys() (lines []string) {
	alive := slices.DeleteFunc(slices.Clone(a.Nodes), func(n client.Node) bool { return !n.Alive })
	named := map[string]bool{}
	for _, n := range alive {
		if len(n.SecretKeys) == 0 || named[n.SecretKeys[0]] {
			continue
		}
		key := n.SecretKeys[0]
		named[key] = true
		var lack []string
		for _, other := range alive {
			if !slices.Contains(other.SecretKeys, key) {
				lack = append(lack, fmt.Sprintf("%s (%s)", other.Name, other.Incarnation))
			}
		}
		if len(lack) > 0 {
			lines = append(lines, fmt.Sprintf("%s encrypts secrets with the key %s, which these nodes do not report: %s",
				n.Name, key, strings.Join(lack, ", ")))
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
