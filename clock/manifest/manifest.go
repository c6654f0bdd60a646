package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// MaxAlarms is the number of alarms that a manifest may have.
const MaxAlarms = 1000

// Manifest is what an application is to have under a label.
type Manifest struct {
	Application  string
	Label        string            // as ValidateLabel demands
	Settings     map[string]string // members of the settings document besides destinations: JSON by name
	Destinations map[string]string // JSON by name
	Alarms       []clock.Set       // with rules, of the application, with different keys
}

// Kind is a kind of items.
type Kind string

// The kinds of items.
const (
	Setting     Kind = "setting"     // a member of the settings document
	Destination Kind = "destination" // a destination of the settings document
	Alarm       Kind = "alarm"       // a repeating alarm
)

// Item is a part of an application that a manifest names.
type Item struct {
	Kind Kind
	Name string // of the member or destination, or the business id
}

// ValidateLabel demands 1 to 64 characters of A-Z a-z 0-9 . _ - that begin with a letter or digit.
func ValidateLabel(label string) error {
	return clock.ValidateName("label", "the label of a manifest", label)
}

// Validate returns the first fault that needs no database, or nil.
func (m *Manifest) Validate() error {
	if err := clock.ValidateApplication(m.Application); err != nil {
		return err
	}
	if err := ValidateLabel(m.Label); err != nil {
		return err
	}
	if _, has := m.Settings[destinationsMember]; has {
		return clock.Invalid(clock.CodeUnknownField, "settings."+destinationsMember,
			"a manifest has destinations beside settings, not in them")
	}
	if len(m.Alarms) > MaxAlarms {
		return clock.Invalid(clock.CodeOutOfRange, "alarms",
			fmt.Sprintf("the manifest has %d alarms; at most %d are taken", len(m.Alarms), MaxAlarms))
	}
	for i := range m.Alarms {
		if set := &m.Alarms[i]; set.Repeat == nil {
			return clock.Within(alarmField(set.BusinessID), clock.Invalid(clock.CodeRequired, "repeat",
				"an alarm of a manifest needs repeat: applications set alarms that ring once themselves"))
		}
	}
	return nil
}

// items returns the items of the manifest.
func (m *Manifest) items() map[Item]bool {
	items := map[Item]bool{}
	for name := range m.Settings {
		items[Item{Setting, name}] = true
	}
	for name := range m.Destinations {
		items[Item{Destination, name}] = true
	}
	for i := range m.Alarms {
		items[Item{Alarm, m.Alarms[i].BusinessID}] = true
	}
	return items
}

// compareItems orders items: settings, destinations, alarms, each by name.
func compareItems(a, b Item) int {
	if a.Kind != b.Kind {
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	}
	return strings.Compare(a.Name, b.Name)
}

var kinds = []Kind{Setting, Destination, Alarm}

// destinationsMember is the member of a settings document with the destinations.
const destinationsMember = "destinations"

// document returns the document of the settings with the manifest's, and without some items.
func (m *Manifest) document(before string, without map[Item]bool) string {
	members := map[string]json.RawMessage{}
	destinations := map[string]json.RawMessage{}
	decode(before, &members)
	decode(string(members[destinationsMember]), &destinations)
	for item := range without {
		switch item.Kind {
		case Setting:
			delete(members, item.Name)
		case Destination:
			delete(destinations, item.Name)
		case Alarm:
		}
	}
	for name, value := range m.Settings {
		members[name] = json.RawMessage(value)
	}
	for name, value := range m.Destinations {
		destinations[name] = json.RawMessage(value)
	}
	delete(members, destinationsMember)
	if len(destinations) > 0 {
		members[destinationsMember] = encode(destinations)
	}
	return string(encode(members))
}

// decode reads JSON that this program has written, "" for nothing.
func decode(document string, into any) {
	if document == "" {
		return
	}
	if err := json.Unmarshal([]byte(document), into); err != nil {
		panic(err)
	}
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// member returns the item as a member of the settings.
func (i Item) member() settings.Member {
	return settings.Member{Name: i.Name, Destination: i.Kind == Destination}
}

func (i Item) String() string { return string(i.Kind) + " " + i.Name }

// alarmField returns the field of an alarm in a manifest.
func alarmField(businessID string) string { return "alarms." + businessID }
