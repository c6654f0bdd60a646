package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

const folder = "../../clock/clockhttp/"

func TestCommittedFileIsUpToDate(t *testing.T) {
	document, err := os.ReadFile(folder + "openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := flatten(document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(folder + "openapi-3.0.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("openapi-3.0.yaml is not what this tool makes of openapi.yaml: run make generate")
	}
	for _, newer := range []string{"'null'", "unevaluatedProperties", "contentEncoding", "anyOf", "application/x-ndjson:", "examples: ["} {
		if bytes.Contains(want, []byte(newer)) {
			t.Errorf("%s is left", newer)
		}
	}
}

// schemas returns the 3.0 form of schemas, without what is around them.
func schemas(t *testing.T, text string) (string, error) {
	t.Helper()
	const head = "openapi: 3.1.0\ninfo:\n  description: x\npaths: {}\ncomponents:\n  schemas:\n"
	flat, err := flatten([]byte(head + "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"))
	_, found, _ := strings.Cut(string(flat), "  schemas:\n")
	return strings.TrimSpace(strings.ReplaceAll("\n"+found, "\n    ", "\n")), err
}

func TestSchemasAreFlattened(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"null": {"A: {type: [integer, 'null'], default: null}", "A: {type: integer, nullable: true}"},
		"text or number": {"A: {type: [string, integer, 'null'], minimum: 0}",
			"A: {type: string, nullable: true}"},
		"enum": {"A: {enum: [a, null]}", "A: {type: string, enum: [a], nullable: true}"},
		"bytes": {"A: {type: string, contentEncoding: base64, examples: [a, b]}",
			"A: {type: string, example: a, format: byte}"},
		"time": {"A: {type: string, format: date-time, pattern: x}",
			"A: {type: string, format: date-time}"},
		"anyOf of one": {"B: {type: string}\nA: {anyOf: [{$ref: '#/components/schemas/B'}], description: x}",
			"A: {type: string, description: x}"},
		"closed object": {"A: {type: object, additionalProperties: false}", "A: {type: object}"},
		"map": {"A: {type: object, additionalProperties: {type: [string, 'null']}}",
			"A: {type: object, additionalProperties: {type: string, nullable: true}}"},
		"other name":            {"B: {type: string}\nA:\n  allOf: [{$ref: '#/components/schemas/B'}]\n  unevaluatedProperties: false", "A: {type: string}"},
		"nullable object":       {"B: {type: object, properties: {a: {type: string}}}\nA: {anyOf: [{$ref: '#/components/schemas/B'}, {type: 'null'}]}", "B: {type: object, properties: {a: {type: string}}}\nA: {nullable: true, allOf: [{$ref: '#/components/schemas/B'}]}"},
		"nullable text":         {"B: {type: string}\nA: {anyOf: [{$ref: '#/components/schemas/B'}, {type: 'null'}], description: x}", "A: {type: string, description: x, nullable: true}"},
		"extended object":       {"B: {type: object, required: [a], properties: {a: {type: string}}}\nA: {allOf: [{$ref: '#/components/schemas/B'}], required: [b], properties: {b: {type: integer}}}", "A: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: integer}}}"},
		"unused from the begin": {"A: {type: string}", "A: {type: string}"},
	} {
		got, err := schemas(t, c.in)
		if err != nil || strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
	for _, in := range []string{"A: {type: [integer, boolean]}", "A: {allOf: [{type: string}, {type: string}]}", "A: {anyOf: [{type: string}, {type: 'null'}]}", "A: {$ref: '#/components/schemas/B', default: 1}"} {
		if got, err := schemas(t, in); err == nil {
			t.Errorf("%s was taken: %s", in, got)
		}
	}
}
