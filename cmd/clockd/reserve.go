package main

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/client"
)

// reserveCommand reserves rings of an application whose target is pull.
type reserveCommand struct {
	Application string `arg:"" help:"Application whose rings to reserve."`
	clientFlags

	Count int    `default:"1" help:"Most rings to reserve, 1 to 64."`
	Wait  string `default:"20s" placeholder:"20s" help:"Time to wait for a ring, 100ms to 1m."`
	Ack   bool   `help:"Acknowledge each ring after it is printed, if it needs an answer."`
}

// Run prints each reserved ring as a line. Without a ring it says so on standard error.
func (r *reserveCommand) Run() error {
	wait, err := durationFlag("wait", r.Wait)
	if err != nil {
		return err
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	ctx := context.Background()
	rings, err := c.Reserve(ctx, r.Application, r.Count, wait)
	if err != nil {
		return r.explained(r.orUnknown(r.Application, err))
	}
	if len(rings) == 0 {
		_, _ = fmt.Fprintf(stderr, "no alarm of %s was due within %s\n", r.Application, r.Wait)
		r.remarkUnknown(r.Application)
	}
	for i := range rings {
		if err := r.take(ctx, c, &rings[i]); err != nil {
			return err
		}
	}
	return nil
}

// take prints a ring, and acknowledges it with --ack.
func (r *reserveCommand) take(ctx context.Context, c *client.Client, ring *client.Ring) error {
	if err := printRing(ring, r.JSON); err != nil {
		return err
	}
	if !r.Ack || ring.AckTimeout == 0 {
		return nil
	}
	_, err := c.Ack(ctx, r.Application, ring.MessageID)
	return r.explained(err)
}
