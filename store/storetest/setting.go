package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// change returns a change of an application's settings.
func change(application, document string, at clock.Instant, ifVersion int64) settings.Change {
	return settings.Change{Application: application, Document: document, At: at,
		By:        clock.Actor{Name: "näme’ of " + application, Token: "0123456789ab", From: "2001:db8::1"},
		IfVersion: ifVersion}
}

// versionOf returns the version that the change makes.
func versionOf(c settings.Change, version int64) settings.Version {
	return settings.Version{Application: c.Application, Version: version, Document: c.Document, ChangedAt: c.At,
		ChangedBy: c.By.Name}
}

func (f *fixture) changeSettings(c settings.Change) settings.Version {
	f.t.Helper()
	v, err := f.ChangeSettings(f.t.Context(), c)
	ok(f.t, err, "change settings")
	return v
}

func (f *fixture) settingChanges() int64 {
	f.t.Helper()
	n, err := f.SettingChanges(f.t.Context())
	ok(f.t, err, "setting changes")
	return n
}

// testSettings demands that each change makes the next version of its application alone, and that all of them are kept.
func testSettings(t *testing.T, f *fixture) {
	all := func() []settings.Version {
		t.Helper()
		v, err := f.AllSettings(t.Context())
		ok(t, err, "all settings")
		return v
	}
	current := func(application string) settings.Version {
		t.Helper()
		v, err := f.Settings(t.Context(), application)
		ok(t, err, "settings")
		return v
	}
	history := func(application string, limit int) []settings.Version {
		t.Helper()
		v, err := f.SettingsHistory(t.Context(), application, limit)
		ok(t, err, "history")
		return v
	}
	same(t, "changes of a new database", f.settingChanges(), 0)
	same(t, "settings of a new database", all(), nil)
	same(t, "settings of an unknown application", current("shop"),
		settings.Version{Application: "shop", ChangedAt: clock.NoInstant})
	same(t, "history of an unknown application", history("shop", 10), nil)

	shop1 := change("shop", `{"max_rings":3}`, t0, 0)
	same(t, "first version", f.changeSettings(shop1), versionOf(shop1, 1))
	bank1 := change("Bank", `{"text":"`+strings.Repeat("’", 2000)+`"}`, t0+1, settings.AnyVersion)
	same(t, "another application", f.changeSettings(bank1), versionOf(bank1, 1))
	shop2 := change("shop", `{}`, t0-5, 1)
	same(t, "second version", f.changeSettings(shop2), versionOf(shop2, 2))
	shop3 := change("shop", `{ }`, t0+7, settings.AnyVersion)
	same(t, "third version", f.changeSettings(shop3), versionOf(shop3, 3))
	same(t, "changes", f.settingChanges(), 4)
	same(t, "all settings", all(), []settings.Version{versionOf(bank1, 1), versionOf(shop3, 3)})
	same(t, "settings", current("shop"), versionOf(shop3, 3))
	same(t, "settings of another spelling", current("bank").Version, 0)
	same(t, "history", history("shop", 10),
		[]settings.Version{versionOf(shop3, 3), versionOf(shop2, 2), versionOf(shop1, 1)})
	same(t, "newest history", history("shop", 2), []settings.Version{versionOf(shop3, 3), versionOf(shop2, 2)})

	for _, ifVersion := range []int64{0, 2, 4} {
		_, err := f.ChangeSettings(t.Context(), change("shop", `{"priority":1}`, t0+9, ifVersion))
		e, is := errors.AsType[*clock.Error](err)
		if !is || !errors.Is(err, clock.ErrPrecondition) || e.Field != "if_version" ||
			!strings.Contains(e.Detail, "3") {
			t.Errorf("a change of version %d: %v", ifVersion, err)
		}
	}
	_, err := f.ChangeSettings(t.Context(), change("new", `{}`, t0+9, 1))
	if !errors.Is(err, clock.ErrPrecondition) {
		t.Errorf("a change of settings that never were: %v", err)
	}
	same(t, "changes after refused changes", f.settingChanges(), 4)
	same(t, "all settings after refused changes", all(), []settings.Version{versionOf(bank1, 1), versionOf(shop3, 3)})
	same(t, "history after refused changes", len(history("shop", 10)), 3)

	s := func(i clock.Instant) string { return i.Time().Format(reportLayout) }
	same(t, "report", f.report(`SELECT application, version, is_current, document, changed_at, changed_by FROM application_setting_report
		WHERE application = 'shop' AND version > 1 ORDER BY version`), [][]string{
		{"shop", "2", "0", `{}`, s(t0 - 5), shop2.By.Name}, {"shop", "3", "1", `{ }`, s(t0 + 7), shop3.By.Name},
	})
}

