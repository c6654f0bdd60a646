package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/clockd/clockd/client"
)

// applicationsCommand lists the applications that the service knows.
type applicationsCommand struct {
	clientFlags

	Application string `arg:"" optional:"" help:"Only this application; none: all."`

	Counts    bool `help:"Count the alarms of each application by state, at most 1000."`
	Attention bool `help:"Only applications with expired, dead or paused alarms, with the number of these."`
}

// Run reads page after page and prints a table, or with --json one line for each application.
func (l *applicationsCommand) Run() error {
	server, err := l.client()
	if err != nil {
		return err
	}
	table := newTable(l.heading())
	filter := client.ApplicationFilter{Name: l.Application, Counts: l.Counts, Attention: l.Attention}
	found := false
	for a, err := range server.Applications(context.Background(), filter) {
		if err != nil {
			return errors.Join(table.abort(), l.explained(err))
		}
		if err := l.row(table, a); err != nil {
			return err
		}
		found = true
	}
	if !found && l.Application != "" {
		defer l.remarkUnknown(l.Application)
	}
	return table.end()
}

// heading returns the heading of the table, "" with --json.
func (l *applicationsCommand) heading() string {
	if l.JSON {
		return ""
	}
	counts := ""
	switch {
	case l.Counts:
		counts = "\tSCHEDULED\tRINGING\tRUNG\tEXPIRED\tDEAD\tCANCELLED\tPAUSED\tALL COUNTED"
	case l.Attention:
		counts = "\tEXPIRED\tDEAD\tPAUSED\tALL COUNTED"
	}
	return "APPLICATION\tTARGET\tPAUSED\tSETTINGS\tOLDEST OVERDUE\tLAST SEEN" + counts + "\tWHY DUE ALARMS WAIT"
}

func (l *applicationsCommand) row(rows *table, a *client.Application) error {
	if l.JSON {
		return printJSON(stdout, a.Raw)
	}
	version := ""
	if a.SettingsVersion > 0 {
		version = fmt.Sprint("version ", a.SettingsVersion)
	}
	counts := ""
	switch n := a.Counts; {
	case n == nil:
	case !l.Counts:
		counts = fmt.Sprintf("\t%d\t%d\t%d\t%s", n.Expired, n.Dead, n.Paused, yesNo(n.AttentionComplete))
	default:
		counts = fmt.Sprintf("\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s", n.Scheduled, n.Ringing, n.Rung, n.Expired, n.Dead,
			n.Cancelled, n.Paused, yesNo(n.Complete))
	}
	var reasons []string
	for _, b := range a.Blockers {
		reasons = append(reasons, describeBlocker(b))
	}
	return rows.row("%s\t%s\t%s\t%s\t%s\t%s%s\t%s", a.Name, dash(a.Target), yesNo(a.Paused), dash(version),
		dash(shown(a.OldestOverdue)), dash(shown(a.LastSeen)), counts, dash(strings.Join(reasons, "; ")))
}

func yesNo(flag bool) string {
	if flag {
		return "yes"
	}
	return "no"
}
