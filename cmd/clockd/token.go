package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/store"
)

// tokenCommand makes and ends access tokens. It works on the database, not over HTTP, so the first token needs no open
// interface.
type tokenCommand struct {
	Create tokenCreateCommand `cmd:"" help:"Make a token and print it. It is shown this once."`
	List   tokenListCommand   `cmd:"" help:"List all tokens, without their secrets."`
	Rotate tokenRotateCommand `cmd:"" help:"Give a token a new secret and print it. The old secret stays valid for a grace time."`
	Revoke tokenRevokeCommand `cmd:"" help:"End a token."`

	Generate tokenGenerateCommand `cmd:"" help:"Print the text of a new token, for CLOCKD_BOOTSTRAP_TOKEN_FILE. It needs no database."`
}

// tokenFlags select the database, the form of the output, and the name of the person.
type tokenFlags struct {
	storeFlags

	JSON bool   `name:"json" help:"Print JSON."`
	By   string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who makes the change (default: user and host)."`
}

// atDatabaseTime opens the database and calls do with its time.
func atDatabaseTime(f storeFlags, do func(ctx context.Context, st store.Store, now clock.Instant) error) error {
	return f.withStore(func(ctx context.Context, st store.Store) error {
		now, err := databaseTime(ctx, st)
		if err != nil {
			return err
		}
		return do(ctx, st, now)
	})
}

// print prints the text of the token to standard output, and a line for people to standard error. With --json both are
// one object.
func (f *tokenFlags) print(text access.Text, t *access.Token, now clock.Instant) error {
	if f.JSON {
		made := tokenJSON(t)
		made.Token = text.String()
		return printValue(made)
	}
	_, _ = fmt.Fprintf(stderr, "%s: token %s of %q, role %s, applications %s. It is shown this once.\n", t.ID,
		validity(t, now), t.Name, t.Role, t.Applications)
	_, err := fmt.Fprintln(stdout, text)
	return err
}

type tokenCreateCommand struct {
	Name string `arg:"" help:"Name for people, as the service or person that uses the token. It is the default of by in answers."`
	tokenFlags

	Role         string   `required:"" placeholder:"ROLE" values:"reader,application,operator,admin" help:"reader, application, operator or admin."`
	Applications []string `placeholder:"APP" help:"Applications: names, beginnings like shop-*, or * for all (default of the role admin)."`
	Expires      string   `placeholder:"90d" help:"End of the token, from now (default: it has no end)."`
}

// Run makes the token and prints it.
func (c *tokenCreateCommand) Run() error {
	lifetime, err := durationFlag("expires", c.Expires)
	if err != nil {
		return err
	}
	role, err := access.ParseRole(c.Role)
	if err != nil {
		return usagef("--role: %w", err)
	}
	applications := access.Applications(c.Applications)
	if len(applications) == 0 && role == access.Administrator {
		applications = access.Applications{"*"}
	}
	if len(applications) == 0 {
		return usagef("--applications is missing: a token of the role %s names its applications, or beginnings like 'shop-*', or '*' for all", role)
	}
	return atDatabaseTime(c.storeFlags, func(ctx context.Context, st store.Store, now clock.Instant) error {
		text := access.NewText()
		t, err := access.New(text, c.Name, role, applications, now, personOr(c.By))
		if err != nil {
			return usage(err)
		}
		if lifetime > 0 {
			t.ExpiresAt = now.Add(lifetime)
		}
		named := func(t access.Token) bool { return t.Name == c.Name && !t.IsSession() }
		if all, err := st.AllTokens(ctx); err == nil && slices.ContainsFunc(all, named) {
			_, _ = fmt.Fprintf(stderr, "another token has the name %q too: only their ids tell them apart\n", c.Name)
		}
		added, err := st.AddToken(ctx, t)
		if err != nil {
			return err
		}
		if !added {
			return errors.New("the new token has the id of another token: repeat the command")
		}
		return c.print(text, t, now)
	})
}

type tokenRotateCommand struct {
	ID string `arg:"" help:"Id of the token, as in the list, or the whole token."`
	tokenFlags

	Grace string `default:"24h" placeholder:"24h" help:"Time for which the old secret stays valid (0s: it ends at once)."`
}

// Run gives the token a new secret and prints it.
func (r *tokenRotateCommand) Run() error {
	grace, err := durationFlag("grace", r.Grace)
	if err != nil {
		return err
	}
	id, err := tokenID(r.ID)
	if err != nil {
		return err
	}
	return atDatabaseTime(r.storeFlags, func(ctx context.Context, st store.Store, now clock.Instant) error {
		text := access.NewText()
		text.ID = id
		t, err := st.ChangeToken(ctx, id, store.TokenChange{
			Action: "token_rotate", At: now, By: clock.Actor{Name: personOr(r.By)},
			Change: func(t *access.Token) error { return t.Rotate(text.Hash(), now, grace) },
		})
		if err != nil {
			return withIDs(err)
		}
		return r.print(text, &t, now)
	})
}

// tokenID returns the id that a person gives: the id, or the whole token. An error does not repeat it, because it may
// be most of a token.
func tokenID(given string) (string, error) {
	text, err := access.ParseText(given)
	switch {
	case err == nil:
		return text.ID, nil
	case strings.HasPrefix(given, "clockd_"):
		return "", usagef("this is neither the id of a token nor a whole token")
	}
	return given, nil
}

