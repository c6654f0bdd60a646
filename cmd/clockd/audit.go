package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/clockd/clockd/client"
)

// mostActs is the most acts of a page.
const mostActs = 1000

// auditCommand lists the acts that the audit records.
type auditCommand struct {
	clientFlags

	Application string `placeholder:"APP" help:"Only acts on this application."`
	Subject     string `placeholder:"ID" help:"With --application: only acts on this business id or bulk job."`
	Actor       string `placeholder:"NAME" help:"Only acts of this token or person."`
	Action      string `placeholder:"ACTION" help:"Only acts with this action, such as cancel, pause or settings."`
	Limit       int    `default:"100" help:"Most acts to show, the newest first."`
}

// Run prints a table, or with --json one line for each act.
func (a *auditCommand) Run() error {
	server, err := a.client()
	if err != nil {
		return err
	}
	acts, err := a.read(server)
	if err != nil {
		return a.explained(err)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !a.JSON {
		_, _ = fmt.Fprintln(table, "TIME\tACTOR\tFROM\tREQUEST\tACTION\tAPPLICATION\tSUBJECT\tBEFORE\tAFTER")
	}
	for _, act := range acts {
		if a.JSON {
			if err := printJSON(stdout, act.Raw); err != nil {
				return err
			}
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shown(act.At), dash(act.Actor), dash(act.From),
			dash(act.RequestID), act.Action, dash(act.Application), dash(act.Subject), act.Before, act.After)
	}
	return table.Flush()
}

// read reads pages until it has the limit. A token for some applications gets pages without an act, because the others
// are left out.
func (a *auditCommand) read(server *client.Client) (acts []*client.Act, err error) {
	q := client.ActFilter{Application: a.Application, Subject: a.Subject, Actor: a.Actor, Action: a.Action}
	for {
		q.Limit = min(a.Limit-len(acts), mostActs)
		page, err := server.Audit(context.Background(), q)
		if err != nil {
			return nil, err
		}
		acts = append(acts, page.Acts...)
		if q.Cursor = page.NextCursor; q.Cursor == "" || len(acts) >= a.Limit {
			return acts, nil
		}
	}
}
