package settings

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/clockd/clockd/clock"
)

// Form is the shape of documents: the members that all of them may have, and the parts of the targets that a program
// knows. It does not change.
type Form struct {
	members []member // in the order in which documents have them
	parts   []AnyPart
}

// member is a member of a document.
type member struct {
	Field[Settings]

	// effective returns what applies, for people; nil: nothing. byDefault is the target without one in the settings.
	effective func(s *Settings, byDefault clock.TargetKind) any
}

// NewForm returns the form with these parts. Their names differ.
func NewForm(parts ...AnyPart) *Form {
	f := &Form{members: []member{targetMember(), allowedMember()}, parts: parts}
	for _, p := range parts {
		f.members = append(f.members, partMember(p))
	}
	f.members = append(f.members, retryMember(), ackTimeoutMember(), maxRingsMember(), pausedMember())
	return f
}

// Fields describes the members of documents, in their order.
func (f *Form) Fields() []FieldInfo {
	fields := make([]FieldInfo, len(f.members))
	for i := range f.members {
		fields[i] = f.members[i].FieldInfo
	}
	return fields
}

// Parse reads a document: a JSON object. A member with null is as if it were left out. A *clock.Error of kind
// clock.ErrInvalid names the field at fault.
func (f *Form) Parse(document string) (Settings, error) {
	var s Settings
	if len(document) > MaxDocument {
		return s, clock.Invalid(clock.CodeOutOfRange, "",
			fmt.Sprintf("the settings have %d bytes; at most %d are kept", len(document), MaxDocument))
	}
	names := make([]string, len(f.members))
	for i := range f.members {
		names[i] = f.members[i].Name
	}
	err := eachMember("", []byte(document), names,
		func(name string, raw []byte) error { return f.members[slices.Index(names, name)].parse(&s, raw) })
	if err == nil {
		err = f.validate(&s)
	}
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

// validate looks for the faults that parse does not find.
func (f *Form) validate(s *Settings) error {
	for i := range f.members {
		if check := f.members[i].check; check != nil {
			if err := check(s); err != nil {
				return err
			}
		}
	}
	return s.Defaults.Validate()
}

// Encode returns the settings as a document, without the members that decide nothing. Parse returns the same settings
// for it. The document has the secrets: people get the document of Redacted.
func (f *Form) Encode(s *Settings) string { return f.document(s, false) }

// Redacted returns the document for people: without signing secrets, values of headers and other texts that may hold a
// password. Parse may refuse it.
func (f *Form) Redacted(s *Settings) string { return f.document(s, true) }

func (f *Form) document(s *Settings, redacted bool) string {
	o := newObject()
	for i := range f.members {
		if value := f.members[i].encode(s, redacted); value != nil {
			o.add(f.members[i].Name, value)
		}
	}
	return string(o.end())
}

// Effective returns, for people, a document with all members and what applies for each; null: nothing. byDefault is the
// target of an application whose settings name none.
func (f *Form) Effective(s *Settings, byDefault clock.TargetKind) string {
	o := newObject()
	for i := range f.members {
		o.add(f.members[i].Name, f.members[i].effective(s, byDefault))
	}
	return string(o.end())
}

// keep gives s the values of the settings before it that are equal, so that their pointers stay the same.
func (f *Form) keep(s, before *Settings) {
	for _, p := range f.parts {
		was, is := before.parts[p.name()], s.parts[p.name()]
		if was != nil && is != nil && bytes.Equal(p.encode(was, false), p.encode(is, false)) {
			s.parts[p.name()] = was
		}
	}
}

// partMember returns the member with a part.
func partMember(p AnyPart) member {
	encode := func(s *Settings, redacted bool) any {
		if value := s.parts[p.name()]; value != nil {
			return p.encode(value, redacted)
		}
		return nil
	}
	return member{
		Field: Field[Settings]{
			FieldInfo: p.info(),
			parse: func(s *Settings, raw []byte) error {
				value, err := p.parse(raw)
				if s.parts == nil {
					s.parts = map[string]any{}
				}
				s.parts[p.name()] = value
				return err
			},
			check:  p.demands,
			encode: encode,
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return encode(s, true) },
	}
}
