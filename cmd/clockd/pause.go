package main

import (
	"context"
	"errors"

	"github.com/clockd/clockd/client"
)

// pauseArgs name one alarm, and say why a person acts on it.
type pauseArgs struct {
	Application string `arg:"" help:"Application the alarm belongs to."`
	BusinessID  string `arg:"" name:"business-id" help:"The application's own id of the alarm."`
	clientFlags

	Generation *int64 `placeholder:"N" help:"Condition: the alarm has this generation."`
	Note       string `placeholder:"TEXT" help:"Why, at most 300 bytes. The audit has it; after a pause last_error has it too."`
}

// pauseCommand keeps an alarm from ringing.
type pauseCommand struct{ pauseArgs }

// Run pauses the alarm and prints it.
func (p *pauseCommand) Run() error { return p.run((*client.Client).Pause) }

func (*pauseCommand) applicationWide(application string) string {
	return "to pause all alarms of the application, use clockd application pause " + application
}

// resumeCommand schedules a paused alarm again.
type resumeCommand struct{ pauseArgs }

// Run resumes the alarm and prints it.
func (r *resumeCommand) Run() error { return r.run((*client.Client).Resume) }

func (*resumeCommand) applicationWide(application string) string {
	return "to resume a paused application, use clockd application resume " + application
}

// triggerCommand rings an alarm now.
type triggerCommand struct{ pauseArgs }

// Run triggers the alarm and prints it.
func (t *triggerCommand) Run() error { return t.run((*client.Client).Trigger) }

func (p *pauseArgs) run(
	act func(*client.Client, context.Context, string, string, ...client.ActOption) (*client.Alarm, error),
) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	a, err := act(c, context.Background(), p.Application, p.BusinessID, actOptions(p.Generation, p.Note)...)
	return p.printAlarm(a, p.orUnknown(p.Application, err))
}

// backfillCommand rings a repeating alarm for occurrences of the past.
type backfillCommand struct {
	pauseArgs

	From  string `required:"" placeholder:"TIME" help:"First instant of the range, like 2026-11-01T00:00:00Z."`
	Until string `placeholder:"TIME" help:"Last instant of the range; default: now."`
	Limit *int   `placeholder:"N" help:"Most occurrences, at most 10000: a range with more is refused. Default: the missed_limit of the rule, or 100."`
	Pace  string `placeholder:"1s" help:"Time from the end of a ring until the next one may begin, from 0s to 24h; default 1s."`
}

// Run begins the backfill and prints the alarm.
func (b *backfillCommand) Run() error {
	if b.From == "" {
		return usagef("--from must not be empty")
	}
	rings := client.BackfillRange{Limit: zeroUnless(b.Limit)}
	var errs [3]error
	rings.From, errs[0] = instantFlag("from", b.From)
	rings.Until, errs[1] = instantFlag("until", b.Until)
	pace, err := durationFlag("pace", b.Pace)
	errs[2] = err
	if b.Pace != "" {
		rings.Pace = &pace
	}
	if err := errors.Join(append(errs[:], notZero("limit", b.Limit))...); err != nil {
		return err
	}
	return b.run(func(
		c *client.Client, ctx context.Context, application, businessID string, options ...client.ActOption,
	) (*client.Alarm, error) {
		return c.Backfill(ctx, application, businessID, rings, options...)
	})
}

// endBackfillCommand ends a backfill.
type endBackfillCommand struct{ pauseArgs }

// Run ends the backfill and prints the alarm.
func (e *endBackfillCommand) Run() error { return e.run((*client.Client).EndBackfill) }