// testRewrittenSettings rewrites the documents of one application. Its versions, and other applications, stay.
func testRewrittenSettings(t *testing.T, f *fixture) {
	const versions = 103 // more than one page
	for i := range int64(versions) {
		f.changeSettings(change("shop", fmt.Sprintf(`{"n":%d}`, i+1), t0+clock.Instant(i), i))
	}
	other := versionOf(change("till", `{"n":1}`, t0, 0), 1)
	f.changeSettings(change("till", other.Document, t0, 0))
	ops := clock.Actor{Name: "ops"}
	rewrite := func(application string, document func(v *settings.Version) string) int {
		t.Helper()
		n, err := f.RewriteSettings(t.Context(), settings.Rewrite{
			Application: application, Document: document, Action: "settings_seal", At: t0 + 500, By: ops,
		})
		ok(t, err, "rewrite")
		return n
	}
	counted := f.settingChanges()
	same(t, "documents that stay", rewrite("shop", func(v *settings.Version) string { return v.Document }), 0)
	same(t, "documents of nobody", rewrite("nobody", func(*settings.Version) string { return "{}" }), 0)
	same(t, "changes without a difference", f.settingChanges(), counted)
	rewritten := func(v *settings.Version) string {
		if v.Version%2 == 0 {
			return v.Document
		}
		return strings.Replace(v.Document, "n", v.Application, 1)
	}
	same(t, "documents", rewrite("shop", rewritten), 52)
	same(t, "changes", f.settingChanges(), counted+1)
	history, err := f.SettingsHistory(t.Context(), "shop", versions+1)
	ok(t, err, "history")
	same(t, "versions", len(history), versions)
	for i := range history {
		n := int64(versions - i)
		v := versionOf(change("shop", fmt.Sprintf(`{"n":%d}`, n), t0+clock.Instant(n-1), n-1), n)
		v.Document = rewritten(&v)
		same(t, "version", history[i], v)
	}
	all, err := f.AllSettings(t.Context())
	ok(t, err, "all settings")
	same(t, "current settings", all, []settings.Version{history[0], other})
	acts, err := f.Acts(t.Context(), clock.ActsQuery{Application: "shop", Limit: 1})
	ok(t, err, "acts")
	same(t, "act", acts, []clock.Act{{
		ID: acts[0].ID, At: t0 + 500, Actor: ops, Action: "settings_seal", Application: "shop", After: `{"documents":52}`,
	}})

	// A person has changed the current document in SQL. It does not become the one of the history.
	f.exec("UPDATE application_setting SET document = '{\"sql\":1}' WHERE application = 'till'")
	same(t, "documents beside one of a person", rewrite("till", func(v *settings.Version) string {
		return strings.Replace(v.Document, "1", "5", 1)
	}), 2)
	till, err := f.Settings(t.Context(), "till")
	ok(t, err, "settings")
	same(t, "document of a person", till.Document, `{"sql":5}`)
	history, err = f.SettingsHistory(t.Context(), "till", 1)
	ok(t, err, "history")
	same(t, "its document in the history", history[0].Document, `{"n":5}`)

	// An old version alone: the current one stays.
	same(t, "documents", rewrite("till", func(*settings.Version) string { return `{"n":2}` }), 2)
	f.changeSettings(change("till", `{"n":3}`, t0, 1))
	same(t, "documents", rewrite("till", func(v *settings.Version) string {
		return strings.Replace(v.Document, "2", "0", 1)
	}), 1)
	till, err = f.Settings(t.Context(), "till")
	ok(t, err, "settings")
	same(t, "current document", till.Document, `{"n":3}`)
}

// testRacingSettings changes the settings of two applications from several stores at once. Each change makes a version
// of its own, and of changes on the condition of one version exactly one succeeds.
func testRacingSettings(t *testing.T, f *fixture) {
	const writers, changes = 4, 10
	var g errgroup.Group
	won := make(chan int, writers*changes)
	for i := range writers {
		s := f
		if i > 0 {
			s = f.other()
		}
		g.Go(func() error {
			for n := range changes {
				if _, err := s.ChangeSettings(t.Context(), change("any", fmt.Sprintf(`{"n":%d}`, i), t0, settings.AnyVersion)); err != nil {
					return err
				}
				_, err := s.ChangeSettings(t.Context(), change("one", `{}`, t0, int64(n)))
				if errors.Is(err, clock.ErrPrecondition) {
					continue
				}
				if err != nil {
					return err
				}
				won <- n
			}
			return nil
		})
	}
	ok(t, g.Wait(), "change at once")
	close(won)
	wins := map[int]int{}
	for n := range won {
		if wins[n]++; wins[n] > 1 {
			t.Errorf("two changes on the condition of version %d succeeded", n)
		}
	}
	for application, want := range map[string]int{"any": writers * changes, "one": len(wins)} {
		history, err := f.SettingsHistory(t.Context(), application, 1000)
		ok(t, err, "history")
		same(t, "versions of "+application, len(history), want)
		for i := range history {
			same(t, "version", history[i].Version, int64(want-i))
		}
	}
	same(t, "changes", f.settingChanges(), int64(writers*changes+len(wins)))
}

// testSettingsBesideUncommittedChange reads settings while another transaction changes them. The reads return the
// committed settings at once.
func testSettingsBesideUncommittedChange(t *testing.T, f *fixture) {
	committed := f.changeSettings(change("shop", `{}`, t0, 0))
	tx, err := f.db.SQL.BeginTx(t.Context(), nil)
	ok(t, err, "begin")
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{
		"UPDATE application_setting_counter SET changes = changes + 1",
		"UPDATE application_setting SET document = '{\"max_rings\":2}'",
	} {
		_, err = tx.ExecContext(t.Context(), statement)
		ok(t, err, statement)
	}
	ctx, stop := context.WithTimeout(t.Context(), promptTimeout)
	defer stop()
	n, err := f.SettingChanges(ctx)
	ok(t, err, "setting changes")
	same(t, "changes", n, 1)
	all, err := f.AllSettings(ctx)
	ok(t, err, "all settings")
	same(t, "settings", all, []settings.Version{committed})
	time.AfterFunc(50*time.Millisecond, func() { _ = tx.Rollback() }) // the change below waits for it
	same(t, "version after the other transaction", f.changeSettings(change("shop", `{}`, t0, 1)).Version, 2)
}
