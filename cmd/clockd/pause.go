package main

import (
	"context"

	"github.com/clockd/clockd/client"
)

// pauseArgs name one alarm, and say why a person acts on it.
type pauseArgs struct {
	Application string `arg:"" help:"Application the alarm belongs to."`
	BusinessID  string `arg:"" name:"business-id" help:"The application's own id of the alarm."`
	clientFlags

	Generation *int64 `placeholder:"N" help:"Condition: the alarm has this generation."`
	Note       string `placeholder:"TEXT" help:"Why, at most 300 bytes. The audit has it, and a paused alarm has it in last_error."`
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
