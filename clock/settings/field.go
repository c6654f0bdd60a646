package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// Kind is the type of a field's JSON.
type Kind uint8

// The kinds of fields.
const (
	KindText     Kind = iota + 1 // a string
	KindChoice                   // an element of FieldInfo.Choices
	KindDuration                 // a string like "30s"; whole milliseconds are read too
	KindInteger                  // a whole number
	KindNumber                   // a number
	KindFlag                     // true or false
	KindChoices                  // a list of FieldInfo.Choices
	KindTexts                    // an object of strings
	KindSecrets                  // a list of strings that people must not see
	KindPatterns                 // an object of lists of strings, with the members FieldInfo.Choices
	KindObject                   // an object with FieldInfo.Fields
	KindObjects                  // an object of such objects
)

// FieldInfo describes a field, for flags, schemas and people.
type FieldInfo struct {
	Name     string
	Kind     Kind
	Help     string // a sentence
	Example  string // a value; "": the default is example enough
	Flag     string // flag of `clockd application set`, without the name of its object; "": it has none of its own
	Required bool
	Default  any           // JSON that an object without the field has; nil: nothing
	Absent   string        // what applies without a field that has no default, for people; "": nothing
	Choices  []string      // of KindChoice, KindChoices and KindPatterns
	Min, Max int           // bounds of an integer; Max alone: the most bytes of a text
	New      func() string // makes a value of KindSecrets
	Type     string        // name of a KindObject, or of the objects in KindObjects, in the API, such as Webhook
	Fields   []FieldInfo   // of KindObject, or of the objects in KindObjects
}

// Field is a member of an object whose value is a *T.
type Field[T any] struct {
	FieldInfo

	parse   func(value *T, raw []byte) error
	check   func(value *T) error              // nil: parse has found every fault
	encode  func(value *T, redacted bool) any // nil: the object has no such member
	restore func(value, stored *T) error      // puts stored values where value has what people see; nil: they see all
	text    func(value *T) *string            // of Text
}

// hidden is what people see in the place of a value that may be secret.
const hidden = "..."

// Fault is an error in a value: a code of package clock, and the rest of a sentence that begins with the name of the
// field.
type Fault struct{ Code, Detail string }

// Wrong returns the fault of a value that is not valid.
func Wrong(detail string) *Fault { return &Fault{clock.CodeInvalidValue, detail} }

// TooMuch returns the fault of a value beyond its bounds.
func TooMuch(format string, args ...any) *Fault {
	return &Fault{clock.CodeOutOfRange, fmt.Sprintf(format, args...)}
}

// errHidden is the fault of a value with dots that stand for no stored value.
var errHidden = Wrong("has ..., which stands for a stored value. None that looks so is stored, or it is for another " +
	"server: give the whole value")

// of returns the fault as the error of a field, nil for none.
func (f *Fault) of(field string) error {
	if f == nil {
		return nil
	}
	return clock.Invalid(f.Code, field, field+" "+f.Detail)
}

// Text returns a field with a string of at most info.Max bytes. check looks for faults in a string that is not empty;
// nil: it has none.
func Text[T any](info FieldInfo, at func(*T) *string, check func(string) *Fault) Field[T] {
	info.Kind = KindText
	return Field[T]{
		FieldInfo: info, text: at,
		parse: func(v *T, raw []byte) error { return parseText(raw, info.Name, at(v)) },
		check: func(v *T) error {
			switch text := *at(v); {
			case text == "" && info.Required:
				return clock.Invalid(clock.CodeRequired, info.Name, info.Name+" is required, such as "+info.Example)
			case len(text) > info.Max:
				return TooMuch("has more than %d bytes", info.Max).of(info.Name)
			case text == "" || check == nil:
				return nil
			default:
				return check(text).of(info.Name)
			}
		},
		encode: func(v *T, _ bool) any {
			if *at(v) == "" {
				return nil
			}
			return *at(v)
		},
	}
}

