package main

import (
	"context"
	"errors"
	"testing"

	"github.com/clockd/clockd/clock/clockhttp"
)

// The first try meets no database. The second try may migrate for hours, so it does not leave the first failure as the
// whole reason.
func TestStartingNodeTellsWhatItDoesNow(t *testing.T) {
	t.Parallel()
	var told clockhttp.Check
	expect := func(status, detail string) {
		t.Helper()
		if want := (clockhttp.Check{Name: "database", Status: status, Detail: detail}); told != want {
			t.Errorf("told %+v, want %+v", told, want)
		}
	}
	away := errors.New("database is away")
	during := "the schema is being migrated"
	var result error
	step := reported(func(c clockhttp.Check) { told = c }, "the schema is being migrated", func(context.Context) error {
		expect(statusWarning, during)
		return result
	})

	result = away
	if err := step(t.Context()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	expect(statusFailing, "database is away")

	result, during = nil, "the schema is being migrated; the last try failed: database is away"
	if err := step(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
}
