package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// sources finds the values of flags that are not on the command line, and collects the faults of all values. So a
// person learns of all mistakes at once, while the parser stops at its first error. A flag with a faulty value has its
// default.
type sources struct {
	secrets map[string]secretFile // contents of the files that variables name, by the variable without _FILE
	file    configFile            // configuration file
	origins map[*kong.Flag]origin // flags of the command that have no default value, or a faulty one
	faults  []error               // each names the flag or variable as the person gave it
	traced  bool                  // the command line was read
}

// Kinds of sources.
const (
	fromDefault     = "default"
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromFile        = "file"
)

// origin is where a value comes from.
type origin struct {
	kind string // fromFlag and so on
	name string // flag, variable, or file and setting as the person gave it
	file string // path of the file that has the value, "" if none has it
}

// spaceAroundCommas matches what separates the items of a list in a configuration file.
var spaceAroundCommas = regexp.MustCompile(` *, *`)

var _ kong.Resolver = (*sources)(nil)

// BeforeReset notes that the parser has read the command line. The parser calls it.
func (*cli) BeforeReset(s *sources) error { //nolint:unparam // the parser demands the result
	s.traced = true
	return nil
}

// BeforeResolve reads the files that have values, and checks the flags of the command line. The parser calls it after
// --help, which needs no valid configuration.
func (*cli) BeforeResolve(ctx *kong.Context, s *sources) error { //nolint:unparam // the parser demands the result
	s.origins = map[*kong.Flag]origin{}
	for _, path := range ctx.Path {
		if path.Flag != nil {
			s.origins[path.Flag] = origin{kind: fromFlag, name: "--" + path.Flag.Name}
			s.checkChoice(path.Flag, ctx.Value(path))
		}
	}
	var err error
	s.secrets, err = readSecretFiles(ctx.Flags())
	s.add(err)
	s.checkVariables(ctx)
	s.readFile(ctx)
	return nil
}

// Validate does nothing, because the faults are in s.
func (*sources) Validate(*kong.Application) error { return nil }

// Resolve returns the text of the flag's value, nil if its default applies.
func (s *sources) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, from, found := s.find(flag)
	if !found {
		return nil, nil //nolint:nilnil // the parser's way to say that there is no value
	}
	s.origins[flag] = from
	if err := checkValue(flag, value); err != nil {
		s.add(fmt.Errorf("%s: %w", from.name, err))
		return fallback(flag), nil
	}
	return value, nil
}

// find returns the value of a flag that is not on the command line.
func (s *sources) find(flag *kong.Flag) (value string, from origin, found bool) {
	for _, name := range flag.Envs {
		if value, set := os.LookupEnv(name); set && (value != "" || s.secrets[name].path == "") {
			return value, origin{kind: fromEnvironment, name: name}, true
		}
		if secret, set := s.secrets[name]; set {
			return secret.content, origin{kind: fromEnvironment, name: name + fileSuffix, file: secret.path}, true
		}
	}
	if value, set := s.file.values[flag.Name]; set && len(flag.Envs) > 0 && flag.Name != configFlag {
		if flag.IsSlice() {
			value = spaceAroundCommas.ReplaceAllString(value, ",")
		}
		return value, origin{kind: fromFile, name: s.file.path + ": " + flag.Name, file: s.file.path}, true
	}
	return "", origin{}, false
}

// kindOf returns where the value of a flag comes from.
func (s *sources) kindOf(name string) string {
	for flag, from := range s.origins {
		if flag.Name == name {
			return from.kind
		}
	}
	return fromDefault
}

// add adds the faults of err.
func (s *sources) add(err error) {
	if err == nil {
		return
	}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		s.faults = append(s.faults, joined.Unwrap()...)
		return
	}
	s.faults = append(s.faults, err)
}

// tolerate takes a faulty value of a flag of the command line as the default. It returns the error unless it has noted
// it.
func (s *sources) tolerate(v *kong.Value, err error) error {
	if s.traced || v.Flag == nil {
		return err
	}
	s.add(fmt.Errorf("--%s: %w", v.Name, err))
	return nil
}

// checkChoice replaces the value of a flag by the default if it is none of the flag's choices.
func (s *sources) checkChoice(flag *kong.Flag, value reflect.Value) {
	if flag.Enum == "" || value.Kind() != reflect.String {
		return
	}
	if err := checkEnum(flag, value); err != nil && flag.HasDefault {
		s.add(fmt.Errorf("--%s: %w", flag.Name, err))
		value.SetString(flag.Default)
	}
}

// fallback returns a valid text for a flag with a faulty value.
func fallback(flag *kong.Flag) string {
	switch {
	case flag.HasDefault:
		return flag.Default
	case flag.IsBool():
		return "false"
	default:
		return "0"
	}
}

// err returns all faults as one error, nil if there are none.
func (s *sources) err() error { return configFaults(s.faults) }

// configFaults returns the faults as one error: a *configError, unless it is a single mistake.
func configFaults(faults []error) error {
	if len(faults) > 1 {
		return &configError{reasons: errors.Join(faults...)}
	}
	return usage(errors.Join(faults...))
}

// configure makes the configuration of the service. Its error has the faults of the values and of all parts. flags are
// the flags of the selected command.
func (s *sources) configure(ctx *kong.Context, flags *serveFlags) (*config, error) {
	cfg, err := newConfig(*flags)
	reasons := faultsOf(err)
	if len(reasons) == 0 {
		return cfg, s.err()
	}
	for i, names := range s.culprits(ctx, flags, reasons) {
		if len(names) > 0 {
			reasons[i] = strings.Join(names, ", ") + ": " + reasons[i]
		}
	}
	faults := slices.Clone(s.faults)
	for _, reason := range reasons {
		faults = append(faults, errors.New(reason))
	}
	return nil, &configError{reasons: errors.Join(faults...)}
}

// culprits returns for each fault of the parts the names of the values that cause it. The parts do not know where their
// values come from. So each given value is replaced by its default for a moment: it causes the faults that then are
// gone.
func (s *sources) culprits(ctx *kong.Context, flags *serveFlags, reasons []string) [][]string {
	names := make([][]string, len(reasons))
	for _, flag := range ctx.Selected().Flags {
		from, given := s.origins[flag]
		if !given || !flag.Target.IsValid() {
			continue
		}
		was := reflect.New(flag.Target.Type()).Elem()
		was.Set(flag.Target)
		flag.Target.SetZero()
		if flag.HasDefault && checkValueInto(flag, flag.Default, flag.Target) != nil {
			flag.Target.Set(was)
			continue
		}
		_, err := newConfig(*flags)
		flag.Target.Set(was)
		rest := faultsOf(err)
		if len(rest) >= len(reasons) {
			continue
		}
		for i, reason := range reasons {
			if !slices.Contains(rest, reason) {
				names[i] = append(names[i], from.name)
			}
		}
	}
	return names
}

// faultsOf returns the faults of an invalid configuration, each on one line.
func faultsOf(err error) []string {
	invalid, is := errors.AsType[*configError](err)
	if !is {
		return nil
	}
	return strings.Split(invalid.reasons.Error(), "\n")
}
