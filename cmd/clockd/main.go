package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// cli is the command line. Flags of the service have environment variables; a flag overrides its variable.
type cli struct {
	Serve       serveCommand       `cmd:"" default:"withargs" help:"Run the service. Without a database URL it uses a SQLite file. Without an AMQP URL rings go to the stream."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database schema up to date, then exit."`
	Set         setCommand         `cmd:"" help:"Set an alarm."`
	Cancel      cancelCommand      `cmd:"" help:"Cancel an alarm."`
	Get         getCommand         `cmd:"" help:"Show an alarm with its attempts."`
	List        listCommand        `cmd:"" help:"List alarms of an application."`
	Kick        kickCommand        `cmd:"" help:"Schedule dead and expired alarms again."`
	Discard     discardCommand     `cmd:"" help:"Cancel dead and expired alarms that need no kick."`
	Application applicationCommand `cmd:"" help:"Read and change the settings of applications, in the database."`
	Nodes       nodesCommand       `cmd:"" help:"Show the nodes of the cluster with their shards."`
	Version     versionCommand     `cmd:"" help:"Print version and build."`
}

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run parses the arguments, runs the command and returns the exit code.
func run(args []string) int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("clockd"),
		kong.Description("The alarm clock for services: set an alarm under your own id, cancel it by that id, be rung on time."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	if err != nil {
		panic(err) // the struct tags of cli are invalid
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "clockd: %v\ntry: clockd --help\n", err)
		return exitUsage
	}
	if err := ctx.Run(); err != nil {
		_, _ = fmt.Fprintf(stderr, "clockd: %v\n", err)
		if errors.As(err, new(*configError)) {
			return exitUsage
		}
		return exitFailure
	}
	return 0
}
