package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// applicationCommand reads and changes the settings of applications: over the network with a token, or in the database,
// which needs none.
type applicationCommand struct {
	List    applicationListCommand    `cmd:"" help:"List the applications that have settings."`
	Show    applicationShowCommand    `cmd:"" aliases:"get" help:"Show the settings of an application."`
	Set     applicationSetCommand     `cmd:"" help:"Change settings of an application. Settings that are not named stay."`
	Pause   applicationPauseCommand   `cmd:"" help:"Let no alarm of an application ring, and wait until all nodes confirm it."`
	Resume  applicationResumeCommand  `cmd:"" help:"Let the alarms of a paused application ring again."`
	Reset   applicationResetCommand   `cmd:"" help:"Give an application all defaults again."`
	History applicationHistoryCommand `cmd:"" help:"Show the versions of an application's settings."`
	Seal    applicationSealCommand    `cmd:"" help:"Encrypt the secrets of all stored settings with the key of CLOCKD_SECRET_KEY_FILE."`
}

// storeFlags select the database.
type storeFlags struct {
	databaseFlags

	timeout time.Duration `kong:"-"` // bound of the command; 0: storeTimeout
}

// settingsFlags select the database or the server, and the form of the output.
type settingsFlags struct {
	storeFlags
	serverFlags
	keyFlags

	JSON bool `name:"json" help:"Print JSON."`
}

// settingsArgs name an application.
type settingsArgs struct {
	Name string `arg:"" name:"application" help:"Application the settings belong to."`
	settingsFlags

	remarks bool `kong:"-"` // print a line if nothing of the application is known
}

// storeTimeout bounds a command.
const storeTimeout = 30 * time.Second

// withStore opens the database, names it on standard error, and calls do. It neither makes a database nor changes the
// schema.
func (f storeFlags) withStore(do func(ctx context.Context, st store.Store) error) error {
	st, err := newStore(f.databaseFlags, spareRingConns, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return &configError{reasons: err}
	}
	if err := f.checkExists(); err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, stop := f.bounded()
	defer stop()
	if err := st.Check(ctx); err != nil {
		return errors.Join(fmt.Errorf("open database %s: %w", f.name(), err), st.Close())
	}
	_, _ = fmt.Fprintln(stderr, "database:", f.name())
	return errors.Join(do(ctx, st), st.Close())
}

// databaseTime returns the database's time.
func databaseTime(ctx context.Context, st store.Store) (clock.Instant, error) {
	micros, err := st.Time(ctx)
	return clock.Instant(micros / 1000), err
}

// clusterOf reads the nodes, and the database's time.
func clusterOf(ctx context.Context, st store.Store) (store.Cluster, clock.Instant, error) {
	now, err := databaseTime(ctx, st)
	if err != nil {
		return store.Cluster{}, 0, err
	}
	cluster, err := st.Cluster(ctx)
	return cluster, now, err
}

// bounded returns the context of a command. It ends with a signal too.
func (f storeFlags) bounded() (ctx context.Context, stop func()) {
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.timeout, storeTimeout))
	return ctx, func() { cancel(); stopSignals() }
}

// remote reports whether the command works on the server: it is named, and the database is not. A flag counts more than
// the environment, and an empty variable names nothing.
func (f settingsFlags) remote(values *sources) (remote bool, err error) {
	database, server := values.kindOf("database-url"), values.kindOf("server")
	if f.DatabaseURL == "" {
		database = fromDefault
	}
	if f.Server == "" {
		server = fromDefault
	}
	switch {
	case database == fromFlag && server == fromFlag:
		return false, usagef("give --database-url or --server, not both")
	case server == fromFlag:
		remote = true
	case database == fromDefault:
		remote = server != fromDefault
	}
	if !remote && values.kindOf("token") == fromFlag {
		return false, usagef("--token is for a server: name it with --server")
	}
	return remote, nil
}

// withHome calls do with the place of the settings, and names it on standard error. by is who changes settings in the
// database.
func (f settingsFlags) withHome(
	values *sources, by string, do func(ctx context.Context, home settingsHome) error,
) error {
	remote, err := f.remote(values)
	if err != nil {
		return err
	}
	if !remote {
		form, err := f.form()
		if err != nil {
			return usage(err)
		}
		err = f.withStore(func(ctx context.Context, st store.Store) error { return do(ctx, newStoredHome(st, form, by)) })
		if errors.Is(err, errNoDatabase) && values.kindOf("database-url") == fromDefault {
			err = fmt.Errorf("%w. A service elsewhere: name it with --server (CLOCKD_SERVER)", err)
		}
		return err
	}
	if values.kindOf("by") == fromFlag {
		return usagef("--by is for changes in the database: a server knows who changes settings by the token")
	}
	server, err := f.client()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(stderr, "server:", f.shownServer())
	ctx, stop := f.bounded()
	defer stop()
	return do(ctx, &serverHome{f.serverFlags, server})
}

