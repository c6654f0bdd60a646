package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// applicationCommand reads and changes the settings of applications. It works on the database, not over HTTP: who only
// reaches a node's port must not send an application's rings elsewhere.
type applicationCommand struct {
	List    applicationListCommand    `cmd:"" help:"List the applications that have settings."`
	Show    applicationShowCommand    `cmd:"" aliases:"get" help:"Show the settings of an application."`
	Set     applicationSetCommand     `cmd:"" help:"Change settings of an application. Settings that are not named stay."`
	Pause   applicationPauseCommand   `cmd:"" help:"Let no alarm of an application ring, and wait until all nodes confirm it."`
	Resume  applicationResumeCommand  `cmd:"" help:"Let the alarms of a paused application ring again."`
	Reset   applicationResetCommand   `cmd:"" help:"Give an application all defaults again."`
	History applicationHistoryCommand `cmd:"" help:"Show the versions of an application's settings."`
}

// settingsFlags select the database and the form of the output.
type settingsFlags struct {
	databaseFlags

	JSON bool `name:"json" help:"Print JSON."`

	timeout time.Duration `kong:"-"` // bound of the command; 0: settingsTimeout
	named   bool          `kong:"-"` // the command has already named the database
}

// settingsArgs name an application.
type settingsArgs struct {
	Name string `arg:"" name:"application" help:"Application the settings belong to."`
	settingsFlags

	remarks bool `kong:"-"` // print a line if nothing of the application is known
}

// settingsTimeout bounds a command.
const settingsTimeout = 30 * time.Second

// withStore opens the database, names it on standard error, and calls do. It neither makes a database nor changes the
// schema.
func (f settingsFlags) withStore(do func(ctx context.Context, st store.Store) error) error {
	st, err := newStore(f.databaseFlags, spareRingConns, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return &configError{reasons: err}
	}
	if err := f.checkExists(); err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.timeout, settingsTimeout))
	defer cancel()
	if err := st.Check(ctx); err != nil {
		return errors.Join(fmt.Errorf("open database %s: %w", f.name(), err), st.Close())
	}
	if !f.named {
		_, _ = fmt.Fprintln(stderr, "database:", f.name())
	}
	return errors.Join(do(ctx, st), st.Close())
}

// Run lists the settings.
func (l *applicationListCommand) Run() error {
	return l.withStore(func(ctx context.Context, st store.Store) error {
		all, err := st.AllSettings(ctx)
		if err != nil {
			return err
		}
		if l.JSON {
			return printVersions(all)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "APPLICATION\tVERSION\tCHANGED\tBY\tSETTINGS")
		for _, v := range all {
			_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", v.Application, v.Version, v.ChangedAt, v.ChangedBy,
				listedDocument(&v))
		}
		return table.Flush()
	})
}

type applicationListCommand struct{ settingsFlags }

type applicationShowCommand struct {
	settingsArgs

	Secrets bool `help:"Show the settings as JSON with the signing secrets and headers of the webhook."`
}

// Run shows the settings.
func (s *applicationShowCommand) Run() error {
	return s.withStore(func(ctx context.Context, st store.Store) error {
		v, err := s.read(ctx, st)
		if err != nil {
			return err
		}
		if v.Version == 0 {
			s.remarkUnknown(ctx, st)
		}
		if s.Secrets {
			_, err = fmt.Fprintln(stdout, cmp.Or(v.Document, "{}"))
			return err
		}
		return s.print(v)
	})
}

// read returns the current settings.
func (s *settingsArgs) read(ctx context.Context, st store.Store) (settings.Version, error) {
	if err := clock.ValidateApplication(s.Name); err != nil {
		return settings.Version{}, usage(err)
	}
	return st.Settings(ctx, s.Name)
}

// print prints one version: as JSON, or in lines for people.
func (s *settingsArgs) print(v settings.Version) error {
	if s.JSON {
		return printValue(versionJSON(&v))
	}
	text, err := describeSettings(&v)
	_, printErr := fmt.Fprint(stdout, text)
	return errors.Join(err, printErr)
}

// changeFlags are the flags of commands that change settings.
type changeFlags struct {
	By        string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who changes the settings, for the history (default: user and host)."`
	IfVersion int64  `default:"-1" placeholder:"N" help:"Condition: the settings have this version (0: none yet)."`
}

type applicationSetCommand struct {
	settingsArgs
	changeFlags
	settingFlags
}

// Run changes the settings and shows them. A signing secret that was made is shown once; with --json it goes to
// standard error.
func (s *applicationSetCommand) Run() error {
	err := s.change(&s.changeFlags, s.next)
	if err == nil {
		out := io.Writer(stdout)
		if s.JSON {
			out = stderr
		}
		if s.made != "" {
			_, _ = fmt.Fprintf(out, "new signing secret: %s\n", s.made)
		}
	}
	return err
}

