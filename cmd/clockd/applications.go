package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/clockd/clockd/client"
)

// applicationsCommand lists the applications that the service knows.
type applicationsCommand struct {
	clientFlags

	Counts bool `help:"Count the alarms of each application by state, at most 1000."`
}

// Run reads page after page and prints a table, or with --json one line for each application.
func (l *applicationsCommand) Run() error {
	server, err := l.client()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !l.JSON {
		l.head(table)
	}
	for a, err := range server.Applications(context.Background(), l.Counts) {
		if err != nil {
			return errors.Join(table.Flush(), l.explained(err))
		}
		if err := l.row(table, a); err != nil {
			return err
		}
	}
	return table.Flush()
}

func (l *applicationsCommand) head(table *tabwriter.Writer) {
	_, _ = fmt.Fprint(table, "APPLICATION\tTARGET\tPAUSED\tSETTINGS\tOLDEST OVERDUE")
	if l.Counts {
		_, _ = fmt.Fprint(table, "\tSCHEDULED\tRINGING\tRUNG\tEXPIRED\tDEAD\tCANCELLED\tPAUSED\tALL COUNTED")
	}
	_, _ = fmt.Fprintln(table, "\tWHY DUE ALARMS WAIT")
}

func (l *applicationsCommand) row(table *tabwriter.Writer, a *client.Application) error {
	if l.JSON {
		return printJSON(stdout, a.Raw)
	}
	version := ""
	if a.SettingsVersion > 0 {
		version = fmt.Sprint("version ", a.SettingsVersion)
	}
	_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s", a.Name, dash(a.Target), yesNo(a.Paused), dash(version), dash(shown(a.OldestOverdue)))
	if n := a.Counts; n != nil {
		_, _ = fmt.Fprintf(table, "\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s", n.Scheduled, n.Ringing, n.Rung, n.Expired, n.Dead, n.Cancelled, n.Paused, yesNo(n.Complete))
	}
	var reasons []string
	for _, b := range a.Blockers {
		reasons = append(reasons, describeBlocker(b))
	}
	_, err := fmt.Fprintf(table, "\t%s\n", dash(strings.Join(reasons, "; ")))
	return err
}

func yesNo(flag bool) string {
	if flag {
		return "yes"
	}
	return "no"
}
