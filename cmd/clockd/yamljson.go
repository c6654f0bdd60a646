package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a YAML document. Aliases can make a small one large.
const (
	maxYAMLNodes = 200_000
	maxYAMLDepth = 1000
	maxYAMLBytes = maxManifestFile // of its JSON
)

// yamlToJSON returns a YAML document as JSON: members in their order, numbers and times as they are written. It refuses
// values that JSON would have in another form.
func yamlToJSON(content []byte) ([]byte, error) {
	d := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, notYAML(err, content)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document: give each a file of its own")
	}
	if len(document.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	var w yamlWriter
	err := w.value(document.Content[0], 0)
	return w.json.Bytes(), err
}

// quotedText is text that an error repeats.
var quotedText = regexp.MustCompile("'[^']*'|`[^`]*`|\"[^\"]*\"")

// notYAML returns the error of a document that cannot be read, with what people mostly mean.
func notYAML(err error, content []byte) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty")
	}
	text := quotedText.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "...") // it may be a secret
	switch {
	case strings.Contains(text, "alphabetic or numeric character"):
		text += ": write a value in quotes that begins with * or &"
	case bytes.Contains(content, []byte("\n\t")):
		text += ": YAML has no tabs at the begin of a line"
	}
	if c := bytes.TrimSpace(content); len(c) > 0 && (c[0] == '{' || c[0] == '[') {
		return fmt.Errorf("neither JSON (%w) nor YAML (%s)", json.Unmarshal(content, new(any)), text)
	}
	return fmt.Errorf("no YAML: %s", text)
}

// yamlWriter writes the nodes of a document as JSON.
type yamlWriter struct {
	json  bytes.Buffer
	nodes int
}

func (w *yamlWriter) value(n *yaml.Node, depth int) error {
	if err := w.count(n, depth); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		return w.list('[', ']', len(n.Content), func(i int) error { return w.value(n.Content[i], depth+1) })
	case yaml.MappingNode:
		members, err := w.members(n, depth)
		if err != nil {
			return err
		}
		return w.list('{', '}', len(members), func(i int) error {
			if err := w.text(members[i].name.Value); err != nil {
				return err
			}
			w.json.WriteByte(':')
			return w.value(members[i].value, depth+1)
		})
	default:
		return w.scalar(n)
	}
}

// count refuses a node beyond the bounds.
func (w *yamlWriter) count(n *yaml.Node, depth int) error {
	if w.nodes++; w.nodes > maxYAMLNodes || depth > maxYAMLDepth || w.json.Len() > maxYAMLBytes {
		return fmt.Errorf("line %d: aliases or depth make the document too large", n.Line)
	}
	return nil
}

// list writes elements between brackets.
func (w *yamlWriter) list(begin, end byte, count int, write func(i int) error) error {
	w.json.WriteByte(begin)
	for i := range count {
		if i > 0 {
			w.json.WriteByte(',')
		}
		if err := write(i); err != nil {
			return err
		}
	}
	w.json.WriteByte(end)
	return nil
}

func (w *yamlWriter) text(text string) error {
	b, err := encodeJSON(text)
	w.json.Write(b)
	return err
}

func (w *yamlWriter) scalar(n *yaml.Node) error {
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		w.json.WriteString("null")
	case tag == "!!bool":
		w.json.WriteString(strings.ToLower(n.Value))
	case tag == "!!str", tag == "!!timestamp":
		return w.text(n.Value)
	case (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)):
		w.json.WriteString(n.Value)
	default:
		return fmt.Errorf("line %d: JSON has no value of this form (%s): write a text in quotes, or a decimal number",
			n.Line, tag)
	}
	return nil
}

// yamlMember is a member of a mapping.
type yamlMember struct{ name, value *yaml.Node }

// members returns the members of a mapping in their order: its own ones, then the merged ones that it has not.
func (w *yamlWriter) members(n *yaml.Node, depth int) (members []yamlMember, err error) {
	if err := w.count(n, depth); err != nil {
		return nil, err
	}
	has := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.ShortTag() == "!!merge":
			merged = append(merged, value)
		case name.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a name must be a text", name.Line)
		case has[name.Value]:
			return nil, fmt.Errorf("line %d: %.64q comes twice", name.Line, name.Value)
		default:
			has[name.Value] = true
			members = append(members, yamlMember{name, value})
		}
	}
	for len(merged) > 0 {
		from := merged[0]
		merged = merged[1:]
		switch from.Kind {
		case yaml.AliasNode:
			if err := w.count(from, depth); err != nil {
				return nil, err
			}
			merged = slices.Insert(merged, 0, from.Alias)
		case yaml.SequenceNode:
			merged = slices.Insert(merged, 0, from.Content...)
		case yaml.MappingNode:
			more, err := w.members(from, depth+1)
			if err != nil {
				return nil, err
			}
			for _, m := range more {
				if !has[m.name.Value] {
					has[m.name.Value] = true
					members = append(members, m)
				}
			}
		default:
			return nil, fmt.Errorf("line %d: << needs a mapping", from.Line)
		}
	}
	return members, nil
}
