package engine

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
)

const (
	maxNames     = 100     // names that one statement looks behind, at most
	namesGuessed = 100_000 // names that are kept as guesses, at most
)

// guessedNames are the names that earlier reads have found, in order. A read looks behind many of them at once, and so
// saves round trips. Each name that it returns has been read.
type guessedNames struct {
	mu    sync.Mutex
	names []string
}

// read returns at most limit names after the given one. next is like Driver.ReadNextApplications.
func (g *guessedNames) read(
	ctx context.Context, next func(ctx context.Context, after []string) ([]string, error), after string, limit int,
) (names []string, err error) {
	last, more := after, true
	for more && len(names) < limit {
		probes := g.after(last, min(maxNames, limit-len(names)))
		found, err := next(ctx, probes)
		if err != nil {
			return nil, err
		}
		for i, name := range found {
			if probes[i] != last {
				break // the guess was wrong: its name is gone, or there is one before it
			}
			if name == "" {
				more = false
				break
			}
			names, last = append(names, name), name
		}
	}
	g.learn(after, names, more)
	return names, nil
}

// after returns the name and the guesses after it, count in all at most.
func (g *guessedNames) after(name string, count int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, found := slices.BinarySearch(g.names, name)
	if found {
		from++
	}
	to := min(len(g.names), from+count-1)
	return append([]string{name}, g.names[from:to]...)
}

// learn takes what a read has found behind a name. Without more there are no others.
func (g *guessedNames) learn(after string, names []string, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, found := slices.BinarySearch(g.names, after)
	if found {
		from++
	}
	to := len(g.names)
	if more && len(names) > 0 {
		if to, found = slices.BinarySearch(g.names, names[len(names)-1]); found {
			to++
		}
	}
	if slices.Equal(g.names[from:to], names) {
		return
	}
	g.names = slices.Concat(g.names[:from], names, g.names[to:])
	g.names = g.names[:min(len(g.names), namesGuessed)]
}

// NextName returns the name that a statement has found behind a name, as an answer of Driver.ReadNextApplications.
func NextName(name string, err error) ([]string, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return []string{""}, nil
	}
	return []string{name}, err
}
