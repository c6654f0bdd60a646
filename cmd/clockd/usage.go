package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/clockd/clockd/client"
)

// Exit codes. The text of --help has them too.
const (
	exitFailure = 1
	exitUsage   = 2
)

const exitCodes = "Exit codes: 0 success, 1 the command failed or the server refused it, 2 the command line or the configuration is wrong."

// usageError is a mistake in the arguments, flags or environment variables of a command.
type usageError struct{ reason error }

// Error returns the text of the reason.
func (e *usageError) Error() string { return e.reason.Error() }

// Unwrap returns the reason.
func (e *usageError) Unwrap() error { return e.reason }

// usagef returns a *usageError. The format is as in fmt.Errorf.
func usagef(format string, args ...any) error {
	return &usageError{reason: fmt.Errorf(format, args...)}
}

// usage returns err as a *usageError, and nil for nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{reason: err}
}

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	if errors.As(err, new(*configError)) || errors.As(err, new(*usageError)) {
		return exitUsage
	}
	if e, is := errors.AsType[*client.Error](err); is && e.Code == client.CodeInvalidValue && e.Status == 0 {
		return exitUsage // the client refused the value before it sent a request
	}
	return exitFailure
}

// mistake returns the command whose --help tells more about a parser's error, and the error for people. values has the faults that the parser went past.
func mistake(err error, values *sources) (command string, reason error) {
	parsed, is := errors.AsType[*kong.ParseError](err)
	if !is || parsed.Context == nil {
		return "clockd", err
	}
	if parsed.Context.Error != nil {
		if parent, unknown := unknownCommand(parsed.Context); unknown != nil {
			return parent.FullPath(), unknown
		}
	}
	return helpfulCommand(parsed.Context), configFaults(append(slices.Clone(values.faults), err))
}

// helpfulCommand returns the command whose --help tells about the arguments.
func helpfulCommand(ctx *kong.Context) string {
	if selected := ctx.Selected(); selected != nil && !chosenByDefault(ctx) {
		return selected.FullPath()
	}
	return ctx.Model.FullPath()
}

// unknownCommand returns the error for an argument in the place of a command, and the command whose subcommand it would be. The error is nil if
// the parser stopped at another argument. The parser itself takes an unknown command as an argument of the default command.
func unknownCommand(ctx *kong.Context) (parent *kong.Node, unknown error) {
	rest := ctx.Path[len(ctx.Path)-1].Remainder()
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil, nil
	}
	parent = ctx.Selected()
	if parent == nil || chosenByDefault(ctx) {
		parent = ctx.Model.Node
	}
	if len(parent.Children) == 0 {
		return nil, nil
	}
	text := fmt.Sprintf("unknown command %q", rest[0])
	if parent != ctx.Model.Node {
		text += " of " + parent.FullPath()
	}
	if near := nearCommands(parent, rest[0]); len(near) > 0 {
		text += fmt.Sprintf(": did you mean %s?", strings.Join(near, " or "))
	}
	return parent, errors.New(text)
}

// chosenByDefault reports whether the last command is the default command, not named on the command line: it has consumed no argument.
func chosenByDefault(ctx *kong.Context) bool {
	for i := len(ctx.Path) - 1; i > 0; i-- {
		if ctx.Path[i].Command != nil {
			return len(ctx.Path[i].Remainder()) == len(ctx.Path[i-1].Remainder())
		}
	}
	return false
}

// nearCommands returns the commands that a person may have meant by name.
func nearCommands(parent *kong.Node, name string) (near []string) {
	const mostEdits = 2
	for _, child := range parent.Children {
		if !child.Hidden && (strings.HasPrefix(child.Name, name) || edits(child.Name, name) <= min(mostEdits, len(name)/2)) {
			near = append(near, child.Name)
		}
	}
	return near
}

// edits returns how many characters are to be inserted, removed or replaced to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: edits from the read part of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
