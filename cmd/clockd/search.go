package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/clockd/clockd/client"
)

// searchCommand finds alarms by a text.
type searchCommand struct {
	Text string `arg:"" help:"A business id, a message id, or with --application the beginning of a business id."`
	clientFlags

	Application string `placeholder:"NAME" help:"Only alarms of this application, also those whose business id begins with the text."`
	Limit       int    `default:"20" help:"Most alarms to show, 1 to 100."`
}

// Run searches and prints a table, or with --json one line for each alarm.
func (s *searchCommand) Run() error {
	server, err := s.client()
	if err != nil {
		return err
	}
	found, err := server.Search(context.Background(),
		client.SearchQuery{Text: s.Text, Application: s.Application, Limit: s.Limit})
	if err != nil {
		return s.explained(err)
	}
	if len(found.Alarms) == 0 && s.Application != "" {
		defer s.remarkUnknown(s.Application)
	}
	if s.JSON {
		for _, a := range found.Alarms {
			if err := printJSON(stdout, a.Raw); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "APPLICATION\tBUSINESS ID\tSTATE\tRING AT\tNEXT TRY\tLAST ERROR, OR WHY IT WAITS")
	for _, a := range found.Alarms {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Application, a.BusinessID, a.State, shown(a.RingAt),
			dash(shown(a.NextTryTime)), dash(trouble(a)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if found.More {
		_, err = fmt.Fprintf(stdout, "more alarms were found: raise --limit, or search in one --application\n")
	}
	return err
}
