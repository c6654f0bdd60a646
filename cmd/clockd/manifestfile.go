package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// manifestFile has the manifests of applications of one file or several.
type manifestFile struct {
	label        string
	applications []member // with the manifest of each
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// maxManifestFile is the size in bytes of the largest file that is read.
const maxManifestFile = 16 << 20

// readManifestFiles reads files with one label. label replaces it if it is not empty. No error has a value, because it
// may be a secret.
func readManifestFiles(paths []string, label string) (*manifestFile, error) {
	all := &manifestFile{label: label}
	for i, path := range paths {
		f, err := readManifestFile(path)
		switch {
		case err != nil:
		case label == "" && f.label == "":
			err = errors.New("it has no label: give the manifests a name, such as label: shop-jobs, or --label shop-jobs")
		case label == "" && i > 0 && f.label != all.label:
			err = fmt.Errorf("it has the label %s, and %s has %s: apply them one by one", f.label, paths[0], all.label)
		case label == "":
			all.label = f.label
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, a := range f.applications {
			if slices.ContainsFunc(all.applications, func(other member) bool { return other.name == a.name }) {
				return nil, fmt.Errorf("%s: another file has the application %s too", path, a.name)
			}
			all.applications = append(all.applications, a)
		}
	}
	return all, nil
}

// readManifestFile reads a file in YAML or JSON; "-" is the standard input.
func readManifestFile(path string) (*manifestFile, error) {
	file, dir := os.Stdin, "."
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, errors.Unwrap(err) // without the path, which readManifestFiles adds
		}
		defer func() { _ = file.Close() }()
		dir = filepath.Dir(path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxManifestFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxManifestFile:
		return nil, fmt.Errorf("the file has more than %d MiB", maxManifestFile>>20)
	case !utf8.Valid(content):
		return nil, errors.New("the file is not UTF-8")
	}
	if !json.Valid(content) {
		if content, err = yamlToJSON(content); err != nil {
			return nil, err
		}
	}
	return parseManifestFile(content, dir)
}

// encodeJSON returns a value as JSON, with its characters as they are.
func encodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

// parseManifestFile reads a file in JSON. The names of other files are relative to dir.
func parseManifestFile(content []byte, dir string) (*manifestFile, error) {
	f := &manifestFile{}
	members, err := jsonMembers("the file", content, "label", "applications")
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		switch m.name {
		case "label":
			if json.Unmarshal(m.value, &f.label) != nil {
				err = errors.New("the label must be a text")
			}
		case "applications":
			f.applications, err = jsonMembers(m.name, m.value)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range f.applications {
		a := &f.applications[i]
		if a.value, err = expandManifest(a, dir); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// expandManifest returns the manifest of an application with the values that its references stand for.
func expandManifest(application *member, dir string) (json.RawMessage, error) {
	place := "applications." + application.name
	parts, err := jsonMembers(place, application.value, "settings", "destinations", "alarms")
	if err != nil {
		return nil, err
	}
	for i := range parts {
		p := &parts[i]
		place := place + "." + p.name
		if p.name != "alarms" {
			p.value, err = expand(place, p.value, dir)
		} else {
			p.value, err = expandReceivers(place, p.value, dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return joinMembers(parts), nil
}

// expandReceivers expands the receivers of alarms. References elsewhere in alarms are values, such as of a payload.
func expandReceivers(place string, alarms json.RawMessage, dir string) (json.RawMessage, error) {
	sets, err := jsonMembers(place, alarms)
	if err != nil {
		return nil, err
	}
	for i := range sets {
		place := place + "." + sets[i].name
		if string(sets[i].value) == "null" {
			continue
		}
		members, err := jsonMembers(place, sets[i].value)
		if err != nil {
			return nil, err
		}
		for n := range members {
			if m := &members[n]; m.name == "receiver" {
				if m.value, err = expand(place+"."+m.name, m.value, dir); err != nil {
					return nil, err
				}
			}
		}
		sets[i].value = joinMembers(members)
	}
	return joinMembers(sets), nil
}

// jsonMembers returns the members of an object, in their order; null has none. It refuses a name that comes twice or is
// not among the known ones, if some are given.
func jsonMembers(place string, object json.RawMessage, known ...string) (members []member, err error) {
	if string(object) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, fmt.Errorf("%s must be an object of names with values", place)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var m member
		m.name, _ = key.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		switch {
		case len(known) > 0 && !slices.Contains(known, m.name):
			return nil, fmt.Errorf("%s has no %q: it may have %s%s", place, m.name, strings.Join(known, ", "),
				suggestion(m.name, known))
		case slices.ContainsFunc(members, func(other member) bool { return other.name == m.name }):
			return nil, fmt.Errorf("%s has %q twice", place, m.name)
		}
		members = append(members, m)
	}
	return members, nil
}

// joinMembers returns the object with these members.
func joinMembers(members []member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(m.name) //nolint:errchkjson // a text has JSON
		b = append(append(append(b, name...), ':'), m.value...)
	}
	return append(b, '}')
}

// Names of references: {"$env": "NAME"} stands for the value of an environment variable, {"$file": "NAME"} for the
// content of a file without the line break at its end.
const (
	envReference  = "$env"
	fileReference = "$file"
)

// expand replaces the references in a value.
func expand(place string, raw json.RawMessage, dir string) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(envReference)) && !bytes.Contains(raw, []byte(fileReference)) {
		return raw, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	value, err := expandValue(place, value, dir)
	if err != nil {
		return nil, err
	}
	return encodeJSON(value)
}

func expandValue(place string, value any, dir string) (_ any, err error) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			if v[i], err = expandValue(fmt.Sprintf("%s[%d]", place, i), v[i], dir); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if name, is := v[envReference].(string); is && len(v) == 1 {
			text := os.Getenv(name)
			if text == "" {
				return nil, fmt.Errorf("%s: the environment variable %s is not set, or empty", place, name)
			}
			return text, nil
		}
		if name, is := v[fileReference].(string); is && len(v) == 1 {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place, err)
			}
			return strings.TrimRight(string(content), "\r\n"), nil
		}
		for name := range v {
			if v[name], err = expandValue(place+"."+name, v[name], dir); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
