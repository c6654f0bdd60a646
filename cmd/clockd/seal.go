package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// keyFlags give the keys that encrypt the secrets of settings in the database.
type keyFlags struct {
	SecretKey []string `env:"CLOCKD_SECRET_KEY" placeholder:"KEY,..." help:"Keys that encrypt the secrets of settings in the database, each 32 bytes in base64. The first encrypts, and all decrypt. Better in a file that CLOCKD_SECRET_KEY_FILE names, a key on each line: other users see flags."`
}

// form returns the form of settings with the keys.
func (f keyFlags) form() (*settings.Form, error) {
	keys, err := settings.ParseKeys(strings.Join(f.SecretKey, "\n"))
	if err != nil {
		return nil, fmt.Errorf("keys of secrets (CLOCKD_SECRET_KEY_FILE, CLOCKD_SECRET_KEY): %w", err)
	}
	return settingsForm.WithKeys(keys), nil
}

// guarded is a database that takes no settings with secrets which a node could not read.
type guarded struct {
	store.Store
	form *settings.Form
}

// ChangeSettings refuses encrypted secrets while a living node lacks their key. It also refuses secrets beside those of
// a key that is not given here: the nodes have other keys than this process.
func (g guarded) ChangeSettings(ctx context.Context, change settings.Change) (settings.Version, error) {
	encrypted := settings.KeyOf(change.Document) != ""
	if encrypted {
		if err := nodesHaveKey(ctx, g.Store, g.form.Keys()); err != nil {
			return settings.Version{}, err
		}
	}
	if encrypted || g.form.Hides(change.Document) {
		if err := g.knowsKeys(ctx, change.Application); err != nil {
			return settings.Version{}, err
		}
	}
	return g.Store.ChangeSettings(ctx, change)
}

// knowsKeys returns an error if the settings of another application have a key that is not given here.
func (g guarded) knowsKeys(ctx context.Context, except string) error {
	all, err := g.AllSettings(ctx)
	if err != nil {
		return err
	}
	known := g.form.Keys().IDs()
	for i := range all {
		id := settings.KeyOf(all[i].Document)
		if id != "" && all[i].Application != except && !slices.Contains(known, id) {
			return lacksKey(fmt.Sprintf("the secrets of %s are encrypted, and their key %s is not given here "+
				"(CLOCKD_SECRET_KEY_FILE)", all[i].Application, id))
		}
	}
	return nil
}

// lacksKey returns a refusal of secrets.
func lacksKey(why string) error {
	return &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeMissingKey, Detail: why}
}

// nodesHaveKey returns an error with the living nodes that lack the key with which a command encrypts, if it has one.
func nodesHaveKey(ctx context.Context, st store.Store, keys settings.Keys) error {
	if len(keys.IDs()) == 0 {
		return nil
	}
	id := keys.IDs()[0]
	lack, err := livingNodes(ctx, st, func(n *store.Node) bool { return !n.HasKey(id) })
	if err == nil && lack != "" {
		err = lacksKey(fmt.Sprintf("these nodes report no key %s and could not read its secrets: %s. Give it to them "+
			"(CLOCKD_SECRET_KEY_FILE) and restart them first. Older builds report no key. A killed node counts for some "+
			"seconds", id, lack))
	}
	return err
}

// livingNodes names the living nodes that fit.
func livingNodes(ctx context.Context, st store.Store, fits func(*store.Node) bool) (names string, err error) {
	cluster, now, err := clusterOf(ctx, st)
	var list []string
	for i := range cluster.Nodes {
		if n := &cluster.Nodes[i]; n.Alive(now) && fits(n) {
			list = append(list, fmt.Sprintf("%q (%s)", n.Name, n.Incarnation))
		}
	}
	return strings.Join(list, ", "), err
}

// applicationSealCommand encrypts the settings of the time before the key.
type applicationSealCommand struct {
	storeFlags
	keyFlags

	By    string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who makes the change (default: user and host)."`
	Plain bool   `help:"Decrypt all settings, as before the keys are taken away."`
}