type applicationResetCommand struct {
	settingsArgs
	changeFlags
}

// Run resets the settings and shows them. The versions go on counting.
func (r *applicationResetCommand) Run() error {
	r.remarks = true
	return r.change(&r.changeFlags, func(settings.Version) (string, error) { return "{}", nil })
}

// change writes the document that next makes of the current settings, and shows the result. Without a condition of its
// own it makes sure that the settings have not changed meanwhile.
func (s *settingsArgs) change(flags *changeFlags, next func(before settings.Version) (string, error)) error {
	by := flags.by()
	if len(by) > settings.MaxChangedBy {
		return usagef("--by has %d bytes; at most %d are kept", len(by), settings.MaxChangedBy)
	}
	if !utf8.ValidString(by) {
		return usagef("--by: %w", errNotUTF8)
	}
	return s.withStore(func(ctx context.Context, st store.Store) error {
		if s.remarks {
			s.remarkUnknown(ctx, st)
		}
		const tries = 5
		for try := 1; ; try++ {
			v, err := s.tryChange(ctx, st, by, flags.IfVersion, next)
			if errors.Is(err, clock.ErrPrecondition) && flags.IfVersion == settings.AnyVersion && try < tries {
				continue
			}
			if err != nil {
				return err
			}
			return s.print(v)
		}
	})
}

func (s *settingsArgs) tryChange(
	ctx context.Context, st store.Store, by string, ifVersion int64, next func(before settings.Version) (string, error),
) (settings.Version, error) {
	before, err := s.read(ctx, st)
	if err != nil {
		return before, err
	}
	if ifVersion == settings.AnyVersion {
		ifVersion = before.Version
	}
	document, err := next(before)
	if err != nil {
		return before, err
	}
	if ifVersion == before.Version && document == before.Document {
		_, _ = fmt.Fprintln(stderr, "unchanged")
		return before, nil
	}
	micros, err := st.Time(ctx)
	if err != nil {
		return before, err
	}
	return st.ChangeSettings(ctx, settings.Change{
		Application: s.Name, Document: document, At: clock.Instant(micros / 1000), By: by, IfVersion: ifVersion,
	})
}

// by returns who changes the settings.
func (c *changeFlags) by() string { return personOr(c.By) }

// personOr returns the name, or the name of the person that runs the command.
func personOr(name string) string { return cmp.Or(name, personName()) }

// personName returns the user and host that run the command, for the records of changes.
func personName() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name[:min(len(name), settings.MaxChangedBy)]
}

// next returns the document after the change.
func (s *applicationSetCommand) next(before settings.Version) (string, error) {
	if !s.given() {
		return "", usagef("name a setting to change: %s", s.names())
	}
	document := map[string]any{}
	if before.Version > 0 {
		if _, err := settingsForm.Parse(before.Document); err != nil {
			return "", fmt.Errorf("the present settings cannot be read (%w): reset them first", err)
		}
		if err := json.Unmarshal([]byte(before.Document), &document); err != nil {
			return "", err
		}
	}
	if err := s.apply(settingsForm, document); err != nil {
		return "", err
	}
	changed, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	after, err := settingsForm.Parse(string(changed))
	if err != nil {
		return "", usage(withField(err))
	}
	return settingsForm.Encode(&after), nil
}

// withField adds the field at fault to the error's text.
func withField(err error) error {
	if e, is := errors.AsType[*clock.Error](err); is && e.Field != "" {
		return fmt.Errorf("%w (field %s)", err, e.Field)
	}
	return err
}

type applicationHistoryCommand struct {
	settingsArgs

	Limit int `default:"20" help:"Most versions to show."`
}

// Run shows the newest versions.
func (h *applicationHistoryCommand) Run() error {
	if h.Limit < 1 || h.Limit > settings.MaxHistory {
		return usagef("--limit must be from 1 to %d", settings.MaxHistory)
	}
	return h.withStore(func(ctx context.Context, st store.Store) error {
		if err := clock.ValidateApplication(h.Name); err != nil {
			return usage(err)
		}
		versions, err := st.SettingsHistory(ctx, h.Name, h.Limit)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			h.remarkUnknown(ctx, st)
		}
		if h.JSON {
			return printVersions(versions)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "VERSION\tCHANGED\tBY\tSETTINGS")
		for _, v := range versions {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", v.Version, v.ChangedAt, v.ChangedBy, listedDocument(&v))
		}
		return table.Flush()
	})
}

// printValue prints a value as one line of JSON.
func printValue(v any) error { return json.NewEncoder(stdout).Encode(v) }
