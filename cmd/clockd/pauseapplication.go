package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

type applicationPauseCommand struct {
	settingsArgs
	changeFlags

	Wait time.Duration `default:"30s" help:"How long to wait until all nodes confirm the pause."`
}

// Run pauses the application, and waits until every living node confirms that it starts no claim of it.
func (p *applicationPauseCommand) Run(values *sources) error {
	if p.Wait < 0 {
		return usagef("--wait must not be negative")
	}
	p.timeout, p.remarks = storeTimeout+p.Wait, true
	return p.change(values, &p.changeFlags, withPaused(true), p.awaitNodes)
}

type applicationResumeCommand struct {
	settingsArgs
	changeFlags
}

// Run resumes the application. Every node applies it within 2 s.
func (r *applicationResumeCommand) Run(values *sources) error {
	r.remarks = true
	return r.change(values, &r.changeFlags, withPaused(false), nil)
}

// withPaused returns an edit that makes a document with another value of paused.
func withPaused(paused bool) func(before *shownSettings) (string, error) {
	return func(before *shownSettings) (string, error) {
		return before.edited(func(document map[string]any) error {
			document["paused"] = paused
			return nil
		})
	}
}

// confirmationPoll is the time between two looks at the nodes.
const confirmationPoll = 200 * time.Millisecond

// awaitNodes waits until every node has confirmed all changes so far, or has lost its leases.
func (p *applicationPauseCommand) awaitNodes(ctx context.Context, home settingsHome) error {
	begun := time.Now()
	var changes int64
	for first := true; ; first = false {
		seen, err := home.nodes(ctx)
		if err != nil {
			return fmt.Errorf("%s is paused, but it is unknown whether all nodes have confirmed it: run the command again: %w", p.Name, err)
		}
		if first {
			changes = seen.changes
		}
		waiting := seen.unconfirmed(changes, begun)
		if len(waiting) == 0 {
			return p.confirm(ctx, home)
		}
		if time.Since(begun) >= p.Wait {
			return fmt.Errorf("%s is paused, but not every node has confirmed it within %s: %s. Run the command again to wait longer",
				p.Name, p.Wait, strings.Join(waiting, "; "))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is paused, but not every node has confirmed it: %s", p.Name,
				strings.Join(waiting, "; "))
		case <-time.After(confirmationPoll):
		}
	}
}

// confirm prints the confirmation of the pause, unless somebody has ended it meanwhile.
func (p *applicationPauseCommand) confirm(ctx context.Context, home settingsHome) error {
	now, err := home.get(ctx, p.Name)
	if err != nil {
		return fmt.Errorf("every node has confirmed that %s is paused; whether it still is, is unknown: %w", p.Name, err)
	}
	if document, err := membersOf(now.Settings); err != nil || document["paused"] != true {
		return fmt.Errorf("%s is not paused any more: meanwhile its settings have got version %d", p.Name, now.Version)
	}
	if p.JSON {
		return json.NewEncoder(stdout).Encode(map[string]any{"application": p.Name, "confirmed": true})
	}
	_, err = fmt.Fprintf(stdout, "%s is paused: every node has confirmed that it starts no ring of it\n", p.Name)
	return err
}

// unconfirmed describes the nodes that may still start claims which these changes of settings forbid. begun is a time
// after the changes. A node whose leases have ended starts none once its settings are too old, at the latest
// settings.HoldAfter after the change.
func (c *confirmations) unconfirmed(changes int64, begun time.Time) (waiting []string) {
	for i := range c.nodes {
		n := &c.nodes[i]
		held := time.Since(begun) > settings.HoldAfter || c.now > n.expires.Add(settings.HoldAfter)
		shown := fmt.Sprintf("node %q (%s)", n.name, n.incarnation)
		switch {
		case n.settings >= changes, !n.alive && held:
		case n.settings == store.SettingsUnknown && n.alive:
			waiting = append(waiting,
				fmt.Sprintf("%s runs build %s, which cannot confirm it: replace the node by a newer one, or stop it",
					shown, n.version))
		case n.alive:
			waiting = append(waiting, shown+" has not confirmed it")
		default:
			waiting = append(waiting, shown+" has lost its leases, and may still end rings that it began")
		}
	}
	return waiting
}
