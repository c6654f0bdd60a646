package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock/settings"
)

// shownSettings is a version of an application's settings without secrets, as commands print it.
type shownSettings struct {
	Application string          `json:"application"`
	Version     int64           `json:"version"`
	ChangedAt   *string         `json:"changed_at"`
	ChangedBy   *string         `json:"changed_by"`
	Settings    json.RawMessage `json:"settings"`             // null if they cannot be read
	Unreadable  string          `json:"unreadable,omitempty"` // why

	effective json.RawMessage // what applies; nil: not known
}

// settingsOf returns a version of the database.
func settingsOf(v *settings.View) *shownSettings {
	s := newShownSettings(v.Application, v.Version, v.ChangedAt.String(), v.ChangedBy, []byte(v.Document))
	s.effective = []byte(v.Effective)
	if v.Unreadable != nil {
		why := v.Unreadable.Error()
		if !settings.Sealed(v.Unreadable) { // else there would be nothing to read
			why = withPlace(why)
		}
		s.unreadable(why)
	}
	return s
}

// receivedSettings returns a version that a server has shown.
func receivedSettings(application string, v *client.SettingsVersion, effective json.RawMessage) *shownSettings {
	s := newShownSettings(application, v.Version, shown(v.ChangedAt), v.ChangedBy, v.Settings)
	s.effective = effective
	if v.Unreadable != "" {
		s.unreadable(withPlace(v.Unreadable))
	}
	return s
}

func newShownSettings(application string, version int64, at, by string, document json.RawMessage) *shownSettings {
	s := &shownSettings{Application: application, Version: version, Settings: document}
	if version > 0 {
		s.ChangedAt, s.ChangedBy = &at, &by
	}
	return s
}

// unreadable notes why the settings cannot be read.
func (s *shownSettings) unreadable(why string) {
	s.Settings, s.effective = json.RawMessage("null"), nil
	s.Unreadable = why
}

// withPlace adds to the reason where the settings can be seen.
func withPlace(why string) string {
	return fmt.Sprintf("the settings cannot be read: %s; `clockd application show --secrets` "+
		"with --database-url shows the present ones as they are", why)
}

// listed returns the settings as a list for people shows them.
func (s *shownSettings) listed() string { return cmp.Or(s.Unreadable, string(s.Settings)) }

// row returns the columns of a list: version, time, person and settings.
func (s *shownSettings) row() string {
	return fmt.Sprintf("%d\t%s\t%s\t%s", s.Version, zeroUnless(s.ChangedAt), zeroUnless(s.ChangedBy), s.listed())
}

// describe returns the settings in lines for people. Defaults are marked.
func (s *shownSettings) describe() (string, error) {
	if s.Version == 0 {
		return fmt.Sprintf("%s has no settings: all defaults apply\n", s.Application), nil
	}
	text := fmt.Sprintf("%s, version %d, changed at %s by %s\n", s.Application, s.Version, *s.ChangedAt, *s.ChangedBy)
	if s.Unreadable != "" {
		return text, errors.New(s.Unreadable)
	}
	given, err := membersOf(s.Settings)
	if err != nil {
		return text, err
	}
	effective, err := membersOf(s.effective)
	if err != nil {
		return text, err
	}
	for _, f := range settingsForm.Fields() {
		value := describeField(&f, effective[f.Name])
		if _, is := given[f.Name]; !is {
			value += " (default)"
		}
		text += fmt.Sprintf("  %-14s %s\n", f.Name, value)
	}
	return text, nil
}

// membersOf returns the members of a JSON object. Numbers keep their text.
func membersOf(object []byte) (members map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	err = d.Decode(&members)
	return members, err
}

// describeField returns the value of a member of a document on one line for people.
func describeField(f *settings.FieldInfo, value any) string {
	switch value := value.(type) {
	case map[string]any:
		if f.Kind == settings.KindObjects {
			return describeObjects(f, value)
		}
		var parts []string
		for _, field := range f.Fields {
			if part := describePart(&field, value); part != "" {
				parts = append(parts, field.Name+" "+part)
			}
		}
		return strings.Join(parts, ", ")
	case []any:
		var elements []string
		for _, element := range value {
			elements = append(elements, fmt.Sprint(element))
		}
		return cmp.Or(strings.Join(elements, ", "), f.Absent)
	case nil:
		return cmp.Or(f.Absent, "none")
	default:
		return fmt.Sprint(value)
	}
}

// describeObjects returns the named objects of a member, each as alarms name it.
func describeObjects(f *settings.FieldInfo, objects map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		members, _ := objects[name].(map[string]any)
		for i := range f.Fields {
			part := &f.Fields[i]
			if value, has := members[part.Name]; has {
				all = append(all, part.Name+"/"+name+": "+describeField(part, value))
			}
		}
	}
	return strings.Join(all, "; ")
}

// describePatterns returns patterns as the flag takes them.
func describePatterns(value any) string {
	fields, _ := value.(map[string]any)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		patterns, _ := fields[name].([]any)
		for _, pattern := range patterns {
			parts = append(parts, fmt.Sprintf("%s=%s", name, pattern))
		}
	}
	return strings.Join(parts, " ")
}

// describePart returns the value of a member of an object: the number of its elements if there may be several; "" for
// nothing.
func describePart(f *settings.FieldInfo, object map[string]any) string {
	value, has := object[f.Name]
	switch {
	case f.Kind == settings.KindTexts:
		texts, _ := value.(map[string]any)
		return fmt.Sprint(len(texts))
	case f.Kind == settings.KindPatterns && has:
		return describePatterns(value)
	case f.Kind == settings.KindSecrets:
		secrets, _ := value.([]any)
		return fmt.Sprint(len(secrets))
	case !has:
		return ""
	case value == nil:
		return "none"
	default:
		return fmt.Sprint(value)
	}
}