type applicationListCommand struct{ settingsFlags }

// Run lists the settings.
func (l *applicationListCommand) Run(values *sources) error {
	return l.withHome(values, "", func(ctx context.Context, home settingsHome) error {
		all, err := home.all(ctx)
		if err != nil {
			return err
		}
		if l.JSON {
			return printEach(all)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "APPLICATION\tVERSION\tCHANGED\tBY\tSETTINGS")
		for _, s := range all {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", s.Application, s.row())
		}
		return table.Flush()
	})
}

type applicationShowCommand struct {
	settingsArgs

	Secrets bool `help:"Show the settings as JSON with the signing secrets and headers. Only in the database."`
}

// Run shows the settings.
func (s *applicationShowCommand) Run(values *sources) error {
	if err := s.validate(); err != nil {
		return err
	}
	if s.Secrets {
		return s.showSecrets(values)
	}
	return s.withHome(values, "", func(ctx context.Context, home settingsHome) error {
		v, err := home.get(ctx, s.Name)
		if err != nil {
			return err
		}
		if v.Version == 0 {
			home.remark(ctx, s.Name)
		}
		return s.print(v)
	})
}

// showSecrets prints the document as the database has it, decrypted if the key is given.
func (s *applicationShowCommand) showSecrets(values *sources) error {
	if remote, err := s.remote(values); err != nil || remote {
		return cmp.Or(err, usagef("--secrets works on the database alone: name it with --database-url"))
	}
	form, err := s.form()
	if err != nil {
		return usage(err)
	}
	return s.withStore(func(ctx context.Context, st store.Store) error {
		v, err := st.Settings(ctx, s.Name)
		if err != nil {
			return err
		}
		document, err := form.Open(s.Name, v.Document)
		if err != nil {
			document = v.Document
		}
		_, printErr := fmt.Fprintln(stdout, cmp.Or(document, "{}"))
		return errors.Join(err, printErr)
	})
}

func (s *settingsArgs) validate() error { return usage(clock.ValidateApplication(s.Name)) }

// print prints one version: as JSON, or in lines for people.
func (s *settingsArgs) print(v *shownSettings) error {
	if s.JSON {
		return printValue(v)
	}
	text, err := v.describe()
	_, printErr := fmt.Fprint(stdout, text)
	return errors.Join(err, printErr)
}

// changeFlags are the flags of commands that change settings.
type changeFlags struct {
	By        string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who changes the settings in the database, for the history (default: user and host). A server takes the name of the token."`
	IfVersion int64  `default:"-1" placeholder:"N" help:"Condition: the settings have this version (0: none yet)."`
}

type applicationSetCommand struct {
	settingsArgs
	changeFlags
	settingFlags
}

// Run changes the settings and shows them. A signing secret that was made is shown once; with --json it goes to
// standard error.
func (s *applicationSetCommand) Run(values *sources) error {
	err := s.change(values, &s.changeFlags, s.next, nil)
	failed, is := errors.AsType[*client.Error](err)
	unconfirmed := is && failed.Unconfirmed || errors.Is(err, clock.ErrUnconfirmed)
	if unconfirmed {
		err = fmt.Errorf("%w\nthe settings may have changed: look at them with clockd application show %s", err, s.Name)
	}
	switch {
	case s.made == "" || err != nil && !unconfirmed:
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "new signing secret, if the settings have changed: %s\n", s.made)
	case s.JSON:
		_, _ = fmt.Fprintf(stderr, "new signing secret: %s\n", s.made)
	default:
		_, _ = fmt.Fprintf(stdout, "new signing secret: %s\n", s.made)
	}
	return err
}

type applicationResetCommand struct {
	settingsArgs
	changeFlags
}

// Run resets the settings and shows them. The versions go on counting.
func (r *applicationResetCommand) Run(values *sources) error {
	r.remarks = true
	return r.change(values, &r.changeFlags, func(*shownSettings) (string, error) { return "{}", nil }, nil)
}