// withIDs adds to the error for an unknown token where the ids are.
func withIDs(err error) error {
	if errors.Is(err, clock.ErrNotFound) {
		return fmt.Errorf("%w: clockd token list has the ids", err)
	}
	return err
}

type tokenRevokeCommand struct {
	ID string `arg:"" help:"Id of the token, as in the list, or the whole token."`
	tokenFlags
}

// Run ends the token.
func (r *tokenRevokeCommand) Run() error {
	id, err := tokenID(r.ID)
	if err != nil {
		return err
	}
	return atDatabaseTime(r.storeFlags, func(ctx context.Context, st store.Store, now clock.Instant) error {
		t, err := st.ChangeToken(ctx, id, store.TokenChange{
			Action: "token_revoke", At: now, By: clock.Actor{Name: personOr(r.By)},
			Change: func(t *access.Token) error {
				t.Revoke(now)
				return nil
			},
		})
		if err != nil {
			return withIDs(err)
		}
		if r.JSON {
			return printValue(tokenJSON(&t))
		}
		_, err = fmt.Fprintf(stdout, "%s: token %s of %q\n", t.ID, validity(&t, now), t.Name)
		return err
	})
}

type tokenListCommand struct {
	storeFlags

	JSON     bool `name:"json" help:"Print JSON."`
	Sessions bool `help:"List the sessions of the console instead. revoke ends one."`
}

// Run lists the tokens, or the sessions.
func (l *tokenListCommand) Run() error {
	return atDatabaseTime(l.storeFlags, func(ctx context.Context, st store.Store, now clock.Instant) error {
		all, err := st.AllTokens(ctx)
		if err != nil {
			return err
		}
		parents := map[string]*access.Token{}
		for _, t := range all {
			parents[t.ID] = &t
		}
		all = slices.DeleteFunc(all, func(t access.Token) bool { return t.IsSession() != l.Sessions })
		if l.JSON {
			return printTokens(all)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "ID\tNAME\tROLE\tAPPLICATIONS\tCREATED\tBY\tLAST USED\tVALIDITY")
		for i := range all {
			t := &all[i]
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				t.ID, t.Name, t.Role, t.Applications, t.CreatedAt, t.CreatedBy, t.LastUsedAt,
				validityBeside(parents, t, now))
		}
		return table.Flush()
	})
}

type tokenGenerateCommand struct{}

// Run prints the text of a new token.
func (tokenGenerateCommand) Run() error {
	_, err := fmt.Fprintln(stdout, access.NewText())
	return err
}

// validity returns some words about the end of the token, and of its old secret.
func validity(t *access.Token, now clock.Instant) string {
	old := ""
	if t.OldSecretUntil > now {
		old = ", its old secret until " + t.OldSecretUntil.String()
	}
	switch {
	case t.RevokedAt != clock.NoInstant:
		return "revoked at " + t.RevokedAt.String()
	case t.Unreadable != nil:
		return "unreadable: " + strings.ReplaceAll(t.Unreadable.Error(), "\n", "; ")
	case t.Expired(now):
		return "expired at " + t.ExpiresAt.String()
	case t.ExpiresAt != clock.NoInstant:
		return "valid until " + t.ExpiresAt.String() + old
	}
	return "valid without end" + old
}

// validityBeside is validity for a token or a session among all. Only a node knows whether the provider of a person is
// still its own.
func validityBeside(all map[string]*access.Token, t *access.Token, now clock.Instant) string {
	if t.IsSession() && t.ParentID != access.ParentProvider && t.RevokedAt == clock.NoInstant && t.State(all[t.ParentID], now) != "valid" && !t.Expired(now) {
		return "ended with its token"
	}
	return validity(t, now)
}

// printedToken is a token as JSON.
type printedToken struct {
	ID             string        `json:"id"`
	SessionOf      string        `json:"session_of,omitempty"`
	Token          string        `json:"token,omitempty"` // text, when it is made
	Name           string        `json:"name"`
	Role           string        `json:"role"`
	Applications   []string      `json:"applications"`
	CreatedAt      clock.Instant `json:"created_at"`
	CreatedBy      string        `json:"created_by"`
	ExpiresAt      clock.Instant `json:"expires_at"`
	RevokedAt      clock.Instant `json:"revoked_at"`
	LastUsedAt     clock.Instant `json:"last_used_at"`
	OldSecretUntil clock.Instant `json:"old_secret_until"`
	Unreadable     string        `json:"unreadable,omitempty"`
}

func tokenJSON(t *access.Token) printedToken {
	p := printedToken{
		ID: t.ID, SessionOf: t.ParentID, Name: t.Name, Role: t.Role.String(), Applications: t.Applications,
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, LastUsedAt: t.LastUsedAt,
		OldSecretUntil: t.OldSecretUntil,
	}
	if t.Unreadable != nil {
		p.Unreadable = t.Unreadable.Error()
	}
	return p
}

// printTokens prints each token as one line of JSON.
func printTokens(all []access.Token) error {
	for i := range all {
		if err := printValue(tokenJSON(&all[i])); err != nil {
			return err
		}
	}
	return nil
}
