package main

import "github.com/alecthomas/kong"

// helpCommand prints what --help prints.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, with its subcommand if it has any. Without it: all commands."`
}

// Run prints the help and ends the process.
func (h *helpCommand) Run(parser *kong.Kong) error {
	_, err := parser.Parse(append(h.Command, "--help"))
	return err
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