// change writes the document that next makes of the current settings, shows the result, and calls after unless it is
// nil. Without a condition of its own it makes sure that the settings have not changed meanwhile.
func (s *settingsArgs) change(
	values *sources, flags *changeFlags, next func(before *shownSettings) (string, error),
	after func(ctx context.Context, home settingsHome) error,
) error {
	if err := s.validate(); err != nil {
		return err
	}
	by := flags.by()
	if len(by) > settings.MaxChangedBy {
		return usagef("--by has %d bytes; at most %d are kept", len(by), settings.MaxChangedBy)
	}
	if !utf8.ValidString(by) {
		return usagef("--by: %w", errNotUTF8)
	}
	return s.withHome(values, by, func(ctx context.Context, home settingsHome) error {
		if s.remarks {
			home.remark(ctx, s.Name)
		}
		v, err := s.changeAt(ctx, home, flags.IfVersion, next)
		if err == nil {
			err = s.print(v)
		}
		if err != nil || after == nil {
			return err
		}
		return after(ctx, home)
	})
}

// changeAt changes the settings. Without a condition it tries again after a change by another person.
func (s *settingsArgs) changeAt(
	ctx context.Context, home settingsHome, ifVersion int64, next func(before *shownSettings) (string, error),
) (*shownSettings, error) {
	const tries, longestPause = 20, 100 * time.Millisecond
	for try := 1; ; try++ {
		before, err := home.get(ctx, s.Name)
		if err != nil {
			return nil, err
		}
		document, err := next(before)
		if err != nil {
			return nil, err
		}
		condition := ifVersion
		if ifVersion == settings.AnyVersion {
			condition = before.Version
		}
		v, err := home.change(ctx, s.Name, document, condition)
		if otherVersion(err) && ifVersion == settings.AnyVersion && try < tries && ctx.Err() == nil {
			time.Sleep(rand.N(longestPause)) // others change the settings too
			continue
		}
		if otherVersion(err) {
			err = fmt.Errorf("%w: look at them (clockd application show %s), and try again", err, s.Name)
		}
		if err == nil && v.Version == before.Version {
			_, _ = fmt.Fprintln(stderr, "unchanged")
		}
		return v, err
	}
}

// by returns who changes the settings.
func (c *changeFlags) by() string { return personOr(c.By) }

// personOr returns the name, or the name of the person that runs the command.
func personOr(name string) string { return cmp.Or(name, personName()) }

// personName returns the user and the host of the command, for the records of changes.
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
func (s *applicationSetCommand) next(before *shownSettings) (string, error) {
	if !s.given() {
		return "", usagef("name a setting to change: %s", s.names())
	}
	return before.edited(func(document map[string]any) error { return s.apply(settingsForm, document) })
}

// edited returns the document after an edit of its members.
func (s *shownSettings) edited(edit func(document map[string]any) error) (string, error) {
	if s.Unreadable != "" {
		return "", fmt.Errorf("%s. Only if they can never be read again: clockd application reset %s drops them, with "+
			"their secrets, and gives the application all defaults", s.Unreadable, s.Application)
	}
	document, err := membersOf(s.Settings)
	if err != nil {
		return "", err
	}
	if err := edit(document); err != nil {
		return "", err
	}
	changed, err := json.Marshal(document)
	return string(changed), err
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
func (h *applicationHistoryCommand) Run(values *sources) error {
	if h.Limit < 1 || h.Limit > settings.MaxHistory {
		return usagef("--limit must be from 1 to %d", settings.MaxHistory)
	}
	if err := h.validate(); err != nil {
		return err
	}
	return h.withHome(values, "", func(ctx context.Context, home settingsHome) error {
		versions, err := home.history(ctx, h.Name, h.Limit)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			home.remark(ctx, h.Name)
		}
		if h.JSON {
			return printEach(versions)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "VERSION\tCHANGED\tBY\tSETTINGS")
		for _, s := range versions {
			_, _ = fmt.Fprintln(table, s.row())
		}
		return table.Flush()
	})
}

// printEach prints each value as one line of JSON.
func printEach[T any](values []T) error {
	for _, v := range values {
		if err := printValue(v); err != nil {
			return err
		}
	}
	return nil
}

// printValue prints a value as one line of JSON.
func printValue(v any) error { return json.NewEncoder(stdout).Encode(v) }
