package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// readSettings returns the settings of a version. The error does not repeat the document: any part of it may be
// secret.
func readSettings(v *settings.Version) (settings.Settings, error) {
	s, err := settingsForm.Parse(cmp.Or(v.Document, "{}"))
	if err != nil {
		err = fmt.Errorf("the settings cannot be read: %w; `clockd application show --secrets` shows the present ones as they are", err)
	}
	return s, err
}

// shownDocument returns a stored document without what may be secret.
func shownDocument(v *settings.Version) (string, error) {
	s, err := readSettings(v)
	if err != nil {
		return "", err
	}
	return settingsForm.Redacted(&s), nil
}

// listedDocument returns a stored document as a list for people shows it.
func listedDocument(v *settings.Version) string {
	document, err := shownDocument(v)
	if err != nil {
		return err.Error()
	}
	return document
}

// describeSettings returns the settings in lines for people. Defaults are marked.
func describeSettings(v *settings.Version) (string, error) {
	if v.Version == 0 {
		return fmt.Sprintf("%s has no settings: all defaults apply\n", v.Application), nil
	}
	text := fmt.Sprintf("%s, version %d, changed at %s by %s\n", v.Application, v.Version, v.ChangedAt, v.ChangedBy)
	s, err := readSettings(v)
	if err != nil {
		return text, err
	}
	given, err := membersOf(settingsForm.Redacted(&s))
	if err != nil {
		return text, err
	}
	effective, err := membersOf(settingsForm.Effective(&s, clock.NoTarget))
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
func membersOf(object string) (members map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	err = d.Decode(&members)
	return members, err
}

// describeField returns the value of a member of a document on one line for people.
func describeField(f *settings.FieldInfo, value any) string {
	switch value := value.(type) {
	case map[string]any:
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

// describePart returns the value of a member of an object: the number of its elements if there may be several; "" for
// nothing.
func describePart(f *settings.FieldInfo, object map[string]any) string {
	value, has := object[f.Name]
	switch {
	case f.Kind == settings.KindTexts:
		texts, _ := value.(map[string]any)
		return fmt.Sprint(len(texts))
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

// printedVersion is one version of settings as JSON.
type printedVersion struct {
	Application string          `json:"application"`
	Version     int64           `json:"version"`
	ChangedAt   *string         `json:"changed_at"`
	ChangedBy   *string         `json:"changed_by"`
	Settings    json.RawMessage `json:"settings"`             // null if they cannot be read
	Unreadable  string          `json:"unreadable,omitempty"` // why
}

func versionJSON(v *settings.Version) printedVersion {
	p := printedVersion{Application: v.Application, Version: v.Version, Settings: json.RawMessage("{}")}
	if v.Version > 0 {
		at := v.ChangedAt.String()
		p.ChangedAt, p.ChangedBy = &at, &v.ChangedBy
	}
	document, err := shownDocument(v)
	if err != nil {
		p.Settings, p.Unreadable = json.RawMessage("null"), err.Error()
		return p
	}
	p.Settings = json.RawMessage(document)
	return p
}

// printVersions prints each version as one line of JSON.
func printVersions(versions []settings.Version) error {
	for i := range versions {
		if err := printValue(versionJSON(&versions[i])); err != nil {
			return err
		}
	}
	return nil
}
