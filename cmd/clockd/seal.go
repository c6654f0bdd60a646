package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// keyFlags give the keys that encrypt the secrets of settings in the database.
type keyFlags struct {
	SecretKey string `env:"CLOCKD_SECRET_KEY" placeholder:"KEY ..." help:"Keys that encrypt the secrets of settings in the database, each 32 bytes in base64. The first encrypts, and all decrypt. Better in a file that CLOCKD_SECRET_KEY_FILE names: other users see flags."`
}

// form returns the form of settings with the keys.
func (f keyFlags) form() (*settings.Form, error) {
	keys, err := settings.ParseKeys(f.SecretKey)
	if err != nil {
		return nil, fmt.Errorf("key of secrets: %w", err)
	}
	return settingsForm.WithKeys(keys), nil
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
	return "The command encrypts the secrets of the settings of all applications with the first key of CLOCKD_SECRET_KEY_FILE, also in their history. " +
		"Settings that it encrypts already stay as they are. Give all nodes the key first: the alarms of an application wait at a node that cannot read its settings. See docs/security.md."
}

// Run seals.
func (s *applicationSealCommand) Run() error {
	form, err := s.form()
	if err != nil {
		return usage(err)
	}
	if s.SecretKey == "" {
		return usagef("no key is given: CLOCKD_SECRET_KEY_FILE names a file with one, as `openssl rand -base64 32` prints it")
	}
	return s.withStore(func(ctx context.Context, st store.Store) error {
		all, err := st.AllSettings(ctx)
		if err != nil {
			return err
		}
		documents, failed := 0, 0
		for i := range all {
			n, faults, err := s.seal(ctx, st, form, all[i].Application)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].Application, err)
			}
			for _, version := range slices.Sorted(maps.Keys(faults)) {
				_, _ = fmt.Fprintf(stderr, "%s, version %d: %v\n", all[i].Application, version, faults[version])
			}
			documents, failed = documents+n, failed+len(faults)
		}
		done := "encrypted"
		if s.Plain {
			done = "decrypted"
		}
		_, _ = fmt.Fprintf(stdout, "%s: %d documents of %d applications\n", done, documents, len(all))
		if failed > 0 {
			return fmt.Errorf("%d documents cannot be read and stay as they are", failed)
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
