package settings

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
)

// Form is the shape of documents: the members that all of them may have, the parts of the targets that a program knows,
// and the keys for the database. It does not change.
type Form struct {
	fields    fields[Settings]                                    // that people give and see
	stored    fields[Settings]                                    // of stored documents
	effective []func(s *Settings, byDefault clock.TargetKind) any // of fields; see member
	parts     []AnyPart
	keys      Keys
}

// member is a member of a document.
type member struct {
	Field[Settings]

	// effective returns what applies, for people; nil: nothing. byDefault is the target without one in the settings.
	effective func(s *Settings, byDefault clock.TargetKind) any
}

// NewForm returns the form with these parts. Their names differ.
func NewForm(parts ...AnyPart) *Form {
	members := []member{targetMember(), allowedMember()}
	for _, p := range parts {
		members = append(members, partMember(p))
	}
	members = append(members, destinationsMember(parts), retryMember(), ackTimeoutMember(), maxRingsMember(),
		quotasMember(), hidePayloadMember(), pausedMember())
	f := &Form{parts: parts}
	for _, m := range members {
		f.fields, f.effective = append(f.fields, m.Field), append(f.effective, m.effective)
	}
	f.stored = append(slices.Clone(f.fields), numberedField())
	return f
}

// Keys returns the keys of the form.
func (f *Form) Keys() Keys { return f.keys }

// Fields describes the members of documents, in their order.
func (f *Form) Fields() []FieldInfo {
	infos := make([]FieldInfo, len(f.fields))
	for i := range f.fields {
		infos[i] = f.fields[i].FieldInfo
	}
	return infos
}

// Parse reads a document: a JSON object. A member with null is as if it were left out. A *clock.Error of kind
// clock.ErrInvalid names the field at fault.
func (f *Form) Parse(document string) (Settings, error) {
	if err := checkSize(document, MaxDocument); err != nil {
		return Settings{}, err
	}
	return f.parse(f.stored, document, func(*Settings) error { return nil })
}

// Revise returns the document to store for a given one. A value as people see it stands for the value that is stored
// before. Texts such as headers do so only for the receiver that they are stored for, unless anywhere is set: else a
// person who may not read them could have them sent elsewhere. An error is as of Parse.
func (f *Form) Revise(before *Settings, document string, anywhere bool) (string, error) {
	if err := checkSize(document, MaxGiven); err != nil {
		return "", err
	}
	s, err := f.parse(f.fields, document, func(s *Settings) error { return f.restore(s, before, anywhere) })
	if err == nil {
		err = s.number(before)
	}
	if err != nil {
		return "", err
	}
	after := f.Encode(&s)
	return after, checkSize(after, MaxDocument)
}

// restore puts stored values where s has what people see.
func (f *Form) restore(s, before *Settings, anywhere bool) error {
	if err := s.parts.restore(f.parts, before.parts, anywhere); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.destinations)) {
		err := s.destinations[name].restore(f.parts, before.destinations[name], anywhere)
		if err != nil {
			return clock.Within(destinationsName+"."+name, err)
		}
	}
	return nil
}

// restore puts stored values where the values are what people see.
func (v partValues) restore(parts []AnyPart, stored partValues, anywhere bool) error {
	for _, p := range parts {
		value := v[p.name()]
		if value == nil {
			continue
		}
		if err := p.restore(value, stored[p.name()], anywhere); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a document with these fields, and validates it after restore.
func (f *Form) parse(
	fields fields[Settings], document string, restore func(*Settings) error,
) (s Settings, err error) {
	err = fields.parse(&s, []byte(document))
	if err == nil {
		err = restore(&s)
	}
	if err == nil {
		err = fields.check(&s)
	}
	if err == nil {
		err = s.Defaults.Validate()
	}
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

func checkSize(document string, most int) error {
	if len(document) <= most {
		return nil
	}
	return clock.Invalid(clock.CodeOutOfRange, "",
		fmt.Sprintf("the settings have %d bytes; at most %d are taken", len(document), most))
}

// Encode returns the settings as a document, without the members that decide nothing. Parse returns the same settings
// for it. The document has the secrets: people get the document of Redacted.
func (f *Form) Encode(s *Settings) string { return string(f.stored.encode(s, false)) }

// Redacted returns the document for people: without signing secrets, values of headers and other texts that may hold a
// password. Parse may refuse it; Revise takes it back.
func (f *Form) Redacted(s *Settings) string { return string(f.fields.encode(s, true)) }

// Effective returns, for people, a document with all members and what applies for each; null: nothing. byDefault is the
// target of an application whose settings name none.
func (f *Form) Effective(s *Settings, byDefault clock.TargetKind) string {
	o := newObject()
	for i, effective := range f.effective {
		o.add(f.fields[i].Name, effective(s, byDefault))
	}
	return string(o.end())
}

// keep gives s the values of the settings before it that are equal, so that their pointers stay the same.
func (f *Form) keep(s, before *Settings) {
	s.parts.keep(f.parts, before.parts)
	for name, values := range s.destinations {
		values.keep(f.parts, before.destinations[name])
	}
}

// keep replaces values by the equal ones before them.
func (v partValues) keep(parts []AnyPart, before partValues) {
	for _, p := range parts {
		was, is := before[p.name()], v[p.name()]
		if was != nil && is != nil && bytes.Equal(p.encode(was, false), p.encode(is, false)) {
			v[p.name()] = was
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
				value, err := p.read(raw)
				if s.parts == nil {
					s.parts = partValues{}
				}
				s.parts[p.name()] = value
				return err
			},
			check:  p.check,
			encode: encode,
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return encode(s, true) },
	}
}
