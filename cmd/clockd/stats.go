package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/client"
)

// statsCommand shows the rates and the lateness of the last hour or day.
type statsCommand struct {
	clientFlags

	Range       string `enum:"hour,day" default:"hour" help:"hour: a line for 5 minutes; day: a line for an hour."`
	Application string `placeholder:"NAME" help:"Only this application, while it is among the 8 busiest of a node."`
}

// stepsOfLine is the number of steps of a line: 5 minutes of the last hour, an hour of the last day.
const stepsOfLine = 60

// Run asks the server and prints a line for some steps together, or with --json all steps.
func (s *statsCommand) Run() error {
	server, err := s.client()
	if err != nil {
		return err
	}
	found, err := server.Stats(context.Background(), client.StatsQuery{Range: s.Range, Application: s.Application})
	if err != nil {
		return s.explained(err)
	}
	isSome := func(n int64) bool { return n > 0 }
	if s.Application != "" && !slices.ContainsFunc(slices.Concat(found.Sets, found.Rings), isSome) {
		defer s.remarkUnknown(s.Application)
	}
	if s.JSON {
		return printJSON(stdout, found.Raw)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "FROM\tSETS\tCANCELS\tREFUSED\tRINGS\tFAILED TRIES\tLATENESS P99\tMAX\t")
	for i := 0; i < len(found.Sets); i += stepsOfLine {
		sum := func(steps []int64) (n int64) {
			for _, step := range steps[i:min(i+stepsOfLine, len(steps))] {
				n += step
			}
			return n
		}
		most := func(steps []time.Duration) string {
			return shownLateness(slices.Max(steps[i:min(i+stepsOfLine, len(steps))]))
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t\n",
			shown(found.Start.Add(time.Duration(i)*found.Step)),
			sum(found.Sets), sum(found.Cancels), sum(found.Refused), sum(found.Rings), sum(found.FailedTries),
			most(found.LatenessP99), most(found.LatenessMax))
	}
	err = table.Flush()
	_, printErr := fmt.Fprintf(stdout, "Each lateness is the greatest of the line's steps. Nodes: %s\n",
		strings.Join(found.Nodes, ", "))
	err = errors.Join(err, printErr)
	for _, m := range found.Missing {
		_, printErr := fmt.Fprintf(stdout, "without %s: %s\n", cmp.Or(m.Node, "the other nodes"), m.Reason)
		err = errors.Join(err, printErr)
	}
	return err
}

// shownLateness returns a lateness in words; below 0 it stands for no ring.
func shownLateness(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.String()
}
