package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// configFile is a configuration file: lines of a flag's name, a colon and the value. They are YAML without nesting.
type configFile struct {
	path   string // "" if no file is given
	mode   fs.FileMode
	values map[string]string // by the name of the flag
}

// readConfigFile reads the file. Its error has all faulty lines. No error has a value, because it may be a secret.
func readConfigFile(path string) (configFile, error) {
	f := configFile{path: path, values: map[string]string{}}
	content, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if info, err := os.Stat(path); err == nil {
		f.mode = info.Mode()
	}
	var errs []error
	last := "" // name whose value is a list on the next lines
	for i, line := range strings.Split(string(content), "\n") {
		fault := func(text string) { errs = append(errs, fmt.Errorf("%s, line %d: %s", path, i+1, text)) }
		text := strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(text, "- ")
		name, value, isSetting := strings.Cut(text, ":")
		switch {
		case text == "" || text == "---" || strings.HasPrefix(text, "#"):
		case isItem && last != "":
			if item, err = plainValue(item); err != nil {
				fault(err.Error())
			}
			f.values[last] = strings.TrimPrefix(f.values[last]+","+item, ",")
		case line != strings.TrimLeft(line, " \t") || !isSetting || strings.ContainsAny(name, " \t"):
			fault("write name: value, without indentation")
		default:
			if _, twice := f.values[name]; twice {
				fault(name + " is set twice")
			}
			if value, err = plainValue(value); err != nil {
				fault(err.Error())
			}
			f.values[name], last = value, ""
			if value == "" {
				last = name
			}
		}
	}
	return f, errors.Join(errs...)
}

var errQuotes = errors.New("the quotes of the value do not match")

// plainValue returns a value without its comment, and without the quotes or the brackets around it.
func plainValue(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "#") {
		return "", nil
	}
	if text != "" && strings.ContainsRune(`"'`, rune(text[0])) {
		return unquoted(text)
	}
	text, _, _ = strings.Cut(text, " #")
	text = strings.TrimSpace(text)
	list, opened := strings.CutPrefix(text, "[")
	list, closed := strings.CutSuffix(list, "]")
	if !opened || !closed {
		return text, nil
	}
	items := strings.Split(list, ",")
	for i, item := range items {
		item = strings.TrimSpace(item)
		if item != "" && strings.ContainsRune(`"'`, rune(item[0])) {
			var err error
			if item, err = unquoted(item); err != nil {
				return "", err
			}
		}
		items[i] = item
	}
	return strings.Join(items, ","), nil
}

// unquoted returns the text between the quotes at the beginning of text. Only a comment may follow them.
func unquoted(text string) (string, error) {
	value, rest := "", ""
	if text[0] == '"' {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return "", errQuotes
		}
		rest = text[len(quoted):]
		if value, err = strconv.Unquote(quoted); err != nil {
			return "", errQuotes
		}
	} else {
		var closed bool
		if value, rest, closed = strings.Cut(text[1:], "'"); !closed {
			return "", errQuotes
		}
	}
	if rest = strings.TrimSpace(rest); rest != "" && !strings.HasPrefix(rest, "#") {
		return "", errQuotes
	}
	return value, nil
}

// readFile reads the configuration file of the command, if it has one. A file for serve may be given to each command: it may have all settings of
// serve.
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

// settingNames returns the names that a configuration file may have: all flags of the command with a variable, without the file itself.
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
			log.Warn("every user can read the secrets of the configuration file", "file", s.file.path, "mode", s.file.mode.String())
			return
		}
	}
}
