package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
)

// destinationsName is the member of a document with the destinations. Each is an object with the objects of parts, as
// the document has them for the application itself.
const destinationsName = "destinations"

// destinationsMember returns the member with the destinations, whose objects have these parts.
func destinationsMember(parts []AnyPart) member {
	var infos []FieldInfo
	var names []string
	for _, p := range parts {
		infos, names = append(infos, p.info()), append(names, p.name())
	}
	encode := func(s *Settings, redacted bool) any {
		if len(s.destinations) == 0 {
			return nil
		}
		all := newObject()
		for _, name := range slices.Sorted(maps.Keys(s.destinations)) {
			all.add(name, s.destinations[name].encode(parts, redacted))
		}
		return all.end()
	}
	return member{
		Field: Field[Settings]{
			FieldInfo: FieldInfo{
				Name: destinationsName, Kind: KindObjects, Type: "Destination", Flag: "destination", Fields: infos,
				Help:   "Receivers that alarms may name, as webhook/NAME.",
				Absent: "none",
			},
			parse: func(s *Settings, raw []byte) error {
				s.destinations = map[string]partValues{}
				return eachMember(destinationsName+".", raw, nil, func(name string, raw []byte) error {
					values := partValues{}
					s.destinations[name] = values
					if err := clock.ValidateDestination(name); err != nil {
						return clock.Invalid(clock.CodeInvalidValue, destinationsName+"."+cleanName(name), err.Error())
					}
					return clock.Within(destinationsName+"."+name, values.parse(parts, names, raw))
				})
			},
			check: func(s *Settings) error {
				s.named = nil
				for _, name := range slices.Sorted(maps.Keys(s.destinations)) {
					targets, err := s.destinations[name].check(parts, names)
					if err != nil {
						return clock.Within(destinationsName+"."+name, err)
					}
					for _, target := range targets {
						s.named = append(s.named, clock.TargetText(target, name))
					}
				}
				return nil
			},
			encode: encode,
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return encode(s, true) },
	}
}

// parse reads the parts of a destination.
func (v partValues) parse(parts []AnyPart, names []string, object []byte) error {
	return eachMember("", object, names, func(name string, raw []byte) (err error) {
		v[name], err = parts[slices.Index(names, name)].read(raw)
		return err
	})
}

// check returns the targets of a destination, or its first fault.
func (v partValues) check(parts []AnyPart, names []string) (targets []clock.TargetKind, err error) {
	for _, p := range parts {
		if value := v[p.name()]; value != nil {
			if err := p.validate(value); err != nil {
				return nil, err
			}
			targets = append(targets, p.target())
		}
	}
	if len(targets) == 0 {
		return nil, clock.Invalid(clock.CodeRequired, "",
			"a destination needs at least one of "+strings.Join(names, ", "))
	}
	return targets, nil
}

// encode returns the object of a destination, as Part.encode does.
func (v partValues) encode(parts []AnyPart, redacted bool) json.RawMessage {
	o := newObject()
	for _, p := range parts {
		if value := v[p.name()]; value != nil {
			o.add(p.name(), p.encode(value, redacted))
		}
	}
	return o.end()
}

// numberedName is the member of stored documents with the targets that have numbers. People neither give nor see it.
const numberedName = "numbered_targets"

// maxNumbered is the most bytes of these targets together. So they leave most of a document to people, for good.
const maxNumbered = 4 << 10

// numberedField returns the field of that member. A sealed document has it outside of its secrets, so the numbers stay
// when the key is lost.
func numberedField() Field[Settings] {
	return Field[Settings]{
		FieldInfo: FieldInfo{Name: numberedName, Kind: KindChoices},
		parse: func(s *Settings, raw []byte) error {
			if raw[0] != '[' || json.Unmarshal(raw, &s.numbered) != nil {
				return Wrong("must be a list of strings").of(numberedName)
			}
			return nil
		},
		check: func(s *Settings) error {
			if !isNumbered(s.numbered) {
				return Wrong("must be different targets with destinations").of(numberedName)
			}
			s.fillDestinations()
			return nil
		},
		encode: func(s *Settings, _ bool) any {
			if len(s.numbered) == 0 {
				return nil
			}
			return s.numbered
		},
	}
}