// Redacted returns the field of Text with a string that people see as shown returns it. hides: a part is not in it.
func (f Field[T]) Redacted(shown func(string) (text string, hides bool)) Field[T] {
	encode, at := f.encode, f.text
	f.Max = 0 // what people see may be longer
	f.restore = func(v, stored *T) error {
		given, was := *at(v), *at(stored)
		if given == "" {
			return nil
		}
		seen, hides := shown(given)
		switch rest := strings.TrimPrefix(given, strings.TrimSuffix(seen, hidden)); {
		case !hides || !strings.Contains(rest, hidden):
			return nil
		case was != "" && given == seen:
			if seen, _ := shown(was); seen == given {
				*at(v) = was
				return nil
			}
		}
		return errHidden.of(f.Name)
	}
	f.encode = func(v *T, redacted bool) any {
		text, given := encode(v, redacted).(string)
		switch {
		case !given:
			return nil
		case !redacted:
			return text
		default:
			seen, _ := shown(text)
			return seen
		}
	}
	return f
}

// Choice returns a field with a string from a list.
func Choice[T any, S ~string](info FieldInfo, at func(*T) *S, choices ...S) Field[T] {
	info.Kind = KindChoice
	for _, c := range choices {
		info.Choices = append(info.Choices, string(c))
	}
	last := len(choices) - 1
	wrong := Wrong("must be " + strings.Join(info.Choices[:last], ", ") + " or " + info.Choices[last])
	return Field[T]{
		FieldInfo: info,
		parse: func(v *T, raw []byte) error {
			var text string
			err := parseText(raw, info.Name, &text)
			*at(v) = S(text)
			return err
		},
		check: func(v *T) error {
			if slices.Contains(choices, *at(v)) {
				return nil
			}
			return wrong.of(info.Name)
		},
		encode: func(v *T, _ bool) any { return string(*at(v)) },
	}
}

// Duration returns a field with a time in whole milliseconds.
func Duration[T any](info FieldInfo, at func(*T) *time.Duration, least, most time.Duration) Field[T] {
	info.Kind = KindDuration
	info.Help += fmt.Sprintf(" From %s to %s.", format(least), format(most))
	return Field[T]{
		FieldInfo: info,
		parse:     func(v *T, raw []byte) error { return parseDuration(raw, info.Name, at(v)) },
		check: func(v *T) error {
			if d := *at(v); d < least || d > most || d%time.Millisecond != 0 {
				return TooMuch("must be from %s to %s, in whole milliseconds", format(least), format(most)).of(info.Name)
			}
			return nil
		},
		encode: func(v *T, _ bool) any { return format(*at(v)) },
	}
}

// OptionalDuration is Duration for a value that may be absent: 0.
func OptionalDuration[T any](info FieldInfo, at func(*T) *time.Duration, least, most time.Duration) Field[T] {
	f := Duration(info, at, least, most)
	check, encode := f.check, f.encode
	f.check = func(v *T) error {
		if *at(v) == 0 {
			return nil
		}
		return check(v)
	}
	f.encode = func(v *T, redacted bool) any {
		if *at(v) == 0 {
			return nil
		}
		return encode(v, redacted)
	}
	return f
}

// format returns a duration as documents have it.
func format(d time.Duration) string { return string(clock.AppendDuration(nil, d)) }

// Integer returns a field with a whole number from info.Min to info.Max.
func Integer[T any](info FieldInfo, at func(*T) *int) Field[T] {
	info.Kind = KindInteger
	return Field[T]{
		FieldInfo: info,
		parse:     func(v *T, raw []byte) error { return parseInteger(raw, info.Name, at(v)) },
		check: func(v *T) error {
			if n := *at(v); n < info.Min || n > info.Max {
				return TooMuch("must be from %d to %d", info.Min, info.Max).of(info.Name)
			}
			return nil
		},
		encode: func(v *T, _ bool) any { return *at(v) },
	}
}

