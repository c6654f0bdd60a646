package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// helpCommand prints what --help prints.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, with its subcommand if it has any. Without it: all commands."`
}

// Run prints the help and ends the process.
func (h *helpCommand) Run(parser *kong.Kong) error {
	_, err := parser.Parse(append(h.Command, "--help"))
	return err
}

// printHelp prints the help of the selected command. Its usage line shows flags of which exactly one is needed as
// alternatives. The usage line of the parser shows them as if all were needed.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if command := ctx.Selected(); command != nil {
		options.NoAppSummary = true
		if _, err := fmt.Fprintf(ctx.Stdout, "Usage: %s %s\n", ctx.Model.Name, usageLine(command)); err != nil {
			return err
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// usageLine returns the command with its required flags and its arguments.
func usageLine(command *kong.Node) string {
	groups := map[string][]string{}
	for _, flag := range command.Flags {
		for _, group := range flag.Xor {
			if flag.Required {
				groups[group] = append(groups[group], flag.Summary())
			}
		}
	}
	line := command.Summary()
	for _, flags := range groups {
		line = strings.Replace(line, strings.Join(flags, " "), "("+strings.Join(flags, " | ")+")", 1)
	}
	return line
}

// versionFlag is the flag --version.
type versionFlag bool

// BeforeReset prints the version and ends the process. The parser calls it before it looks for missing arguments.
func (versionFlag) BeforeReset(parser *kong.Kong) error {
	if err := (versionCommand{}).Run(); err != nil {
		return err
	}
	parser.Exit(0)
	return nil
}
