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

// mistake returns the command whose --help tells more about a parser's error, and the error for people. values has the
// faults that the parser went past.
func mistake(err error, values *sources) (command string, reason error) {
	parsed, is := errors.AsType[*kong.ParseError](err)
	if !is || parsed.Context == nil {
		return "clockd", err
	}
	if parsed.Context.Error != nil {
		if parent, unknown := unknownCommand(parsed.Context); unknown != nil {
			return parent.FullPath(), unknown
		}
	} else if hint := applicationWide(parsed.Context); hint != "" {
		err = fmt.Errorf("%w: %s", err, hint)
	}
	return helpfulCommand(parsed.Context), configFaults(append(slices.Clone(values.faults), err))
}

// applicationWide returns a line for people that names the command for all alarms of the application. It returns "" if
// the arguments have a business id, or there is no such command.
func applicationWide(ctx *kong.Context) (hint string) {
	selected := ctx.Selected()
	if selected == nil {
		return ""
	}
	command, is := selected.Target.Addr().Interface().(interface{ applicationWide(string) string })
	if !is {
		return ""
	}
	for _, path := range ctx.Path {
		switch {
		case path.Positional == nil:
		case path.Positional.Name == "application":
			hint = command.applicationWide(ctx.Value(path).String())
		default:
			return ""
		}
	}
	return hint
}

// helpfulCommand returns the command whose --help tells about the arguments.
func helpfulCommand(ctx *kong.Context) string {
	if selected := ctx.Selected(); selected != nil && !chosenByDefault(ctx) {
		return selected.FullPath()
	}
	return ctx.Model.FullPath()
}

// unknownCommand returns the error for an argument in the place of a command, and the command whose subcommand it would
// be. The error is nil if the parser stopped at another argument. The parser itself takes an unknown command as an
// argument of the default command.
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

// chosenByDefault reports whether the last command is the default command, not named on the command line: it has
// consumed no argument.
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
	for _, child := range parent.Children {
		if !child.Hidden && (strings.HasPrefix(child.Name, name) || isNear(name, child.Name)) {
			near = append(near, child.Name)
		}
	}
	return near
}

// isNear reports whether a person may have meant the known name. One edit is allowed for each four characters, at least
// one and at most three.
func isNear(name, known string) bool {
	const leastLength, charactersPerEdit, mostEdits = 3, 4, 3
	return len(name) >= leastLength && edits(name, known) <= min(max(1, len(name)/charactersPerEdit), mostEdits)
}

// edits returns how many edits make b of a: characters inserted, removed or replaced, and neighbours exchanged.
func edits(a, b string) int {
	rows := make([][]int, len(a)+1) // rows[i][j]: edits from a[:i] to b[:j]
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