// Texts returns a field with an object of strings, such as headers. People see their names alone, because each may hold
// a password. all looks for a fault of all together, and each for a fault of the text with the name.
func Texts[T any](
	info FieldInfo, at func(*T) *map[string]string,
	all func(texts map[string]string) *Fault, each func(texts map[string]string, name string) *Fault,
) Field[T] {
	info.Kind = KindTexts
	info.Help += " People see the names alone."
	return Field[T]{
		FieldInfo: info,
		parse: func(v *T, raw []byte) error {
			texts := map[string]string{}
			*at(v) = texts
			return eachMember(info.Name+".", raw, nil, func(name string, raw []byte) error {
				var text string
				err := parseText(raw, info.Name+"."+cleanName(name), &text)
				texts[name] = text
				return err
			})
		},
		check: func(v *T) error {
			texts := *at(v)
			if err := all(texts).of(info.Name); err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				if err := each(texts, name).of(info.Name + "." + cleanName(name)); err != nil {
					return err
				}
			}
			return nil
		},
		encode: func(v *T, redacted bool) any {
			if len(*at(v)) == 0 {
				return nil
			}
			if !redacted {
				return *at(v)
			}
			shown := map[string]string{}
			for name := range *at(v) {
				shown[name] = hidden
			}
			return shown
		},
		restore: func(v, stored *T) error {
			texts, was := *at(v), *at(stored)
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				if texts[name] != hidden {
					continue
				}
				text, known := was[name]
				if !known {
					return errHidden.of(info.Name + "." + cleanName(name))
				}
				texts[name] = text
			}
			return nil
		},
	}
}

// AtMost returns a check of all texts together: at most n of them, with so many bytes of names and values.
func AtMost(n, bytes int) func(texts map[string]string) *Fault {
	return func(texts map[string]string) *Fault {
		size := 0
		for name, text := range texts {
			size += len(name) + len(text)
		}
		if len(texts) > n || size > bytes {
			return TooMuch("must be at most %d, with %d bytes in all", n, bytes)
		}
		return nil
	}
}

// secret is a text whose String hides it.
type secret interface {
	~string
	fmt.Stringer
}

// Secrets returns a field with a list of at most info.Max different secrets. One is required. People see the String of
// each and a fingerprint. Given back, that stands for the stored secret.
func Secrets[T any, S secret](info FieldInfo, at func(*T) *[]S, check func(S) *Fault) Field[T] {
	info.Kind, info.Required = KindSecrets, true
	info.Help += " People see a fingerprint of each."
	return Field[T]{
		FieldInfo: info,
		parse: func(v *T, raw []byte) error {
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) != nil {
				return Wrong("must be a list of strings").of(info.Name)
			}
			for i, raw := range list {
				var text string
				if err := parseText(raw, element(info.Name, i), &text); err != nil {
					return err
				}
				*at(v) = append(*at(v), S(text))
			}
			return nil
		},
		check: func(v *T) error {
			list := *at(v)
			switch {
			case len(list) == 0:
				return clock.Invalid(clock.CodeRequired, info.Name, info.Name+" needs at least one, such as "+info.Example)
			case len(list) > info.Max:
				return TooMuch("must be at most %d", info.Max).of(info.Name)
			}
			for i, s := range list {
				if err := check(s).of(element(info.Name, i)); err != nil {
					return err
				}
				if slices.Contains(list[:i], s) {
					return (&Fault{clock.CodeAmbiguous, "comes twice"}).of(element(info.Name, i))
				}
			}
			return nil
		},
		encode: func(v *T, redacted bool) any {
			texts := make([]string, len(*at(v)))
			for i, s := range *at(v) {
				if texts[i] = string(s); redacted {
					texts[i] = fingerprinted(s)
				}
			}
			return texts
		},
		restore: func(v, stored *T) error {
			for i, given := range *at(v) {
				if !strings.HasPrefix(string(given), given.String()) {
					continue
				}
				known := slices.IndexFunc(*at(stored), func(s S) bool { return fingerprinted(s) == string(given) })
				if known < 0 {
					return errHidden.of(element(info.Name, i))
				}
				(*at(v))[i] = (*at(stored))[known]
			}
			return nil
		},
	}
}

// fingerprinted returns a secret as people see it: hidden, with 32 bits of its SHA-256. So they can tell secrets apart.
func fingerprinted[S secret](s S) string {
	sum := sha256.Sum256([]byte(s))
	return s.String() + hex.EncodeToString(sum[:4])
}

// element returns the name of an element of a list.
func element(list string, index int) string { return fmt.Sprintf("%s[%d]", list, index) }
