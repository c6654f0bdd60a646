package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
)

// Stored is the record of an application as the database has it.
type Stored struct {
	Application string
	Version     int64         // 1 at first, one more with each change; 0: the application never had a manifest
	Document    string        // JSON; empty for Version 0
	ChangedAt   clock.Instant // clock.NoInstant for Version 0
	ChangedBy   string        // who changed it; empty for Version 0
}

// Change asks that an application's record becomes this document.
type Change struct {
	Application string
	Document    string
	IfVersion   int64 // condition: the record has this version
	At          clock.Instant
	By          clock.Actor
	Act         clock.Act // for the audit; without an Action: none
}

// OtherVersion returns the error of a change whose condition does not hold.
func OtherVersion(application string, version, wanted int64) error {
	return &clock.Error{
		Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed, Field: "if_version",
		Detail: fmt.Sprintf("the record of the manifests of %q has version %d, not %d", application, version, wanted),
	}
}

// Record says what the manifests of an application have made.
type Record struct {
	Application string
	Version     int64
	Owned       map[string]Owned // by label
	Busy        clock.Instant    // until when an Apply may be changing the application; NoInstant: none is
	Unreadable  error            // why the record cannot be read, of Applier.Records; then it has no labels
}

// Owned are the items of a label.
type Owned struct {
	ChangedAt clock.Instant
	ChangedBy string
	Items     []Item // by kind and name
}

// recordJSON is a Record as it is stored.
type recordJSON struct {
	Busy      int64                `json:"busy_until,omitempty"`
	Manifests map[string]ownedJSON `json:"manifests"`
}

// check returns a fault that only a change in SQL can have made, or nil.
func (d *recordJSON) check() error {
	for label, o := range d.Manifests {
		if err := ValidateLabel(label); err != nil {
			return err
		}
		if !clock.Instant(o.ChangedAt).Valid() {
			return fmt.Errorf("manifest %s: changed_at is %d", label, o.ChangedAt)
		}
		for _, id := range o.Alarms {
			if err := clock.ValidateBusinessID(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownedJSON is an Owned in a document.
type ownedJSON struct {
	ChangedAt    int64    `json:"changed_at"`
	ChangedBy    string   `json:"changed_by"`
	Settings     []string `json:"settings,omitempty"`
	Destinations []string `json:"destinations,omitempty"`
	Alarms       []string `json:"alarms,omitempty"`
}

// at returns the names of a kind.
func (o *ownedJSON) at(kind Kind) *[]string {
	switch kind {
	case Setting:
		return &o.Settings
	case Destination:
		return &o.Destinations
	default:
		return &o.Alarms
	}
}

// parsed reads the record.
func (s *Stored) parsed() (*Record, error) {
	r := &Record{Application: s.Application, Version: s.Version, Owned: map[string]Owned{}, Busy: clock.NoInstant}
	if s.Version == 0 {
		return r, nil
	}
	var document recordJSON
	if err := cmp.Or(json.Unmarshal([]byte(s.Document), &document), document.check()); err != nil {
		return nil, &clock.Error{
			Kind: clock.ErrConflict, Code: clock.CodeUnreadable, Cause: err,
			Detail: fmt.Sprintf("the record of the manifests of %q cannot be read", s.Application),
		}
	}
	if document.Busy != 0 {
		r.Busy = clock.Instant(document.Busy)
	}
	for label, o := range document.Manifests {
		owned := Owned{ChangedAt: clock.Instant(o.ChangedAt), ChangedBy: o.ChangedBy}
		for _, kind := range kinds {
			for _, name := range *o.at(kind) {
				owned.Items = append(owned.Items, Item{kind, name})
			}
		}
		r.Owned[label] = owned
	}
	return r, nil
}

// document returns the record as it is stored.
func (r *Record) document() string {
	document := recordJSON{Manifests: map[string]ownedJSON{}}
	if r.Busy != clock.NoInstant {
		document.Busy = int64(r.Busy)
	}
	for label, owned := range r.Owned {
		o := ownedJSON{ChangedAt: int64(owned.ChangedAt), ChangedBy: owned.ChangedBy}
		for _, item := range owned.Items {
			*o.at(item.Kind) = append(*o.at(item.Kind), item.Name)
		}
		document.Manifests[label] = o
	}
	return string(encode(document))
}

// itemsOf returns the items of a label.
func (r *Record) itemsOf(label string) map[Item]bool {
	items := map[Item]bool{}
	for _, item := range r.Owned[label].Items {
		items[item] = true
	}
	return items
}

// owner returns the label of an item, "" if it has none.
func (r *Record) owner(item Item) string {
	for label, owned := range r.Owned {
		if slices.Contains(owned.Items, item) {
			return label
		}
	}
	return ""
}

// with returns a record in which the label has these items, no other label has any of them, and no Apply is busy.
func (r *Record) with(label string, items map[Item]bool, at clock.Instant, by string) *Record {
	next := &Record{Application: r.Application, Version: r.Version, Owned: map[string]Owned{}, Busy: clock.NoInstant}
	for other, owned := range r.Owned {
		owned.Items = slices.DeleteFunc(slices.Clone(owned.Items), func(item Item) bool { return items[item] })
		if other != label && len(owned.Items) > 0 {
			next.Owned[other] = owned
		}
	}
	if len(items) > 0 {
		next.Owned[label] = Owned{at, by, slices.SortedFunc(maps.Keys(items), compareItems)}
	}
	return next
}
