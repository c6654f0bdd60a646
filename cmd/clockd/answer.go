package main

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/client"
)

// answerArgs name a ring.
type answerArgs struct {
	MessageID string `arg:"" name:"message-id" help:"Message id of the ring, such as 4711.1.1."`
	clientFlags

	Application string `placeholder:"NAME" help:"Application of the ring. Default: the server finds it by the message id."`
	By          string `placeholder:"NAME" help:"Who answers, for reports. Default: the address of this machine."`
}

// answer sends the answer and prints the alarm.
func (a *answerArgs) answer(answer client.Answer) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx := context.Background()
	application := a.Application
	if application == "" {
		if application, err = a.find(ctx, c); err != nil {
			return err
		}
	}
	answer.By = a.By
	alarm, err := c.Answer(ctx, application, a.MessageID, answer)
	return a.printAlarm(alarm, a.orUnknown(application, err))
}

// find returns the application of the ring.
func (a *answerArgs) find(ctx context.Context, c *client.Client) (application string, err error) {
	found, err := c.Search(ctx, client.SearchQuery{Text: a.MessageID, Limit: 1}) // the alarm of a message id comes first
	if err != nil {
		return "", a.explained(err)
	}
	if len(found.Alarms) == 0 {
		return "", fmt.Errorf("no alarm has rung with the message id %q", a.MessageID)
	}
	return found.Alarms[0].Application, nil
}

// ackCommand acknowledges a ring.
type ackCommand struct{ answerArgs }

// Run acknowledges the ring and prints its alarm.
func (a *ackCommand) Run() error { return a.answer(client.Answer{Kind: client.Acked}) }

// releaseCommand lets the alarm of a ring ring again.
type releaseCommand struct {
	answerArgs

	Delay  string `placeholder:"30s" help:"Ring again after this time. Default: at once."`
	Reason string `help:"Reason, for reports: at most 500 bytes."`
}

// Run releases the alarm and prints it.
func (r *releaseCommand) Run() error {
	delay, err := durationFlag("delay", r.Delay)
	if err != nil {
		return err
	}
	return r.answer(client.Answer{Kind: client.Released, Delay: delay, Reason: r.Reason})
}

// buryCommand makes the alarm of a ring dead.
type buryCommand struct {
	answerArgs

	Reason string `help:"Reason, for reports: at most 500 bytes."`
}

// Run buries the alarm and prints it.
func (b *buryCommand) Run() error {
	return b.answer(client.Answer{Kind: client.Buried, Reason: b.Reason})
}

// touchCommand gives the receiver of a ring more time.
type touchCommand struct {
	answerArgs

	Delay string `placeholder:"30s" help:"Time for the answer from now. Default: the ack timeout of the alarm."`
}

// Run touches the ring and prints its alarm.
func (t *touchCommand) Run() error {
	delay, err := durationFlag("delay", t.Delay)
	if err != nil {
		return err
	}
	return t.answer(client.Answer{Kind: client.Touched, Delay: delay})
}
