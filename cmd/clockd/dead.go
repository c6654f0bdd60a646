package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/clockd/clockd/clock"
)

// deadArgs name one dead or expired alarm, or select many.
type deadArgs struct {
	Application string `arg:"" help:"Application the alarms belong to."`
	BusinessID  string `arg:"" optional:"" name:"business-id" help:"The application's own id of one alarm. Select many alarms with --state and --prefix instead."`
	clientFlags

	State      []string `placeholder:"STATE,..." help:"Select alarms in these states: dead, expired."`
	Prefix     string   `help:"Select alarms whose business id begins with this text."`
	Limit      int      `default:"1000" help:"Most alarms to select; 0: all."`
	Generation int64    `placeholder:"N" help:"Condition, with a business id: the alarm has this generation."`
}

// kickCommand schedules dead and expired alarms again.
type kickCommand struct{ deadArgs }

// Run kicks, and prints the alarm or the number of alarms.
func (k *kickCommand) Run() error { return k.run(stdout, "kick", "kicked") }

// discardCommand cancels dead and expired alarms.
type discardCommand struct{ deadArgs }

// Run discards, and prints the alarm or the number of alarms.
func (d *discardCommand) Run() error { return d.run(stdout, "discard", "discarded") }

func (d *deadArgs) run(out io.Writer, action, done string) error {
	filtered := len(d.State) > 0 || d.Prefix != ""
	switch {
	case d.BusinessID == "" && !filtered:
		return errors.New("give a business id, --prefix or --state (--state dead,expired is all of them)")
	case d.BusinessID != "" && filtered:
		return errors.New("give a business id or a filter, not both")
	case d.BusinessID == "" && d.Generation != 0:
		return errors.New("--generation goes with a business id")
	case d.BusinessID == "":
		return d.runFiltered(out, action, done)
	}
	response, err := d.call(http.MethodPost, keyArgs{d.Application, d.BusinessID}.path()+"/"+action, nil, ifMatch(d.Generation))
	if err != nil {
		return err
	}
	return d.print(response)
}

// runFiltered follows the server's cursors until the limit is reached or no alarm is left.
func (d *deadArgs) runFiltered(out io.Writer, action, done string) error {
	total, failed, cursor := 0, 0, ""
	for {
		response, err := d.page(action, d.Limit-total-failed, cursor)
		if err != nil {
			return fmt.Errorf("after %d were %s: %w", total, done, err)
		}
		var r struct {
			Kicked, Discarded, Failed int
			Cursor                    *string
		}
		if err := json.Unmarshal(response, &r); err != nil {
			return fmt.Errorf("the server's response cannot be read: %w", err)
		}
		total, failed = total+r.Kicked+r.Discarded, failed+r.Failed
		more := r.Cursor != nil
		if !more || d.Limit > 0 && total+failed >= d.Limit {
			return d.printCounts(out, done, total, failed, more)
		}
		cursor = *r.Cursor
	}
}

func (d *deadArgs) page(action string, left int, cursor string) ([]byte, error) {
	body := map[string]any{"limit": clock.MaxDeadLimit, "prefix": d.Prefix, "cursor": cursor}
	if d.Limit > 0 {
		body["limit"] = min(left, clock.MaxDeadLimit)
	}
	if len(d.State) > 0 {
		body["state"] = d.State
	}
	return d.call(http.MethodPost, "/v1/applications/"+url.PathEscape(d.Application)+"/"+action, body, nil)
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
