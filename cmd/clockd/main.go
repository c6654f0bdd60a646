package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// cli is the command line. Every flag has an environment variable; a flag wins.
type cli struct {
	Serve   serveCommand   `cmd:"" default:"withargs" help:"Run the service. Without a database URL on a SQLite file, without an AMQP URL on the stream."`
	Migrate migrateCommand `cmd:"" help:"Bring the database schema up to date and end."`
	Set     setCommand     `cmd:"" help:"Set an alarm."`
	Cancel  cancelCommand  `cmd:"" help:"Cancel an alarm."`
	Get     getCommand     `cmd:"" help:"Show an alarm with its failed attempts."`
	List    listCommand    `cmd:"" help:"List alarms of an application."`
	Kick    kickCommand    `cmd:"" help:"Schedule dead and expired alarms again."`
	Discard discardCommand `cmd:"" help:"Cancel dead and expired alarms: nobody will kick them."`
	Nodes   nodesCommand   `cmd:"" help:"Show the nodes that share the work, and which shards each owns."`
	Bench   benchCommand   `cmd:"" help:"Measure this clockd on a database and a broker, beside what they can do at most."`
	Version versionCommand `cmd:"" help:"Print version and build."`

	BenchHTTP benchHTTPCommand `cmd:"" name:"bench-http" hidden:"" help:"Serve HTTP and store nothing: what bench compares with."`
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
		panic(err) // the structure above is at fault
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "clockd: %v\ntry: clockd --help\n", err)
		return exitUsage
	}
	if err := ctx.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "clockd: %v\n", err)
		if errors.As(err, new(*configError)) {
			return exitUsage
		}
		return exitFailure
	}
	return 0
}
