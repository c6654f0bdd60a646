package main

import (
	"iter"
	"slices"

	"go.yaml.in/yaml/v3"
)

// pairs returns the names and values of a mapping, as it was at the call.
func pairs(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	content := slices.Clone(n.Content)
	return func(yield func(string, *yaml.Node) bool) {
		for i := 0; i+1 < len(content); i += 2 {
			if !yield(content[i].Value, content[i+1]) {
				return
			}
		}
	}
}

// get returns the value of a name, nil if n is no mapping or does not have the name.
func get(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for found, v := range pairs(n) {
		if found == name {
			return v
		}
	}
	return nil
}

func set(n *yaml.Node, name string, v *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, scalar(name), v)
}

func remove(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func boolean() *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"} }

// object returns a mapping with one name.
func object(name, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(name), scalar(value)}}
}

func copyOf(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	for _, v := range n.Content {
		c.Content = append(c.Content, copyOf(v))
	}
	return &c
}

// references returns the values of all $ref.
func references(n *yaml.Node) map[string]bool {
	all := map[string]bool{}
	var collect func(*yaml.Node)
	collect = func(n *yaml.Node) {
		if ref := get(n, "$ref"); ref != nil {
			all[ref.Value] = true
		}
		for _, v := range n.Content {
			collect(v)
		}
	}
	collect(n)
	return all
}
