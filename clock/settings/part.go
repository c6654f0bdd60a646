package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/clockd/clockd/clock"
)

// Part is what a target brings to the settings of an application: an object of the document, such as the endpoint of a
// webhook. Its value is a *T, which does not change.
type Part[T any] struct {
	Name   string           // member of the document
	Type   string           // name of the object in the API, such as Webhook
	Help   string           // a sentence
	Absent string           // what applies without the object, for people; "": nothing
	Target clock.TargetKind // the target whose rings it directs
	Needs  string           // such as "an endpoint": rings to that target need the part; "": they do not

	New    func() *T      // returns the value of an object without members
	Fields []Field[T]     // in the order in which documents have them
	Check  func(*T) error // looks for faults that no field has, after the fields; nil: there are none

	Own *Own[T] // fields that an alarm may bring itself; nil: none

	// Receiver returns who gets the texts of Texts, such as a server. nil: the part has no Texts.
	Receiver func(*T) string
}

// AnyPart is a Part of some type.
type AnyPart interface {
	name() string
	info() FieldInfo
	target() clock.TargetKind
	read(object []byte) (value any, err error)
	restore(value, stored any, anywhere bool) error
	validate(value any) error
	check(s *Settings) error
	place(s *Settings, set *clock.Set) (clock.OwnPlace, error)
	encode(value any, redacted bool) json.RawMessage
}

var _ AnyPart = (*Part[struct{}])(nil)

// Of returns the value in an application's settings, nil if they have none. s may be nil.
func (p *Part[T]) Of(s *Settings) *T { return p.at(s, 0) }

// at returns the value of a destination, by its number; 0 is the application itself.
func (p *Part[T]) at(s *Settings, destination int) *T {
	if destination == 0 {
		return p.base(s, "")
	}
	kind, name := s.DestinationOf(destination)
	if kind != p.Target {
		return nil
	}
	return p.base(s, name)
}

// In returns a function that returns the value of a receiver (clock.ReceiverOf) as w has it now, nil for none. The
// pointer stays the same until the value changes. Any goroutine may call the function.
func (p *Part[T]) In(w *Watch) func(receiver string) *T {
	return func(receiver string) *T {
		application, destination := clock.SplitReceiver(receiver)
		return p.at(w.Settings(application), destination)
	}
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field at fault, or nil.
func (p *Part[T]) Validate(value *T) error {
	if err := fields[T](p.Fields).check(value); err != nil || p.Check == nil {
		return err
	}
	return p.Check(value)
}

// Parse reads an object and validates it. Fields that are left out, or null, have the values of New. A *clock.Error of
// kind clock.ErrInvalid names the field at fault.
func (p *Part[T]) Parse(object []byte) (*T, error) {
	value := p.New()
	err := fields[T](p.Fields).parse(value, object)
	if err == nil {
		err = p.Validate(value)
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

// read reads an object without validating it.
func (p *Part[T]) read(object []byte) (any, error) {
	value := p.New()
	return value, clock.Within(p.Name, fields[T](p.Fields).parse(value, object))
}

// restore puts values of the stored object where value has what people see of them. stored may be nil.
func (p *Part[T]) restore(value, stored any, anywhere bool) error {
	given, _ := value.(*T)
	was, is := stored.(*T)
	if !is {
		was = p.New()
	}
	moved := is && !anywhere && p.Receiver != nil && p.Receiver(given) != p.Receiver(was)
	for i := range p.Fields {
		f := &p.Fields[i]
		from := was
		if moved && f.Kind == KindTexts {
			from = p.New()
		}
		if f.restore == nil {
			continue
		}
		if err := f.restore(given, from); err != nil {
			return clock.Within(p.Name, err)
		}
	}
	return nil
}

// encode returns the object as a document has it. If redacted, it has no secrets, and cannot be read back.
func (p *Part[T]) encode(value any, redacted bool) json.RawMessage {
	v, _ := value.(*T)
	return fields[T](p.Fields).encode(v, redacted)
}

func (p *Part[T]) info() FieldInfo {
	info := FieldInfo{Name: p.Name, Kind: KindObject, Type: p.Type, Help: p.Help, Absent: p.Absent}
	if p.Needs != "" {
		info.Absent = "none"
	}
	byDefault := p.New()
	for i := range p.Fields {
		f := p.Fields[i].FieldInfo
		f.Default = p.Fields[i].encode(byDefault, false)
		info.Fields = append(info.Fields, f)
	}
	return info
}

func (p *Part[T]) name() string { return p.Name }

func (p *Part[T]) target() clock.TargetKind { return p.Target }

// validate returns the fault of a value, as Validate does, with the name of the part.
func (p *Part[T]) validate(value any) error {
	v, _ := value.(*T)
	return clock.Within(p.Name, p.Validate(v))
}

// check validates the value in an application's settings. Without one it returns an error if rings of the application
// may go to the part's target, and the target needs the part.
func (p *Part[T]) check(s *Settings) error {
	if value := p.Of(s); value != nil {
		return p.validate(value)
	}
	if p.Needs == "" || !s.Allows(p.Target) {
		return nil
	}
	return clock.Invalid(clock.CodeRequired, p.Name, fmt.Sprintf("the target %s needs %s", p.Target, p.Needs))
}

// fields are the members of an object whose value is a *T, in the order in which documents have them.
type fields[T any] []Field[T]

// parse reads an object. Members that are null are as if they were left out.
func (f fields[T]) parse(value *T, object []byte) error {
	names := make([]string, len(f))
	for i := range f {
		names[i] = f[i].Name
	}
	return eachMember("", object, names,
		func(name string, raw []byte) error { return f[slices.Index(names, name)].parse(value, raw) })
}

// check returns the first fault that parse does not find.
func (f fields[T]) check(value *T) error {
	for i := range f {
		if f[i].check == nil {
			continue
		}
		if err := f[i].check(value); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the object; see Field.encode.
func (f fields[T]) encode(value *T, redacted bool) json.RawMessage {
	o := newObject()
	for i := range f {
		if member := f[i].encode(value, redacted); member != nil {
			o.add(f[i].Name, member)
		}
	}
	return o.end()
}

// object writes a JSON object whose members have an order.
type object struct{ bytes.Buffer }

func newObject() *object {
	o := &object{}
	o.WriteByte('{')
	return o
}

// add writes a member. value can be encoded: a string, a number, a list, or an object.
func (o *object) add(name string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic("settings: encode " + name + ": " + err.Error())
	}
	if o.Len() > 1 {
		o.WriteByte(',')
	}
	o.WriteString(strconv.Quote(name))
	o.WriteByte(':')
	o.Write(encoded)
}

// end returns the object.
func (o *object) end() json.RawMessage {
	o.WriteByte('}')
	return o.Bytes()
}
