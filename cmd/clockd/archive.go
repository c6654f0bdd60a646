package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/archive"
)

// archiveFlags are the flags of export and import.
type archiveFlags struct {
	databaseFlags
	logFlags

	StartTimeout time.Duration `env:"CLOCKD_START_TIMEOUT" default:"60s" help:"Longest wait at start for an unavailable database."`
}

// progressInterval is the time between two log lines about an export or import.
const progressInterval = 5 * time.Second

// openArchive opens the database. It neither makes a database nor changes the schema.
func (f *archiveFlags) openArchive(ctx context.Context) (store.Store, error) {
	if err := checkDatabase(f.databaseFlags, spareRingConns); err != nil {
		return nil, &configError{reasons: err}
	}
	if err := f.checkExists(); err != nil {
		return nil, err
	}
	cfg := &config{serveFlags: serveFlags{databaseFlags: f.databaseFlags, NoMigrate: true,
		StartTimeout: f.StartTimeout}}
	return openStore(ctx, cfg, f.logger(), nil, unreported)
}

// archived is the part of the stores of all engines that exports and imports.
type archived interface {
	archive.Source
	archive.Target
}

// errNoArchive says that a store cannot be exported. All stores can.
var errNoArchive = errors.New("the store of this engine does not export")

// guardedArchive is a database to import into that takes no secrets which a node could not read.
type guardedArchive struct {
	archived
	settings guarded
}

// ChangeSettings is guarded.ChangeSettings.
func (g guardedArchive) ChangeSettings(ctx context.Context, change settings.Change) (settings.Version, error) {
	return g.settings.ChangeSettings(ctx, change)
}

// every calls do at most once in an interval.
func every(interval time.Duration, do func()) func() {
	last := time.Now()
	return func() {
		if time.Since(last) >= interval {
			last = time.Now()
			do()
		}
	}
}

// exportCommand writes all alarms and settings to a file.
type exportCommand struct {
	To     string `arg:"" optional:"" default:"-" placeholder:"FILE" help:"New file; - or none: standard output."`
	Resume bool   `help:"Go on after the last alarm of an export that has ended early."`
	archiveFlags
}

// Help returns the text after the flags.
func (*exportCommand) Help() string {
	return "The export has one line of JSON for each alarm, with state, generation, retries and attempts, and one for the settings of each application. " +
		"Settings may contain the secrets of webhooks, so keep the file to yourself; secrets that the database has encrypted stay so, and an import needs their key. Tokens are not exported. " +
		"To move to another database, stop clockd first: an alarm that both databases have would ring twice. See docs/backup.md."
}

// Run exports.
func (e *exportCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	st, err := e.openArchive(ctx)
	if err != nil {
		return err
	}
	return errors.Join(e.export(ctx, st), st.Close())
}

