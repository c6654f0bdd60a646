package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/clockd/clockd/client"
)

// eventsCommand shows the life of an alarm.
type eventsCommand struct {
	keyArgs
	clientFlags
}

// Run reads the events and prints a table.
func (e *eventsCommand) Run() error {
	server, err := e.client()
	if err != nil {
		return err
	}
	life, err := server.Events(context.Background(), e.Application, e.BusinessID)
	if err != nil {
		return e.explained(e.orUnknown(e.Application, err))
	}
	if e.JSON {
		return printJSON(stdout, life.Raw)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "AT\tEVENT\tGENERATION\tRING\tBY\tDETAIL")
	for _, event := range life.Events {
		ring := ""
		if event.RingNo > 0 {
			ring = strconv.Itoa(event.RingNo)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", shown(event.At), event.Kind, event.Generation, dash(ring),
			dash(event.By), dash(eventDetail(&event)))
	}
	if !life.NextTryTime.IsZero() {
		_, _ = fmt.Fprintf(table, "%s\tdue\t\t\t\t\n", shown(life.NextTryTime))
	}
	return table.Flush()
}

// eventDetail returns when the event set the alarm for, its detail, and the bulk job that acted.
func eventDetail(e *client.Event) string {
	var parts []string
	if !e.RingAt.IsZero() {
		parts = append(parts, "for "+shown(e.RingAt))
	}
	if e.Detail != "" {
		parts = append(parts, oneLine(e.Detail))
	}
	if e.Job != "" {
		parts = append(parts, "bulk job "+e.Job)
	}
	return strings.Join(parts, "; ")
}