// isNumbered reports whether the targets can have numbers.
func isNumbered(targets []string) bool {
	for i, target := range targets {
		if _, name, err := clock.ParseTarget(target); err != nil || name == "" || slices.Contains(targets[:i], target) {
			return false
		}
	}
	return len(targets) <= clock.MaxDestinations
}

// numberedIn returns the targets with numbers of a document that cannot be read otherwise.
func numberedIn(document string) []string {
	var members struct {
		Numbered []string `json:"numbered_targets"`
	}
	if json.Unmarshal([]byte(document), &members) != nil || !isNumbered(members.Numbered) {
		return nil
	}
	return members.Numbered
}

// number gives the destinations numbers: those before it, and further ones for new destinations.
func (s *Settings) number(before *Settings) error {
	s.numbered = slices.Clone(before.numbered)
	for _, target := range s.named {
		if !slices.Contains(s.numbered, target) {
			s.numbered = append(s.numbered, target)
		}
	}
	names := strings.Join(s.numbered, "")
	isLonger := len(s.numbered) > len(before.numbered)
	if isLonger && (len(s.numbered) > clock.MaxDestinations || len(names) > maxNumbered) {
		return clock.Invalid(clock.CodeOutOfRange, destinationsName, fmt.Sprintf(
			"the application would have had %d destinations, with the removed ones, and their names %d bytes: it can have "+
				"%d, with %d bytes. Take a name again that was removed",
			len(s.numbered), len(names), clock.MaxDestinations, maxNumbered))
	}
	s.fillDestinations()
	return nil
}

// fillDestinations sets Defaults.Destinations.
func (s *Settings) fillDestinations() {
	s.Destinations = nil
	for _, target := range s.named {
		if number := s.NumberOf(target); number != 0 {
			if s.Destinations == nil {
				s.Destinations = map[string]int{}
			}
			s.Destinations[target] = number
		}
	}
}

// DestinationOf returns the target and the name of a destination by its number, also of a removed one. It returns
// clock.NoTarget for a number that no destination had. s may be nil.
func (s *Settings) DestinationOf(number int) (clock.TargetKind, string) {
	if s == nil || number < 1 || number > len(s.numbered) {
		return clock.NoTarget, ""
	}
	kind, name, _ := clock.ParseTarget(s.numbered[number-1])
	return kind, name
}

// Demanded returns the targets where rings of the application may go, each once or more: its own, which may be
// clock.NoTarget, the targets of single alarms, and the targets of destinations.
func (s *Settings) Demanded() []clock.TargetKind {
	targets := append([]clock.TargetKind{s.Target}, s.Allowed...)
	s.EachLivingDestination(func(_ int, target clock.TargetKind) { targets = append(targets, target) })
	return targets
}

// NumberOf returns the number of a target with a destination (clock.TargetText), also of a removed one; 0: it has none.
func (s *Settings) NumberOf(target string) int { return slices.Index(s.numbered, target) + 1 }

// EachLivingDestination calls do with the number and the target of each destination that alarms may name, by number.
func (s *Settings) EachLivingDestination(do func(number int, target clock.TargetKind)) {
	for _, number := range slices.Sorted(maps.Values(s.Destinations)) {
		target, _ := s.DestinationOf(number)
		do(number, target)
	}
}

// EachDestination calls do with the number and the target of each destination that the application ever had.
func (s *Settings) EachDestination(do func(number int, target clock.TargetKind)) {
	if s == nil {
		return
	}
	for number := 1; number <= len(s.numbered); number++ {
		target, _ := s.DestinationOf(number)
		do(number, target)
	}
}
