package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Patterns says which fields of its receiver an alarm may bring itself, and which values: by the name of the field. A
// field without a pattern stays as the settings have it.
type Patterns map[string][]string

// Bounds of Patterns.
const (
	maxPatterns = 32  // of one field
	maxPattern  = 512 // bytes of one
)

// Own are the fields of a Part that an alarm may bring itself where the settings allow it.
type Own[T any] struct {
	Fields   []OwnField[T] // in the order in which alarms have them
	Patterns func(*T) Patterns

	// With returns a copy of base with the fields of own that are not empty.
	With func(base, own *T) *T
	// Place returns where the rings of a value go, such as a server. Alarms with receivers of their own in one place
	// share a queue.
	Place func(*T) string
}

// OwnField is a field that an alarm may bring itself. Field.parse reads it into a value without defaults.
type OwnField[T any] struct {
	Field[T]

	// PatternFault returns the fault of a pattern; nil: it has none.
	PatternFault func(pattern string) *Fault
	// Matches reports whether a pattern allows a value. An object of texts has its names for values. nil: the pattern
	// is the value, or its begin and a *.
	Matches func(pattern, value string) bool
}

// matches is the Matches of most fields.
func matches(pattern, value string) bool {
	if begin, isPrefix := strings.CutSuffix(pattern, "*"); isPrefix {
		return strings.HasPrefix(value, begin)
	}
	return pattern == value
}

// MatchesNames is the Matches of headers and the like, whose names do not distinguish upper case from lower case.
func MatchesNames(pattern, name string) bool {
	return matches(strings.ToLower(pattern), strings.ToLower(name))
}

// alarmFields is the name of the field that AlarmFields returns.
const alarmFields = "alarm_fields"

// AlarmFields returns the field with the patterns of own fields.
func AlarmFields[T any](own []OwnField[T], at func(*T) *Patterns) Field[T] {
	var names []string
	for i := range own {
		names = append(names, own[i].Name)
	}
	info := FieldInfo{
		Name: alarmFields, Kind: KindPatterns, Flag: "alarm-field", Choices: names, Absent: "none",
		Help: "Fields that an alarm may bring itself (receiver), and their values: the value, or its begin and a *.",
	}
	return Field[T]{
		FieldInfo: info,
		parse: func(v *T, raw []byte) error {
			*at(v) = Patterns{}
			return eachMember(alarmFields+".", raw, names, func(name string, raw []byte) error {
				var list []string
				if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
					return Wrong("must be a list of strings").of(alarmFields + "." + name)
				}
				(*at(v))[name] = list
				return nil
			})
		},
		check: func(v *T) error {
			for i := range own {
				name := alarmFields + "." + own[i].Name
				list := (*at(v))[own[i].Name]
				if len(list) > maxPatterns {
					return TooMuch("must be at most %d", maxPatterns).of(name)
				}
				for n, pattern := range list {
					if err := own[i].patternFault(pattern).of(element(name, n)); err != nil {
						return err
					}
				}
			}
			return nil
		},
		encode: func(v *T, _ bool) any {
			o := newObject()
			for i := range own {
				if list := (*at(v))[own[i].Name]; len(list) > 0 {
					o.add(own[i].Name, list)
				}
			}
			if o.Len() == 1 {
				return nil
			}
			return o.end()
		},
	}
}

// patternFault returns the fault of a pattern.
func (f *OwnField[T]) patternFault(pattern string) *Fault {
	switch begin := strings.TrimSuffix(pattern, "*"); {
	case pattern == "" || len(pattern) > maxPattern:
		return TooMuch("must have 1 to %d bytes", maxPattern)
	case strings.Contains(begin, "*"):
		return Wrong("may have a * at its end alone")
	case f.PatternFault != nil:
		return f.PatternFault(pattern)
	}
	return nil
}

// values returns the values that patterns allow: the text, or the names of an object of texts.
func (f *OwnField[T]) values(v *T) []string {
	switch value := f.encode(v, false).(type) {
	case string:
		if value != "" {
			return []string{value}
		}
	case map[string]string:
		return slices.Sorted(maps.Keys(value))
	}
	return nil
}

// allows reports whether any of the patterns allows a value.
func (f *OwnField[T]) allows(patterns []string, value string) bool {
	match := f.Matches
	if match == nil {
		match = matches
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, value) })
}

// notAllowed is the error of a field that an alarm brings itself and the settings do not allow. Its text is the reason
// of rings that they allowed once.
type notAllowed struct {
	field    string
	patterns []string // that the settings have for it
}

// Error returns a text that is the same at each try of an alarm.
func (e notAllowed) Error() string {
	return "the settings of the application no longer allow what the alarm brings itself: " + e.field
}