// Help returns the text after the flags.
func (*applicationSealCommand) Help() string {
	return "The command encrypts the secrets in the settings of all applications, and in their history, with the first key of CLOCKD_SECRET_KEY_FILE. " +
		"It passes over settings with this key. Settings with another key of the file get the first one. " +
		"Give all nodes the key first: the command fails while a node without it is alive. --plain decrypts all. See docs/security.md."
}

// Run seals.
func (s *applicationSealCommand) Run() error {
	form, err := s.form()
	if err != nil {
		return usage(err)
	}
	ids := form.Keys().IDs()
	if len(ids) == 0 {
		return usagef("no key is given: CLOCKD_SECRET_KEY_FILE names a file with one, as `openssl rand -base64 32` prints it")
	}
	return s.withStore(func(ctx context.Context, st store.Store) error {
		if !s.Plain {
			if err := nodesHaveKey(ctx, st, form.Keys()); err != nil {
				return err
			}
		}
		all, err := st.AllSettings(ctx)
		if err != nil {
			return err
		}
		documents, applications, failed, former := 0, 0, 0, 0
		for i := range all {
			n, faults, err := s.seal(ctx, st, form, all[i].Application)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].Application, err)
			}
			for _, version := range slices.Sorted(maps.Keys(faults)) {
				_, _ = fmt.Fprintf(stderr, "%s, version %d: %v\n", all[i].Application, version, faults[version])
			}
			documents, former = documents+n, former+len(faults)
			if faults[all[i].Version] != nil {
				failed, former = failed+1, former-1
			}
			if n > 0 {
				applications++
			}
		}
		done := "encrypted with the key " + ids[0]
		if s.Plain {
			done = "decrypted"
		}
		_, _ = fmt.Fprintf(stdout, "%s: documents %d, applications %d\n", done, documents, applications)
		if !s.Plain { // a node may have joined meanwhile
			if err := nodesHaveKey(ctx, st, form.Keys()); err != nil {
				return err
			}
		}
		if former > 0 {
			_, _ = fmt.Fprintf(stdout, "former versions that cannot be read: %d. They stay as they are, and do no harm\n",
				former)
		}
		switch {
		case failed > 0:
			return fmt.Errorf("the present settings of %d applications cannot be read and stay as they are", failed)
		case s.Plain:
			_, _ = fmt.Fprintln(stdout, "no secret is encrypted now: take the keys away from all nodes")
		case len(ids) > 1:
			others, err := livingNodes(ctx, st,
				func(n *store.Node) bool { return len(n.SecretKeys) == 0 || n.SecretKeys[0] != ids[0] })
			if err != nil {
				return err
			}
			if others != "" {
				return fmt.Errorf("these nodes still encrypt with another key: %s. Put the key %s first there, restart them, "+
					"and repeat the command before you take a key away", others, ids[0])
			}
			_, _ = fmt.Fprintf(stdout, "not used any more: %s\n", strings.Join(ids[1:], ", "))
		}
		return nil
	})
}

// seal rewrites the documents of an application, and returns how many differ. faults has the versions that stay because
// they cannot be read.
func (s *applicationSealCommand) seal(
	ctx context.Context, st store.Store, form *settings.Form, application string,
) (documents int, faults map[int64]error, err error) {
	now, err := databaseTime(ctx, st)
	if err != nil {
		return 0, nil, err
	}
	action, rewritten := "settings_seal", form.Reseal
	if s.Plain {
		action, rewritten = "settings_unseal", form.Open
	}
	faults = map[int64]error{}
	documents, err = st.RewriteSettings(ctx, settings.Rewrite{
		Application: application, Action: action, At: now, By: clock.Actor{Name: personOr(s.By)},
		Document: func(v *settings.Version) string {
			document, err := rewritten(v.Application, v.Document)
			if err != nil {
				faults[v.Version] = err
				return v.Document
			}
			return document
		},
	})
	return documents, faults, err
}
