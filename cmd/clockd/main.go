package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"
)

// cli is the command line. Flags of the service have environment variables; a flag overrides its variable.
type cli struct {
	Serve         serveCommand         `cmd:"" default:"withargs" help:"Run the service. Without a database URL it uses a SQLite file. Without an AMQP URL rings go to the stream."`
	Migrate       migrateCommand       `cmd:"" help:"Bring the database schema up to date, then exit."`
	Config        configCommand        `cmd:"" help:"Show the configuration of the service: each setting, its value, and where it comes from."`
	Set           setCommand           `cmd:"" help:"Set an alarm."`
	Cancel        cancelCommand        `cmd:"" help:"Cancel an alarm."`
	Get           getCommand           `cmd:"" help:"Show an alarm with its attempts and its payload."`
	List          listCommand          `cmd:"" help:"List alarms of an application."`
	Listen        listenCommand        `cmd:"" help:"Print the rings of an application whose target is the stream."`
	Reserve       reserveCommand       `cmd:"" help:"Reserve rings of an application whose target is pull, and print them."`
	Ack           ackCommand           `cmd:"" help:"Acknowledge a ring."`
	Release       releaseCommand       `cmd:"" help:"Let the alarm of a ring ring again."`
	Bury          buryCommand          `cmd:"" help:"Make the alarm of a ring dead, for a person to look at."`
	Touch         touchCommand         `cmd:"" help:"Give the receiver of a ring more time for its answer."`
	Search        searchCommand        `cmd:"" help:"Find alarms by a business id in all applications, by a message id, or by the beginning of a business id."`
	Events        eventsCommand        `cmd:"" help:"Show what is known about the life of an alarm."`
	Occurrences   occurrencesCommand   `cmd:"" help:"Show the next occurrences of a repeating alarm."`
	Repeat        repeatCommand        `cmd:"" help:"List repeating alarms, and try out rules."`
	Kick          kickCommand          `cmd:"" help:"Schedule dead and expired alarms again."`
	Bulk          bulkCommand          `cmd:"" help:"Cancel, kick, discard, pause, resume or shift all alarms that a filter selects."`
	Pause         pauseCommand         `cmd:"" help:"Keep an alarm from ringing until it is resumed."`
	Resume        resumeCommand        `cmd:"" help:"Schedule a paused alarm again."`
	Trigger       triggerCommand       `cmd:"" help:"Ring an alarm once, now."`
	Backfill      backfillCommand      `cmd:"" help:"Ring a repeating alarm for occurrences of the past."`
	EndBackfill   endBackfillCommand   `cmd:"" help:"End a backfill."`
	Discard       discardCommand       `cmd:"" help:"Cancel dead and expired alarms that need no kick."`
	Applications  applicationsCommand  `cmd:"" help:"List the applications that have alarms or settings."`
	Application   applicationCommand   `cmd:"" help:"Read and change the settings of applications: of a server that is named, else in the database."`
	Apply         applyCommand         `cmd:"" help:"Make applications as a file has them: settings, destinations and repeating alarms."`
	Manifests     manifestsCommand     `cmd:"" help:"List manifests with the number of their items."`
	Token         tokenCommand         `cmd:"" help:"Make, list, rotate and revoke access tokens, in the database."`
	Audit         auditCommand         `cmd:"" help:"Show what people did: kicks, discards, pauses, triggers, backfills, changes of settings and tokens."`
	Backup        backupCommand        `cmd:"" help:"Copy a SQLite database to a file while clockd runs on it."`
	RestoreFinish restoreFinishCommand `cmd:"" help:"Prepare a database that was restored from a backup, before clockd works on it again."`

	Export   exportCommand   `cmd:"" help:"Write all alarms and settings to a file, for another database."`
	Import   importCommand   `cmd:"" help:"Store the alarms and settings of an export."`
	Forecast forecastCommand `cmd:"" help:"Show how many rings are due in the next minutes, hours or days."`
	Stats    statsCommand    `cmd:"" help:"Show the rates and the lateness of the last hour or day."`
	Nodes    nodesCommand    `cmd:"" help:"Show the nodes of the cluster with their shards."`
	Version  versionCommand  `cmd:"" help:"Print version and build."`
	Help     helpCommand     `cmd:"" help:"Show the help of a command."`

	Completion completionCommand `cmd:"" help:"Print a script that makes a shell complete commands, flags and values."`
	Complete   completeCommand   `cmd:"" hidden:"" help:"Print the completions of a word."`

	ShowVersion versionFlag `name:"version" help:"Print version and build."`
}

func main() {
	version = cmp.Or(moduleVersion(), version)
	os.Exit(run(os.Args[1:]))
}

// run parses the arguments, runs the command and returns the exit code.
func run(args []string) int {
	values := new(sources)
	ctx, err := newParser(values).Parse(args)
	if err != nil {
		return misused(mistake(err, values))
	}
	if err = values.err(); err != nil && !configures(ctx.Selected()) {
		return misused(helpfulCommand(ctx), err)
	}
	if err = ctx.Run(); errors.As(err, new(*kong.ParseError)) {
		return misused(mistake(err, values)) // clockd help
	}
	if err != nil {
		if log := errorLogger(ctx.Selected()); log != nil {
			log.Error("command failed", "command", ctx.Command(), "err", err)
			return exitCode(err)
		}
		_, _ = fmt.Fprintf(stderr, "clockd: %v\n", err)
		if errors.As(err, new(*usageError)) {
			_, _ = fmt.Fprintf(stderr, "try: %s --help\n", ctx.Selected().FullPath())
		}
		return exitCode(err)
	}
	return 0
}

// newParser returns the parser of the command line. values gets the faults of values.
func newParser(values *sources) *kong.Kong {
	options := append(valueMappers(values),
		kong.Bind(values),
		kong.Resolvers(values),
		kong.Name("clockd"),
		kong.Description("The alarm clock for services: set an alarm under your own id, cancel it by that id, be rung on time.\n\n"+exitCodes),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	var line cli
	line.Application.Set.makeFor(settingsForm)
	parser, err := kong.New(&line, options...)
	if err != nil {
		panic(err) // the struct tags of cli are invalid
	}
	return parser
}

// errorLogger returns the log of a command that logs in JSON, else nil.
func errorLogger(command *kong.Node) *slog.Logger {
	if c, logs := command.Target.Addr().Interface().(interface{ errorLogger() *slog.Logger }); logs {
		return c.errorLogger()
	}
	return nil
}

// configures reports whether the command validates the configuration of the service. It reports faulty values together
// with its own faults.
func configures(command *kong.Node) bool {
	_, is := command.Target.Addr().Interface().(interface{ configures() })
	return is
}

// misused prints the mistakes of the command line, the environment or the configuration file, and returns the exit
// code. The --help of the command tells more.
func misused(command string, reason error) int {
	_, _ = fmt.Fprintf(stderr, "clockd: %v\ntry: %s --help\n", reason, command)
	return exitUsage
}
