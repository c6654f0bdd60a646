package manifest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Difference is a value that differs between two JSON values.
type Difference struct {
	Path          string          // names of members, joined by dots; "": the value itself
	Before, After json.RawMessage // nil: there is none
}

// Diff returns where two JSON values differ, by path. It compares objects member by member, and other values as they
// are written. "" is no value.
func Diff(before, after string) []Difference {
	return diff("", json.RawMessage(before), json.RawMessage(after))
}

func diff(path string, before, after json.RawMessage) (differences []Difference) {
	if bytes.Equal(before, after) {
		return nil
	}
	was, wasObject := object(before)
	is, isObject := object(after)
	if !wasObject || !isObject || len(was) == 0 || len(is) == 0 {
		return []Difference{{path, before, after}}
	}
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		below := name
		if path != "" {
			below = path + "." + name
		}
		differences = append(differences, diff(below, was[name], is[name])...)
	}
	return differences
}

// object returns the members of an object.
func object(value json.RawMessage) (members map[string]json.RawMessage, is bool) {
	is = len(value) > 0 && value[0] == '{' && json.Unmarshal(value, &members) == nil
	return members, is
}
