package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// nameIndex is an index of names. It answers at most most names in one read.
type nameIndex struct {
	names map[string]bool
	most  int
	reads int
	fail  error
}

func (x *nameIndex) next(_ context.Context, after []string) (found []string, err error) {
	x.reads++
	all := slices.Sorted(maps.Keys(x.names))
	for _, name := range after[:min(x.most, len(after))] {
		found = append(found, "")
		if i := slices.IndexFunc(all, func(other string) bool { return other > name }); i >= 0 {
			found[len(found)-1] = all[i]
		}
	}
	return found, x.fail
}

// list reads all names, page by page.
func (x *nameIndex) list(g *guessedNames, limit int) (names []string, err error) {
	for after := ""; ; after = names[len(names)-1] {
		page, err := g.read(context.Background(), x.next, after, limit)
		if err != nil || len(page) > limit {
			return nil, errors.Join(err, fmt.Errorf("%d names, limit %d", len(page), limit))
		}
		if names = append(names, page...); len(page) < limit {
			return names, nil
		}
	}
}

func TestNamesAreReadWhateverIsGuessed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g guessedNames
		x := &nameIndex{names: map[string]bool{}, most: rapid.IntRange(1, 5).Draw(t, "answers of a read")}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for _, name := range rapid.SliceOf(rapid.StringMatching("[a-c]{1,2}")).Draw(t, "changed") {
				if x.names[name] {
					delete(x.names, name)
				} else {
					x.names[name] = true
				}
			}
			got, err := x.list(&g, rapid.IntRange(1, 4).Draw(t, "limit"))
			if want := slices.Sorted(maps.Keys(x.names)); err != nil || !slices.Equal(got, want) {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
			if !slices.IsSorted(g.names) || len(slices.Compact(slices.Clone(g.names))) != len(g.names) {
				t.Fatalf("the guesses are %q", g.names)
			}
		}
	})
}

func TestGuessedNamesSaveReads(t *testing.T) {
	var g guessedNames
	x := &nameIndex{names: map[string]bool{}, most: maxNames}
	for i := range 250 {
		x.names[fmt.Sprintf("n-%03d", i)] = true
	}
	for _, want := range []int{251, 3} {
		x.reads = 0
		if names, err := x.list(&g, maxNames); err != nil || len(names) != 250 || x.reads != want {
			t.Errorf("%d names after %d reads, %v, want %d reads", len(names), x.reads, err, want)
		}
	}
	x.fail = errors.New("gone")
	if _, err := x.list(&g, 10); !errors.Is(err, x.fail) {
		t.Errorf("a failed read returns %v", err)
	}
	many := make([]string, namesGuessed)
	for i := range many {
		many[i] = fmt.Sprintf("o-%06d", i)
	}
	g.learn("o", many, true)
	if len(g.names) != namesGuessed {
		t.Errorf("%d guesses are kept", len(g.names))
	}
}
