package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// settingsHome is where commands read and change settings: the database, or a server. Neither shows secrets.
type settingsHome interface {
	// get returns the current settings of an application.
	get(ctx context.Context, application string) (*shownSettings, error)
	// all returns the current settings of all applications that have settings, by name.
	all(ctx context.Context) ([]*shownSettings, error)
	// history returns at most limit versions, the newest first.
	history(ctx context.Context, application string, limit int) ([]*shownSettings, error)
	// change makes the document the next version. It returns clock.ErrPrecondition or client.CodeConditionFailed if the
	// settings have another version.
	change(ctx context.Context, application, document string, ifVersion int64) (*shownSettings, error)
	// nodes returns the nodes, and the number of changes of settings so far.
	nodes(ctx context.Context) (*confirmations, error)
	// remark prints a line if nothing of the application is known.
	remark(ctx context.Context, application string)
}

// confirmations tell how far the nodes have confirmed changes of settings.
type confirmations struct {
	changes int64         // changes of settings so far, counted before the nodes were read
	now     clock.Instant // database's time
	nodes   []confirmingNode
}

// confirmingNode is a node as confirmations have it.
type confirmingNode struct {
	name, incarnation, version string
	settings                   int64 // changes of settings that it has confirmed, or store.SettingsUnknown
	alive                      bool
	expires                    clock.Instant
}

// storedHome is the database.
type storedHome struct {
	store.Store
	editor *settings.Editor
	by     string // who changes settings
}

func newStoredHome(st store.Store, form *settings.Form, by string) *storedHome {
	now := func(ctx context.Context) (clock.Instant, error) { return databaseTime(ctx, st) }
	return &storedHome{st, settings.NewEditor(settings.EditorDeps{
		Form: form, Stored: guarded{st, form}, Now: now, Trusted: true, // who has the database and its key has the values
	}), by}
}

func (h *storedHome) get(ctx context.Context, application string) (*shownSettings, error) {
	v, err := h.editor.Get(ctx, application)
	return settingsOf(&v), err
}

func (h *storedHome) all(ctx context.Context) ([]*shownSettings, error) {
	versions, err := h.AllSettings(ctx)
	all := make([]*shownSettings, len(versions))
	for i := range versions {
		v := h.editor.View(&versions[i])
		all[i] = settingsOf(&v)
	}
	return all, err
}

func (h *storedHome) history(ctx context.Context, application string, limit int) ([]*shownSettings, error) {
	versions, err := h.editor.History(ctx, application, limit)
	all := make([]*shownSettings, len(versions))
	for i := range versions {
		all[i] = settingsOf(&versions[i])
	}
	return all, err
}

func (h *storedHome) change(
	ctx context.Context, application, document string, ifVersion int64,
) (*shownSettings, error) {
	v, err := h.editor.Change(ctx, settings.Request{
		Application: application, Document: document, IfVersion: ifVersion, By: clock.Actor{Name: h.by},
		Quotas: true,
	})
	if errors.Is(err, clock.ErrInvalid) {
		err = usage(withField(err))
	}
	return settingsOf(&v), err
}

func (h *storedHome) nodes(ctx context.Context) (*confirmations, error) {
	changes, err := h.SettingChanges(ctx)
	if err != nil {
		return nil, err
	}
	cluster, now, err := clusterOf(ctx, h)
	if err != nil {
		return nil, err
	}
	c := &confirmations{changes: changes, now: now}
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		c.nodes = append(c.nodes, confirmingNode{
			name: n.Name, incarnation: n.Incarnation, version: n.Version, settings: n.Settings, alive: n.Alive(c.now),
			expires: n.Expires,
		})
	}
	return c, nil
}

func (h *storedHome) remark(ctx context.Context, application string) {
	all, err := h.AllSettings(ctx)
	if err != nil {
		return
	}
	names, err := h.Applications(ctx, "", mostLooked)
	if err != nil || len(names) == mostLooked {
		return
	}
	for i := range all {
		names = append(names, all[i].Application)
	}
	if unknown := unknownApplication(application, names); unknown != "" {
		_, _ = fmt.Fprintln(stderr, unknown)
	}
}

// serverHome is a server. It knows by the token who changes settings.
type serverHome struct {
	flags  serverFlags
	server *client.Client
}

func (h *serverHome) get(ctx context.Context, application string) (*shownSettings, error) {
	s, err := h.server.Settings(ctx, application)
	if err != nil {
		return nil, h.flags.explained(err)
	}
	return receivedSettings(application, &s.SettingsVersion, s.Effective), nil
}

func (h *serverHome) all(ctx context.Context) (all []*shownSettings, err error) {
	for a, err := range h.server.Applications(ctx, client.ApplicationFilter{}) {
		if err != nil {
			return nil, h.flags.explained(err)
		}
		if a.SettingsVersion == 0 {
			continue
		}
		s, err := h.get(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (h *serverHome) history(ctx context.Context, application string, limit int) ([]*shownSettings, error) {
	versions, err := h.server.SettingsHistory(ctx, application, limit)
	if err != nil {
		return nil, h.flags.explained(err)
	}
	all := make([]*shownSettings, len(versions))
	for i := range versions {
		all[i] = receivedSettings(application, &versions[i], nil)
	}
	return all, nil
}

func (h *serverHome) change(
	ctx context.Context, application, document string, ifVersion int64,
) (*shownSettings, error) {
	s, err := h.server.ChangeSettings(ctx, application, []byte(document), client.IfSettings(ifVersion))
	if err != nil {
		return nil, h.flags.explained(err)
	}
	return receivedSettings(application, &s.SettingsVersion, s.Effective), nil
}

func (h *serverHome) nodes(ctx context.Context) (*confirmations, error) {
	cluster, err := h.server.Nodes(ctx)
	if err != nil {
		return nil, h.flags.explained(err)
	}
	c := &confirmations{changes: cluster.SettingsChanges, now: clock.InstantOf(cluster.DatabaseTime)}
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		confirmed := int64(store.SettingsUnknown)
		if n.Settings != nil {
			confirmed = *n.Settings
		}
		c.nodes = append(c.nodes, confirmingNode{
			name: n.Name, incarnation: n.Incarnation, version: n.Version, settings: confirmed, alive: n.Alive,
			expires: clock.InstantOf(n.ExpiresAt),
		})
	}
	return c, nil
}

func (h *serverHome) remark(_ context.Context, application string) {
	h.flags.remarkUnknown(application)
}

// otherVersion reports whether a change was refused because the settings have another version.
func otherVersion(err error) bool {
	refused, is := errors.AsType[*client.Error](err)
	return errors.Is(err, clock.ErrPrecondition) || is && refused.Code == client.CodeConditionFailed
}
