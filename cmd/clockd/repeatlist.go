package main

import (
	"context"

	"github.com/clockd/clockd/client"
)

// repeatListCommand lists repeating alarms.
type repeatListCommand struct {
	Application string `arg:"" optional:"" help:"Application whose repeating alarms to list; none: all."`
	clientFlags
	listFlags
}

// Run reads page after page and prints a table, or with --json one line for each alarm.
func (l *repeatListCommand) Run() error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	server, err := l.client()
	if err != nil {
		return err
	}
	heading := "APPLICATION\tBUSINESS ID\tSTATE\tNEXT TRY\tRUNG\tFAILED\tMISSED\tRINGS"
	if l.JSON {
		heading = ""
	}
	listed, err := listAlarms(server.Repeating(context.Background(), l.Application, filter), newTable(heading), l.row)
	if err == nil && listed == 0 && l.Application != "" {
		l.remarkUnknown(l.Application)
	}
	l.remarkMore(listed)
	return l.explained(err)
}

func (l *repeatListCommand) row(rows *table, a *client.Alarm) error {
	if l.JSON {
		return printJSON(stdout, a.Raw)
	}
	o := client.Occurrence{}
	if a.Occurrence != nil { // else its rule cannot be read
		o = *a.Occurrence
	}
	return rows.row("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s",
		a.Application, a.BusinessID, a.State, dash(shown(a.NextTryTime)), o.Rung, o.Failed, o.Missed, dash(a.RepeatSentence))
}
