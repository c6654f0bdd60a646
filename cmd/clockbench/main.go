package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// usageError is a command line that cannot be used.
type usageError struct{ reasons error }

// Error returns all reasons, one a line.
func (e *usageError) Error() string { return e.reasons.Error() }

// Unwrap returns the reasons.
func (e *usageError) Unwrap() error { return e.reasons }

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// command is a command line and its work.
type command interface{ Run() error }

// run parses the arguments, runs the command and returns the exit code. The first argument "http" starts the server
// that the bench compares single requests with. The first argument "load" starts the load of the stage overload. People
// have no use for these two, so the help does not show them.
func run(args []string) int {
	var c command = &benchCommand{}
	if len(args) > 0 {
		switch args[0] {
		case "http":
			c, args = &httpCommand{}, args[1:]
		case "load":
			c, args = &loadCommand{}, args[1:]
		}
	}
	parser, err := kong.New(c,
		kong.Name("clockbench"),
		kong.Description("Measure a clockd on a database and a broker, beside the most that both can do."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic(err) // the structure above is at fault
	}
	if _, err := parser.Parse(args); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "clockbench: %v\ntry: clockbench --help\n", err)
		return exitUsage
	}
	if err := c.Run(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "clockbench: %v\n", err)
		if errors.As(err, new(*usageError)) {
			return exitUsage
		}
		return exitFailure
	}
	return 0
}
