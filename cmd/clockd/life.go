package main

import (
	"context"
	"fmt"
	"strconv"
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

// eventDetail returns the detail of an event, or for when it set the alarm; of a bulk job also its id.
func eventDetail(e *client.Event) string {
	switch {
	case e.Job != "":
		return oneLine(e.Detail) + " (job " + e.Job + ")"
	case e.Detail == "" && !e.RingAt.IsZero():
		return "for " + shown(e.RingAt)
	}
	return oneLine(e.Detail)
}
