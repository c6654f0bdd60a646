package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/clockd/clockd/client"
)

// deadArgs name one dead or expired alarm, or select many.
type deadArgs struct {
	Application string `arg:"" help:"Application the alarms belong to."`
	BusinessID  string `arg:"" optional:"" name:"business-id" help:"The application's own id of one alarm. Select many alarms with --state and --prefix instead."`
	clientFlags

	State      []string `placeholder:"STATE,..." values:"dead,expired" help:"Select alarms in these states: dead, expired."`
	Prefix     string   `help:"Select alarms whose business id begins with this text."`
	Limit      int      `default:"1000" help:"Most alarms to select; 0: all."`
	Generation *int64   `placeholder:"N" help:"Condition, with a business id: the alarm has this generation."`
	Note       string   `placeholder:"TEXT" help:"With a business id: why, at most 300 bytes. The audit has it."`
}

// deadAction is what kick or discard does to alarms.
type deadAction struct {
	done string // name of the result
	one  func(c *client.Client, ctx context.Context, application, businessID string, options ...client.ActOption) (*client.Alarm, error)
	all  func(c *client.Client, ctx context.Context, application string, f client.DeadFilter) (client.DeadResult, error)
}

var (
	kick    = deadAction{"kicked", (*client.Client).Kick, (*client.Client).KickAll}
	discard = deadAction{"discarded", (*client.Client).Discard, (*client.Client).DiscardAll}
)

// kickCommand schedules dead and expired alarms again.
type kickCommand struct{ deadArgs }

// Run kicks, and prints the alarm or the number of alarms.
func (k *kickCommand) Run() error { return k.run(stdout, kick) }

// discardCommand cancels dead and expired alarms.
type discardCommand struct{ deadArgs }

// Run discards, and prints the alarm or the number of alarms.
func (d *discardCommand) Run() error { return d.run(stdout, discard) }

func (d *deadArgs) run(out io.Writer, action deadAction) error {
	filtered := len(d.State) > 0 || d.Prefix != ""
	switch {
	case d.BusinessID == "" && !filtered:
		return usagef("give a business id, --prefix or --state (--state dead,expired is all of them)")
	case d.BusinessID != "" && filtered:
		return usagef("give a business id or a filter, not both")
	case d.BusinessID == "" && d.Generation != nil:
		return usagef("--generation goes with a business id")
	case d.BusinessID == "" && d.Note != "":
		return usagef("--note goes with a business id")
	}
	c, err := d.client()
	if err != nil {
		return err
	}
	if d.BusinessID == "" {
		return d.runFiltered(c, out, action)
	}
	a, err := action.one(c, context.Background(), d.Application, d.BusinessID, actOptions(d.Generation, d.Note)...)
	return d.printAlarm(a, d.orUnknown(d.Application, err))
}

// runFiltered follows the server's cursors until the limit is reached or no alarm is left.
func (d *deadArgs) runFiltered(c *client.Client, out io.Writer, action deadAction) error {
	filter := client.DeadFilter{States: states(d.State), Prefix: d.Prefix}
	for total, failed := 0, 0; ; {
		filter.Limit = client.MaxDeadLimit
		if d.Limit > 0 {
			filter.Limit = min(d.Limit-total-failed, client.MaxDeadLimit)
		}
		r, err := action.all(c, context.Background(), d.Application, filter)
		if err != nil {
			return fmt.Errorf("after %d were %s: %w", total, action.done, d.explained(err))
		}
		total, failed, filter.Cursor = total+r.Changed, failed+r.Failed, r.Cursor
		more := r.Cursor != ""
		if !more || d.Limit > 0 && total+failed >= d.Limit {
			err := d.printCounts(out, action.done, total, failed, more)
			if total+failed == 0 && !more {
				d.remarkUnknown(d.Application)
			}
			return err
		}
	}
}

// printCounts prints how many alarms were changed and how many were not.
func (d *deadArgs) printCounts(out io.Writer, done string, total, failed int, more bool) error {
	if d.JSON {
		return json.NewEncoder(out).Encode(map[string]any{done: total, "failed": failed, "more": more})
	}
	text := fmt.Sprintf("%s %d", done, total)
	if failed > 0 {
		text += fmt.Sprintf(", not %d: they changed meanwhile", failed)
	}
	if more {
		text += "; there may be more, run it again or raise --limit"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
