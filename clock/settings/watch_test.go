package settings_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// settingsTable is a database with settings.
type settingsTable struct {
	mu      sync.Mutex
	down    bool
	changes int64
	rows    []settings.Version
	reads   int // calls of AllSettings
}

func (s *settingsTable) SettingChanges(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return 0, clock.Unavailable(errors.New("down"))
	}
	return s.changes, nil
}

func (s *settingsTable) AllSettings(context.Context) ([]settings.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return slices.Clone(s.rows), nil
}

// put writes the next version of an application's settings.
func (s *settingsTable) put(application, document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	v := settings.Version{Application: application, Version: s.changes, Document: document}
	for i := range s.rows {
		if s.rows[i].Application == application {
			s.rows[i] = v
			return
		}
	}
	s.rows = append(s.rows, v)
}

func (s *settingsTable) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// watching runs a test with a running Watch, and the list of the changes that it has reported.
func watching(t *testing.T, test func(w *settings.Watch, table *settingsTable, reported *[][]string)) {
	synctest.Test(t, func(t *testing.T) {
		table, reported := &settingsTable{}, new([][]string)
		table.put("old", `{"max_rings":2}`)
		w := settings.NewWatch(form, table, slog.New(slog.DiscardHandler))
		w.OnChange(func(_, _ *settings.Snapshot, changed []string) { *reported = append(*reported, changed) })
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		test(w, table, reported)
		stop()
		running.Wait()
	})
}

func TestSettingsAreKnownWithinTwoSeconds(t *testing.T) {
	watching(t, func(w *settings.Watch, table *settingsTable, reported *[][]string) {
		if s := w.Settings("old"); s == nil || s.Rings() != 2 || w.Settings("shop") != nil {
			t.Fatalf("settings after Load: %+v", s)
		}
		for version := range 20 {
			table.put("shop", map[bool]string{true: `{"target":"stream"}`, false: `{"target":"amqp"}`}[version%2 == 0])
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s := w.Snapshot().Of("shop"); s == nil || s.Stored.Version != int64(version+2) ||
				(s.Target == clock.TargetStream) != (version%2 == 0) {
				t.Fatalf("after change %d: %+v", version, s)
			}
		}
		if len(*reported) != 21 || !slices.Equal((*reported)[0], []string{"old"}) ||
			!slices.Equal((*reported)[20], []string{"shop"}) {
			t.Errorf("reported %v", *reported)
		}
		before := table.reads
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if table.reads > before+1 {
			t.Errorf("%d reads of all settings without a change", table.reads-before)
		}
		if age := w.Age(); age > 2*time.Second {
			t.Errorf("age %s", age)
		}
	})
}

func TestLastKnownSettingsApplyWhileTheDatabaseIsAway(t *testing.T) {
	watching(t, func(w *settings.Watch, table *settingsTable, _ *[][]string) {
		table.setDown(true)
		table.put("old", `{"max_rings":9}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.Settings("old"); s.Rings() != 2 {
			t.Errorf("max_rings %d", s.Rings())
		}
		if _, failed := w.Changes(); w.Age() < 50*time.Second || failed < 50 {
			t.Errorf("age %s, %d failed polls", w.Age(), failed)
		}
		table.setDown(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.Settings("old"); s.Rings() != 9 || w.Age() > 2*time.Second {
			t.Errorf("max_rings %d, age %s after the outage", s.Rings(), w.Age())
		}
	})
}

// A change by hand that does not count is found too, and so is a deleted row.
func TestUncountedChangesAreFoundWithinAMinute(t *testing.T) {
	watching(t, func(w *settings.Watch, table *settingsTable, reported *[][]string) {
		table.put("shop", `{}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		table.mu.Lock()
		table.rows = table.rows[1:]
		table.rows[0].Document = `{"max_rings":4}`
		table.mu.Unlock()
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if w.Settings("old") != nil || w.Settings("shop").Rings() != 4 {
			t.Errorf("settings %+v, %+v", w.Settings("old"), w.Settings("shop"))
		}
		if last := (*reported)[len(*reported)-1]; !slices.Equal(last, []string{"old", "shop"}) {
			t.Errorf("reported %v", *reported)
		}
	})
}

func TestUnreadableSettingsKeepTheLastOptions(t *testing.T) {
	watching(t, func(w *settings.Watch, table *settingsTable, _ *[][]string) {
		table.put("old", `{"target":"of a later build"}`)
		table.put("new", `no JSON`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.Snapshot().Of("old"); s.Unreadable == nil || s.Rings() != 2 || s.Stored.Version != 2 {
			t.Errorf("settings %+v", s)
		}
		if s := w.Snapshot().Of("new"); s.Unreadable == nil || s.Rings() != clock.DefaultMaxRings {
			t.Errorf("settings %+v", s)
		}
		table.put("old", `{"target":"stream"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.Snapshot().Of("old"); s.Unreadable != nil || s.Target != clock.TargetStream {
			t.Errorf("settings %+v", s)
		}
	})
}

// The number of changes is reported after the change itself, and a refresh reads soon.
func TestSettingsReadsAreReportedAfterTheirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, events := &settingsTable{}, []string{}
		w := settings.NewWatch(form, table, slog.New(slog.DiscardHandler))
		w.OnChange(func(_, _ *settings.Snapshot, changed []string) { events = append(events, changed...) })
		w.OnRead(func(changes int64) { events = append(events, fmt.Sprint(changes)) })
		table.put("shop", `{"paused":true}`)
		table.put("bank", `{"paused":false}`)
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if paused := w.Paused(); !slices.Equal(paused, []string{"shop"}) {
			t.Errorf("paused: %q", paused)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		table.put("shop", `{}`)
		w.Refresh()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if want := []string{"bank", "shop", "2", "shop", "3"}; !slices.Equal(events, want) || len(w.Paused()) > 0 {
			t.Errorf("events %q, want %q; paused: %q", events, want, w.Paused())
		}
		stop()
		running.Wait()
	})
}

// A part keeps its pointer until its content changes, whatever else of the document changes.
func TestPartsKeepTheirPointers(t *testing.T) {
	watching(t, func(w *settings.Watch, table *settingsTable, _ *[][]string) {
		loftOf := pigeon.In(w)
		put := func(document string) *loft {
			table.put("shop", document)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			return loftOf("shop")
		}
		roof := put(`{"pigeon":{"place":"roof","seals":["wax"]}}`)
		if roof == nil || loftOf("old") != nil || loftOf("nobody") != nil {
			t.Fatalf("lofts: %+v, %+v", roof, loftOf("old"))
		}
		if same := put(`{"max_rings":3,"pigeon":{"seals":["wax"],"place":"roof","birds":3}}`); same != roof {
			t.Errorf("an equal part has another pointer: %+v", same)
		}
		if other := put(`{"pigeon":{"place":"roof","seals":["tin"]}}`); other == roof || other.Seals[0] != "tin" {
			t.Errorf("another part has the same pointer: %+v", other)
		}
		if none := put(`{}`); none != nil {
			t.Errorf("a part that is gone: %+v", none)
		}
	})
}
