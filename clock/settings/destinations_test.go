package settings_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// numbersOf returns the numbers of the destinations of a stored document.
func numbersOf(t *testing.T, m *memory) map[string]int {
	t.Helper()
	s, err := form.Parse(m.stored())
	if err != nil {
		t.Fatalf("%s: %v", m.stored(), err)
	}
	return s.Destinations
}

// become writes the next version, and returns what people see of it.
func (m *memory) become(t *testing.T, document string) string {
	t.Helper()
	v, err := m.change(document, settings.AnyVersion, "ops")
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return v.Document
}

// A destination keeps its number for good: other destinations come and go, it is removed and comes again, and the
// settings become unreadable.
func TestDestinationsKeepTheirNumbers(t *testing.T) {
	const (
		loftA = `"a":{"pigeon":{"place":"roof","seals":["wax"]}}`
		nestA = `"a":{"owl":{"tree":"oak"}}`
		nestB = `"b":{"owl":{"tree":"elm"}}`
	)
	for _, sealed := range []bool{false, true} {
		m := &memory{}
		if sealed {
			m.form = keyed("a")
		}
		stored := func() settings.Settings {
			s, err := m.editor().Form.Load(&m.versions[len(m.versions)-1])
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		wants := func(want map[string]int) {
			t.Helper()
			if s := stored(); !maps.Equal(s.Destinations, want) {
				t.Errorf("sealed %t, %s: %v, want %v", sealed, m.stored(), s.Destinations, want)
			}
		}
		seen := m.become(t, `{"destinations":{`+nestB+`,`+loftA+`}}`)
		if strings.Contains(seen, "number") || !strings.HasPrefix(seen, `{"destinations":{"a":{"pigeon":`) {
			t.Errorf("people see %s", seen)
		}
		wants(map[string]int{"webhook/a": 1, "amqp/b": 2})
		m.become(t, seen)
		if len(m.versions) != 1 {
			t.Error("what people give back is another version")
		}
		m.become(t, `{"destinations":{`+nestB+`}}`)
		wants(map[string]int{"amqp/b": 2})
		s := stored()
		if target, name := s.DestinationOf(1); target != clock.TargetWebhook || name != "a" {
			t.Error("a removed destination is not known")
		}
		m.become(t, `{}`)
		wants(nil)
		m.become(t, `{"destinations":{`+nestA+`}}`)
		wants(map[string]int{"amqp/a": 3})
		m.become(t, `{"destinations":{`+loftA+`}}`)
		wants(map[string]int{"webhook/a": 1})
		if sealed {
			m.form = keyed("b") // the first key is lost
		} else {
			m.versions[len(m.versions)-1].Document = strings.Replace(m.stored(), `{`, `{"later":1,`, 1)
		}
		m.become(t, `{"destinations":{`+nestB+`}}`)
		wants(map[string]int{"amqp/b": 2})
	}
}

// Each destination has values of its own, and so has the application. A watch gives them by receiver, and their
// pointers stay while other values change.
func TestPartsOfDestinations(t *testing.T) {
	m := &memory{}
	m.become(t, `{"owl":{"tree":"oak"},"destinations":{"a":{"owl":{"tree":"elm"}},"b":{"pigeon":{"place":"loft","seals":["wax"]}}}}`)
	table := &settingsTable{}
	w := settings.NewWatch(form, table, slog.New(slog.DiscardHandler))
	load := func() {
		t.Helper()
		table.put("shop", m.stored())
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	load()
	nests, lofts := owl.In(w), pigeon.In(w)
	if nests("shop").Tree != "oak" || nests("shop/1").Tree != "elm" || lofts("shop/2").Place != "loft" {
		t.Error("a receiver has not its own value")
	}
	for _, receiver := range []string{"shop/2", "shop/3", "other/1", "shop/x", "shop/-1", "shop/1/"} {
		if nests(receiver) != nil {
			t.Errorf("%s has a value", receiver)
		}
	}
	first := nests("shop/1")
	m.become(t, `{"owl":{"tree":"ash"},"destinations":{"a":{"owl":{"tree":"elm"}}}}`)
	load()
	if nests("shop/1") != first || nests("shop").Tree != "ash" || lofts("shop/2") != nil {
		t.Error("a pointer changed with another value, or a removed destination has a value")
	}
	if got := fmt.Sprint(w.Settings("shop").Demanded()); got != "[ amqp]" {
		t.Errorf("demands %s", got)
	}
}

// Values that people do not see stay with their destination, and are refused elsewhere.
func TestHiddenValuesStayWithTheirDestination(t *testing.T) {
	m := &memory{}
	const both = `{"destinations":{"a":{"pigeon":{"place":"roof","seals":["wax"]}},"b":{"pigeon":{"place":"roof","seals":["gum"]}}}}`
	seen := m.become(t, both)
	m.become(t, strings.Replace(seen, `"birds":3`, `"birds":4`, 1))
	s, _ := form.Parse(m.stored())
	if got := form.Encode(&s); !strings.Contains(got, `"birds":4,"seals":["wax"]`) || !strings.Contains(got, `"seals":["gum"]`) {
		t.Errorf("%s", got)
	}
	_, err := m.change(strings.Replace(seen, `"b":`, `"c":`, 1), settings.AnyVersion, "ops")
	if wrong, is := errors.AsType[*clock.Error](err); !is || !strings.HasPrefix(wrong.Field, "destinations.c.pigeon.seals") {
		t.Errorf("the secret of another destination: %v", err)
	}
}

// Settings whose numbers cannot be read can be replaced.
func TestUnreadableNumbersAreReplaced(t *testing.T) {
	for _, numbered := range []string{`["webhook"]`, `1`, `["amqp/a","amqp/a"]`} {
		m := &memory{}
		m.become(t, `{"max_rings":3}`)
		m.versions[0].Document = `{"numbered_targets":` + numbered + `}`
		m.become(t, `{"destinations":{"d":{"owl":{"tree":"x"}}}}`)
		if got := numbersOf(t, m); got["amqp/d"] != 1 {
			t.Errorf("%s: %v", numbered, got)
		}
	}
}

// The names of destinations take a part of the document, for good. It leaves room for other settings.
func TestNamesOfDestinationsAreBounded(t *testing.T) {
	m := &memory{}
	longest := func(n int) string { return fmt.Sprintf(`{"destinations":{"%064d":{"owl":{"tree":"x"}}}}`, n) }
	n := 0
	for ; ; n++ {
		if _, err := m.change(longest(n), settings.AnyVersion, "ops"); err != nil {
			break
		}
	}
	if n != 4<<10/(64+len("amqp/")) || len(m.stored()) > settings.MaxDocument/2 {
		t.Errorf("%d names, in %d bytes", n, len(m.stored()))
	}
	m.become(t, longest(0))
	m.become(t, full)
}

// An application has had at most clock.MaxDestinations destinations.
func TestDestinationsAreBounded(t *testing.T) {
	m := &memory{}
	document := func(from, count int) string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf(`"d%d":{"owl":{"tree":"x"}}`, from+i))
		}
		return `{"destinations":{` + strings.Join(all, ",") + `}}`
	}
	m.become(t, document(0, 100))
	m.become(t, document(100, 27))
	_, err := m.change(document(126, 2), settings.AnyVersion, "ops")
	if wrong, is := errors.AsType[*clock.Error](err); !is || wrong.Code != clock.CodeOutOfRange || wrong.Field != "destinations" {
		t.Errorf("128 destinations: %v", err)
	}
	m.become(t, `{"destinations":{"d0":{"owl":{"tree":"x"}}}}`)
	m.become(t, document(20, 100))
	if n := numbersOf(t, m)["amqp/d119"]; n < 1 || n > clock.MaxDestinations {
		t.Errorf("number %d", n)
	}
}