func (e *exportCommand) export(ctx context.Context, st store.Store) error {
	from, is := st.(archived)
	if !is {
		return errNoArchive
	}
	file, at, err := e.open()
	if err != nil {
		return err
	}
	if at.Complete {
		return errors.Join(fmt.Errorf("%s is complete: it has %d alarms", e.To, at.Alarms), file.Close())
	}
	log := e.logger()
	report := every(progressInterval, func() { log.Info("exporting", "count", at.Alarms) })
	at, err = archive.Export(ctx, from, file, at, func(now archive.Position) {
		at = now
		report()
	})
	if err == nil && file != os.Stdout {
		err = file.Sync()
	}
	if err != nil && e.To != "-" {
		err = fmt.Errorf("%w\n%s is not complete; go on with: clockd export --resume %s", err, e.To, e.To)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	log.Info("exported", "count", at.Alarms)
	return file.Close()
}

// open opens the file, and returns the position after its last line. A new file is for its owner alone.
func (e *exportCommand) open() (file *os.File, at archive.Position, err error) {
	switch {
	case e.To == "-" && e.Resume:
		return nil, at, usagef("--resume needs the file of the export that has ended early")
	case e.To == "-":
		return os.Stdout, at, nil
	case !e.Resume:
		file, err = os.OpenFile(e.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s exists already; --resume goes on with an export that has ended early", e.To)
		}
		return file, at, err
	}
	if file, err = os.OpenFile(e.To, os.O_RDWR, 0); err != nil {
		return nil, at, err
	}
	at, length, err := archive.FindPosition(file)
	if err == nil && !at.Complete {
		err = file.Truncate(length)
	}
	if err == nil {
		_, err = file.Seek(length, io.SeekStart)
	}
	if err != nil {
		return nil, at, errors.Join(fmt.Errorf("%s: %w", e.To, err), file.Close())
	}
	return file, at, nil
}

// importCommand stores the alarms and settings of an export.
type importCommand struct {
	From        string `arg:"" placeholder:"FILE" help:"File of clockd export; - for standard input."`
	Merge       bool   `help:"Import into a database that has alarms. Alarms and settings that exist stay as they are."`
	SkipInvalid bool   `help:"Pass over lines that cannot be read, instead of ending there."`
	archiveFlags
	keyFlags
}

// Help returns the text after the flags.
func (*importCommand) Help() string {
	return "The database may be of another engine; clockd migrate makes it. Alarms get new ids, so the message ids of later rings are new. " +
		"An import that has ended early goes on with --merge. The command fails if an alarm exists with another content, or if the file is not complete."
}

// Run imports.
func (i *importCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	file := os.Stdin
	if i.From != "-" {
		var err error
		if file, err = os.Open(i.From); err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
	}
	form, err := i.form()
	if err != nil {
		return usage(err)
	}
	st, err := i.openArchive(ctx)
	if err != nil {
		return err
	}
	return errors.Join(i.imports(ctx, st, form, file), st.Close())
}

// importer returns the name of the person at the command, for the history of settings.
func importer() string {
	by := "import by " + personName()
	return by[:min(len(by), settings.MaxChangedBy)]
}

// maxNamed is how many differing alarms, and how many invalid lines, an import names.
const maxNamed = 20

func (i *importCommand) imports(ctx context.Context, st store.Store, form *settings.Form, file io.Reader) error {
	to, is := st.(archived)
	if !is {
		return errNoArchive
	}
	to = guardedArchive{to, guarded{st, form}}
	log, now, named := i.logger(), archive.Result{}, 0
	report := every(progressInterval, func() { log.Info("importing", "count", now.Created, "line", now.Line) })
	name := func(message string, attributes ...any) {
		if named++; named <= maxNamed {
			log.Warn(message, attributes...) //nolint:sloglint // each caller gives a constant
		}
	}
	done, err := archive.Import(ctx, file, to, archive.Options{
		Form: form, Merge: i.Merge, SkipInvalid: i.SkipInvalid, By: importer(),
		Progress: func(r archive.Result) {
			now = r
			report()
		},
		Skipped:   func(line int, reason error) { name("a line is passed over", "line", line, "err", reason) },
		Different: func(what string) { name("it exists and differs, and stays as it is", "what", what) },
	})
	switch {
	case errors.Is(err, archive.ErrNotEmpty):
		return fmt.Errorf("%w; --merge imports beside them", err)
	case err != nil && done.Line > 0:
		err = fmt.Errorf("%w\nthe alarms up to line %d are stored; go on with: clockd import --merge", err, done.Line)
	}
	log.Info("imported", "count", done.Created, "present", done.Present, "different", done.Different+done.Unlike,
		"settings", done.Settings,
		"invalid", done.Invalid)
	if err == nil && done.Different+done.Unlike+done.Invalid > 0 {
		err = fmt.Errorf("%d alarms and %d settings exist with another content and stay as they are; %d lines are passed over",
			done.Different, done.Unlike, done.Invalid)
	}
	return err
}
