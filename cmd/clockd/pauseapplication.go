package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

type applicationPauseCommand struct {
	settingsArgs
	changeFlags

	Wait time.Duration `default:"30s" help:"How long to wait until all nodes confirm the pause."`
}

// Run pauses the application, and waits until every living node confirms that it starts no claim of it.
func (p *applicationPauseCommand) Run() error {
	if p.Wait < 0 {
		return usagef("--wait must not be negative")
	}
	p.timeout, p.remarks = settingsTimeout+p.Wait, true
	if err := p.change(&p.changeFlags, func(before settings.Version) (string, error) { return withPaused(before, true) }); err != nil {
		return err
	}
	p.named = true
	return p.withStore(func(ctx context.Context, st store.Store) error {
		begun := time.Now()
		changes, err := st.SettingChanges(ctx)
		if err != nil {
			return fmt.Errorf("%s is paused, but no node has confirmed it: run the command again: %w", p.Name, err)
		}
		return p.awaitNodes(ctx, st, changes, begun)
	})
}

type applicationResumeCommand struct {
	settingsArgs
	changeFlags
}

// Run resumes the application. Every node applies it within 2 s.
func (r *applicationResumeCommand) Run() error {
	r.remarks = true
	return r.change(&r.changeFlags, func(before settings.Version) (string, error) { return withPaused(before, false) })
}

// withPaused returns the document with another value of paused.
func withPaused(before settings.Version, paused bool) (string, error) {
	if before.Version == 0 {
		return settingsForm.Encode(&settings.Settings{Paused: paused}), nil
	}
	s, err := settingsForm.Parse(before.Document)
	if err != nil {
		return "", fmt.Errorf("the present settings cannot be read (%w): reset them first", err)
	}
	s.Paused = paused
	return settingsForm.Encode(&s), nil
}

// confirmationPoll is the time between two looks at the nodes.
const confirmationPoll = 200 * time.Millisecond

// awaitNodes waits until every node has confirmed this number of changes, or has lost its leases. begun is a time after
// the change.
func (p *applicationPauseCommand) awaitNodes(
	ctx context.Context, st store.Store, changes int64, begun time.Time,
) error {
	for {
		waiting, err := unconfirmedNodes(ctx, st, changes, begun)
		switch {
		case err != nil:
			return fmt.Errorf("%s is paused, but it is unknown whether all nodes have confirmed it: run the command again: %w", p.Name, err)
		case len(waiting) == 0:
			return p.printConfirmed()
		case time.Since(begun) >= p.Wait:
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

func (p *applicationPauseCommand) printConfirmed() error {
	if p.JSON {
		return json.NewEncoder(stdout).Encode(map[string]any{"application": p.Name, "confirmed": true})
	}
	_, err := fmt.Fprintf(stdout, "%s is paused: every node has confirmed that it starts no ring of it\n", p.Name)
	return err
}

// unconfirmedNodes describes the nodes that may still start claims which these changes of settings forbid. A node whose
// leases have ended starts none once its settings are too old, at the latest settings.HoldAfter after the change.
func unconfirmedNodes(
	ctx context.Context, st store.Store, changes int64, begun time.Time,
) (waiting []string, err error) {
	micros, err := st.Time(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := st.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	now := clock.Instant(micros / 1000)
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		held := time.Since(begun) > settings.HoldAfter || now > n.Expires.Add(settings.HoldAfter)
		switch {
		case n.Settings >= changes, !n.Alive(now) && held:
		case n.Settings == store.SettingsUnknown && n.Alive(now):
			waiting = append(waiting,
				fmt.Sprintf("%s runs build %s, which cannot confirm it: replace the node by a newer one, or stop it",
					shownNode(n), n.Version))
		case n.Alive(now):
			waiting = append(waiting, shownNode(n)+" has not confirmed it")
		default:
			waiting = append(waiting, shownNode(n)+" has lost its leases, and may still end rings that it began")
		}
	}
	return waiting, nil
}

func shownNode(n *store.Node) string { return fmt.Sprintf("node %q (%s)", n.Name, n.Incarnation) }
