package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

var update = flag.Bool("update", false, "write the schemas of settings and the lists of targets to openapi.yaml")

// lists are the lists of targets in openapi.yaml.
var lists = regexp.MustCompile(`enum: \[amqp, [a-z, ]*\]`)

// The schemas of settings in openapi.yaml are made from the form, and the lists of targets from their kinds: none is
// missing.
func TestSchemasOfSettings(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../clock/clockhttp/openapi.yaml", " -run TestSchemasOfSettings -update\n",
		"    SettingsVersion:\n"
	document, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(document), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no part between %q and %q", file, begin, end)
	}
	targets := clock.TargetNames()
	schemas := schemasOf(settingsForm.Fields())
	made := lists.ReplaceAllStringFunc(head+begin+schemas+end+tail, func(list string) string {
		if strings.HasSuffix(list, ", null]") {
			return "enum: [" + strings.Join(targets, ", ") + ", null]"
		}
		return "enum: [" + strings.Join(targets, ", ") + "]"
	})
	if *update {
		if err := os.WriteFile(file, []byte(made), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(document) != made {
		t.Errorf("the schemas of settings in %s are old: run this test with -update, then tools/openapi30. They must be\n%s",
			file, schemas)
	}
}

// schemasOf returns the schemas of documents, of the objects in them, and of what applies.
func schemasOf(fields []settings.FieldInfo) string {
	var b strings.Builder
	line := func(depth int, format string, args ...any) {
		b.WriteString(strings.Repeat("  ", depth) + fmt.Sprintf(format, args...) + "\n")
	}
	open := func(name, description string, required []string) {
		line(2, "%s:", name)
		line(3, "type: object")
		line(3, "description: %s", quoted(description))
		line(3, "additionalProperties: false")
		if len(required) > 0 {
			line(3, "required: [%s]", strings.Join(required, ", "))
		}
		line(3, "properties:")
	}
	open("Settings", "Settings of an application. A setting that is not given has its default.", nil)
	var all []string
	for _, f := range fields {
		all = append(all, f.Name)
		line(4, "%s: %s", f.Name, strings.Replace(schemaOf(f), "/Retry", "/GivenRetry", 1))
	}
	for _, f := range fields {
		if f.Kind != settings.KindObject || sharedSchemas[f.Name] != "" {
			continue
		}
		var required []string
		for _, field := range f.Fields {
			if field.Required {
				required = append(required, field.Name)
			}
		}
		open(f.Type, f.Help, required)
		for _, field := range f.Fields {
			line(4, "%s: %s", field.Name, inlineSchema(field))
		}
	}
	for _, f := range fields {
		if f.Kind != settings.KindObjects {
			continue
		}
		open(f.Type, "A destination of an application, with one member or several.", nil)
		for _, field := range f.Fields {
			line(4, "%s: %s", field.Name, schemaOf(field))
		}
		line(3, "minProperties: 1")
		line(2, "%ss: %s", f.Type, inlineSchema(f))
	}
	open("EffectiveSettings", "What applies to an application: its settings, and the defaults of the others.", all)
	for _, f := range fields {
		mayBeNull := f.Absent != "" && f.Kind != settings.KindChoice && f.Kind != settings.KindChoices
		if !mayBeNull {
			line(4, "%s: %s", f.Name, schemaOf(f))
			continue
		}
		line(4, "%s:", f.Name)
		line(5, "description: %s", quoted("null: "+f.Absent+"."))
		line(5, "anyOf:")
		line(6, "- %s", strings.Trim(schemaOf(f), "{ }"))
		line(6, "- type: 'null'")
	}
	return b.String()
}

// sharedSchemas are the schemas that other parts of the API have too, or that need more text than a field has.
var sharedSchemas = map[string]string{
	"target": "Target", "alarm_targets": "AlarmTargets", "retry": "Retry", "ack_timeout": "Duration",
	"paused": "ApplicationPaused",
}

// schemaOf returns the schema of a member of documents.
func schemaOf(f settings.FieldInfo) string {
	name := sharedSchemas[f.Name]
	if f.Kind == settings.KindObject {
		name = f.Type
	}
	if f.Kind == settings.KindObjects {
		name = f.Type + "s"
	}
	if name == "" {
		return inlineSchema(f)
	}
	return fmt.Sprintf("{ $ref: '#/components/schemas/%s' }", name)
}

// inlineSchema returns the schema of a field.
func inlineSchema(f settings.FieldInfo) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch f.Kind {
	case settings.KindInteger:
		if _, null := f.Default.(json.RawMessage); null {
			add("type: [integer, 'null']")
		} else {
			add("type: integer")
		}
		if f.Max > 0 {
			add("minimum: %d, maximum: %d", f.Min, f.Max)
		}
	case settings.KindNumber:
		add("type: number")
	case settings.KindFlag:
		add("type: boolean")
	case settings.KindTexts:
		add("type: object, additionalProperties: { type: string }")
	case settings.KindPatterns:
		add("type: object, additionalProperties: false, properties: {")
		for _, name := range f.Choices {
			parts[len(parts)-1] += fmt.Sprintf(" %s: { type: array, items: { type: string } },", name)
		}
		parts[len(parts)-1] = strings.TrimSuffix(parts[len(parts)-1], ",") + " }"
	case settings.KindSecrets:
		add("type: array, items: { type: string }")
	case settings.KindChoices:
		add("type: array, items: { type: string, enum: [%s] }", strings.Join(f.Choices, ", "))
	case settings.KindChoice:
		add("type: string, enum: [%s]", strings.Join(f.Choices, ", "))
	case settings.KindText:
		add("type: string")
		if f.Required {
			add("minLength: 1")
		}
		if f.Max > 0 {
			add("maxLength: %d", f.Max)
		}
		add("example: %s", quoted(f.Example))
	case settings.KindDuration:
		add("type: string, example: %s", quoted(cmp.Or(f.Example, exampleOrKind(f))))
	case settings.KindObject:
		add("type: object")
	case settings.KindObjects:
		add("type: object, additionalProperties: { $ref: '#/components/schemas/%s' }", f.Type)
	}
	if f.Default != nil && f.Kind != settings.KindSecrets {
		value := f.Default
		if raw, null := value.(json.RawMessage); null {
			value = string(raw)
		}
		add("default: %v", value)
	}
	if f.Help != "" {
		add("description: %s", quoted(f.Help))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// quoted returns the text as a string of YAML.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
