package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// configFile is a configuration file in YAML: names of flags with their values.
type configFile struct {
	path   string // "" if no file is given
	mode   fs.FileMode
	values map[string]string // by the name of the flag
}

// readConfigFile reads the file. Its error has all faults. No error has a value, because it may be a secret.
func readConfigFile(path string) (configFile, error) {
	f := configFile{path: path, values: map[string]string{}}
	content, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if info, err := os.Stat(path); err == nil {
		f.mode = info.Mode()
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return f, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 { // the file is empty
		return f, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return f, fmt.Errorf("%s, line %d: write lines of name: value", path, root.Line)
	}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		if err := f.read(root.Content[i], root.Content[i+1]); err != nil {
			errs = append(errs, fmt.Errorf("%s, line %d: %w", path, root.Content[i].Line, err))
		}
	}
	return f, errors.Join(errs...)
}

// read reads one setting.
func (f *configFile) read(name, value *yaml.Node) error {
	if _, twice := f.values[name.Value]; twice {
		return fmt.Errorf("%s is set twice", name.Value)
	}
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		items = value.Content
	}
	var texts []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s needs a value, or a list of values", name.Value)
		}
		texts = append(texts, item.Value)
	}
	f.values[name.Value] = strings.Join(texts, ",")
	return nil
}

// readFile reads the configuration file of the command, if it has one. A file for serve may be given to each command:
// it may have all settings of serve.
func (s *sources) readFile(ctx *kong.Context) {
	flags := ctx.Flags()
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == configFlag })
	if i < 0 {
		return
	}
	path := os.Getenv(configVariable)
	if _, given := s.origins[flags[i]]; given {
		path, _ = ctx.FlagValue(flags[i]).(string)
	}
	if path == "" {
		return
	}
	var err error
	s.file, err = readConfigFile(path)
	s.add(err)
	var known []string
	for _, command := range ctx.Model.Children {
		if command.Name == "serve" {
			known = settingNames(command)
		}
	}
	names := make([]string, 0, len(s.file.values))
	for name := range s.file.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			s.add(fmt.Errorf("%s: %s: there is no such setting%s", path, name, suggestion(name, known)))
		}
	}
}

// settingNames returns the names that a configuration file may have: all flags of the command with a variable, without
// the file itself.
func settingNames(command *kong.Node) (names []string) {
	for _, flag := range command.Flags {
		if len(flag.Envs) > 0 && flag.Name != configFlag {
			names = append(names, flag.Name)
		}
	}
	return names
}

// warnReadable logs a warning if other users can read the secrets of the configuration file.
func (s *sources) warnReadable(log *slog.Logger) {
	const othersRead = 0o004
	if s.file.mode&othersRead == 0 {
		return
	}
	for _, name := range secretVariables {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, variablePrefix), "_", "-"))
		if value := s.file.values[flag]; value != "" && shownValue(name, value) != value {
			log.Warn("every user can read the secrets of the configuration file", "file", s.file.path, "mode",
				s.file.mode.String(), "mend", "chmod o-r "+s.file.path)
			return
		}
	}
}