// own returns what the fields of an alarm's receiver make of the part, and the fields as they are stored, "{}" for
// none. base is what the settings have, nil for nothing. An error is a *clock.Error that names the field, or a
// notAllowed.
func (p *Part[T]) own(base *T, fields string) (merged *T, stored string, err error) {
	if base == nil {
		base = p.New()
	}
	own := new(T)
	given, err := p.parseOwn(own, fields)
	if err != nil {
		return nil, "", err
	}
	o := newObject()
	for i := range p.Own.Fields {
		f := &p.Own.Fields[i]
		if !slices.Contains(given, f.Name) {
			continue
		}
		values := f.values(own)
		if len(values) == 0 && f.Kind != KindTexts {
			return nil, "", Wrong("has no value: leave it out").of(f.Name)
		}
		if f.restore != nil { // nothing is stored that dots could stand for
			if err := f.restore(own, new(T)); err != nil {
				return nil, "", err
			}
		}
		if err := f.check(own); err != nil {
			return nil, "", err
		}
		patterns := p.Own.Patterns(base)[f.Name]
		for _, value := range values {
			if !f.allows(patterns, value) {
				return nil, "", notAllowed{f.Name, patterns}
			}
		}
		if len(values) > 0 {
			o.add(f.Name, f.encode(own, false))
		}
	}
	return p.Own.With(base, own), string(o.end()), nil
}

// parseOwn reads fields that an alarm brings itself, and returns their names.
func (p *Part[T]) parseOwn(own *T, fields string) (given []string, err error) {
	names := make([]string, len(p.Own.Fields))
	for i := range p.Own.Fields {
		names[i] = p.Own.Fields[i].Name
	}
	err = eachMember("", []byte(fields), names, func(name string, raw []byte) error {
		given = append(given, name)
		return p.Own.Fields[slices.Index(names, name)].parse(own, raw)
	})
	return given, err
}

// base returns what the settings have for a destination, "" for the application itself; nil for nothing. s may be nil.
func (p *Part[T]) base(s *Settings, destination string) *T {
	if s == nil {
		return nil
	}
	parts := s.parts
	if destination != "" {
		parts = s.destinations[destination]
	}
	base, _ := parts[p.Name].(*T)
	return base
}

// OwnIn returns a function that returns the value for a ring whose alarm brings fields of it itself, as w has the
// settings now. The error says why there is none, in the same words at each try. Any goroutine may call the function.
func (p *Part[T]) OwnIn(w *Watch) func(r *clock.Ring) (*T, error) {
	return func(r *clock.Ring) (*T, error) {
		s := w.Settings(r.Application)
		if s == nil || r.Own.Destination == "" && !s.Allows(p.Target) {
			return nil, fmt.Errorf("the settings of the application no longer let its alarms name the target %s",
				p.Target)
		}
		merged, _, err := p.own(p.base(s, r.Own.Destination), r.Own.Fields)
		return merged, err
	}
}

// place judges the receiver that a set brings itself. The result is zero if it has no field.
func (p *Part[T]) place(s *Settings, set *clock.Set) (place clock.OwnPlace, err error) {
	if p.Own == nil {
		return place, noOwnReceiver(set.Target)
	}
	merged, stored, err := p.own(p.base(s, set.Destination.Name), set.Receiver)
	if e, is := errors.AsType[notAllowed](err); is {
		return place, p.refuse(set, e)
	}
	if err != nil || stored == "{}" {
		return place, clock.Within("receiver", err)
	}
	return clock.OwnPlace{Fields: stored, Number: clock.OwnNumber(p.Own.Place(merged))}, nil
}

// refuse returns the error of a set that brings a field which the settings do not allow.
func (p *Part[T]) refuse(set *clock.Set, e notAllowed) error {
	flags := ""
	if set.Destination.Name != "" {
		flags = " --destination " + set.Destination.Name
	}
	return clock.Invalid(clock.CodeReceiverNotAllowed, "receiver."+e.field, fmt.Sprintf(
		"the settings of application %.64q do not let its alarms bring the field %s. They allow: %s. To allow more: "+
			"clockd application set %[1]s%[4]s --%[5]s-alarm-field %[2]s=...",
		set.Application, e.field, shownPatterns(e.patterns), flags, p.Name))
}

// shownPatterns returns the first patterns for people. Else a batch could have a response that is much larger than it.
func shownPatterns(patterns []string) string {
	const most = 3
	text := cmp.Or(strings.Join(patterns[:min(len(patterns), most)], ", "), "none")
	const longest = 300
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	if more := len(patterns) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// OwnReceiver judges the receiver that a set brings itself by the settings of its application, as w has them now; see
// clock.ServiceDeps.
func (w *Watch) OwnReceiver(set *clock.Set) (clock.OwnPlace, error) {
	return w.form.ownReceiver(w.Settings(set.Application), set)
}

// ownReceiver judges the receiver that a set brings itself. s may be nil.
func (f *Form) ownReceiver(s *Settings, set *clock.Set) (clock.OwnPlace, error) {
	for _, p := range f.parts {
		if p.target() == set.Target {
			return p.place(s, set)
		}
	}
	return clock.OwnPlace{}, noOwnReceiver(set.Target)
}

func noOwnReceiver(target clock.TargetKind) error {
	return clock.Invalid(clock.CodeReceiverNotAllowed, "receiver",
		fmt.Sprintf("a set cannot bring a receiver of the target %s itself", target))
}
