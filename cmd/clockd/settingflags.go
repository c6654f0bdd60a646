package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/clockd/clockd/clock/settings"
)

// settingFlags are the flags that change a document of settings. They are made from the form: one for each field with a
// flag of its own, one for the other fields of each object, and --unset. One flag names an object among several: then
// the flags of its fields change that object, and not the document.
type settingFlags struct {
	kong.Plugins // a struct with a field for each flag

	flags []*settingFlag
	unset *[]string
	made  string // secret that the change made; "": none

	objects settings.FieldInfo // field with named objects
	named   *settingFlag       // flag that names one
}

// settingFlag is a flag that changes the document, or an object in it.
type settingFlag struct {
	name   string
	object string // member of the document with the object; "": the document itself
	change func(object map[string]any, value any) error
	value  reflect.Value // zero: the flag is not given; a pointer is not zero when an empty text is given
}

// makeFor makes the flags for documents of the form.
func (s *settingFlags) makeFor(form *settings.Form) {
	var fields []reflect.StructField
	add := func(name string, zero any, tag string, help string) {
		fields = append(fields, reflect.StructField{
			Name: "Flag" + strconv.Itoa(len(fields)), Type: reflect.TypeOf(zero),
			Tag: reflect.StructTag(fmt.Sprintf("name:%q %s help:%q", name, tag, help)),
		})
	}
	for _, f := range form.Fields() {
		switch f.Kind {
		case settings.KindObject:
		case settings.KindObjects:
			s.addObjects(add, f)
			continue
		default:
			s.addField(add, "", f)
			continue
		}
		if some := withoutFlag(f.Fields); len(some) > 0 {
			add(f.Name, map[string]string{}, fmt.Sprintf(`mapsep:"," placeholder:%q`, exampleOf(some)),
				f.Help+" Parts that are left out stay.")
			s.flags = append(s.flags, &settingFlag{name: f.Name, object: f.Name, change: changeSome(f)})
		}
		for _, field := range f.Fields {
			s.addField(add, f.Name, field)
		}
	}
	names := namesOf(form.Fields())
	add("unset", []string{}, fmt.Sprintf(`placeholder:"NAME" values:%q`, strings.ReplaceAll(names, " ", "")),
		"Settings that get their default again: "+names+".")
	all := reflect.New(reflect.StructOf(fields))
	for i, flag := range s.flags {
		flag.value = all.Elem().Field(i)
	}
	s.unset, _ = all.Elem().Field(len(s.flags)).Addr().Interface().(*[]string)
	s.Plugins = kong.Plugins{all.Interface()}
}

// addObjects adds the flags that name and remove a named object.
func (s *settingFlags) addObjects(add func(name string, zero any, tag, help string), f settings.FieldInfo) {
	s.objects, s.named = f, &settingFlag{name: f.Flag, change: func(map[string]any, any) error { return nil }}
	add(f.Flag, new(string), `placeholder:"NAME"`,
		fmt.Sprintf("The %s that the flags of %s change, instead of the application's own. A new name makes one.",
			f.Flag, namesOf(f.Fields)))
	drop := "drop-" + f.Flag
	add(drop, []string{}, `placeholder:"NAME"`,
		fmt.Sprintf("The %s to remove. Alarms that name it are dead when they are due.", f.Flag))
	s.flags = append(s.flags, s.named, &settingFlag{name: drop, change: func(document map[string]any, given any) error {
		names, _ := given.([]string)
		objects := objectIn(document, f.Name)
		for _, name := range names {
			if _, has := objects[name]; !has {
				return usagef("--%s: the application has no %s %q; it has: %s", drop, f.Flag, name,
					cmp.Or(strings.Join(slices.Sorted(maps.Keys(objects)), ", "), "none"))
			}
			delete(objects, name)
		}
		return nil
	}})
}

// namesOf returns the names of fields, for people.
func namesOf(fields []settings.FieldInfo) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// addField adds the flags of a field that has its own.
func (s *settingFlags) addField(add func(name string, zero any, tag, help string), object string, f settings.FieldInfo) {
	if f.Flag == "" {
		return
	}
	name := strings.TrimPrefix(object+"-"+f.Flag, "-")
	flag := func(name string, change func(object map[string]any, value any) error) {
		s.flags = append(s.flags, &settingFlag{name: name, object: object, change: change})
	}
	replace := func(object map[string]any, value any) error {
		object[f.Name] = value
		return nil
	}
	placeholder := fmt.Sprintf("placeholder:%q", exampleOrKind(f))
	switch f.Kind {
	case settings.KindInteger:
		add(name, new(int), placeholder, f.Help)
		flag(name, replace)
	case settings.KindFlag:
		add(name, false, "", f.Help)
		flag(name, replace)
	case settings.KindChoices:
		add(name, []string{}, fmt.Sprintf(`placeholder:"NAME" values:%q`, strings.Join(f.Choices, ",")), f.Help)
		flag(name, changeChoices(f))
	case settings.KindTexts:
		add(name, map[string]string{}, `mapsep:"none" placeholder:"NAME=VALUE"`,
			f.Help+" The flag may be repeated; an empty value removes the name.")
		flag(name, changeTexts(f))
	case settings.KindPatterns:
		add(name, []string{}, `sep:"none" placeholder:"NAME=VALUE"`, fmt.Sprintf("%s NAME is one of: %s. The flag may be "+
			"repeated, and replaces what the field had; an empty value allows nothing.", f.Help, strings.Join(f.Choices, ", ")))
		flag(name, changePatterns(name, f))
	case settings.KindSecrets:
		add(name, new(string), `placeholder:"new|SECRET"`, f.Help+" This adds one: new makes it and prints it, as the first change without a secret does.")
		flag(name, s.addSecret(f))
		name = object + "-drop-" + f.Name
		add(name, false, "", "Keep only the newest secret, after all receivers know it.")
		flag(name, dropSecrets(f))
	case settings.KindChoice:
		add(name, new(string), fmt.Sprintf(`placeholder:"NAME" values:%q`, strings.Join(f.Choices, ",")),
			f.Help+" One of: "+strings.Join(f.Choices, ", ")+".")
		flag(name, replace)
	default:
		add(name, new(string), placeholder, f.Help)
		flag(name, replace)
	}
}

// withoutFlag returns the fields that have no flag of their own.
func withoutFlag(fields []settings.FieldInfo) (some []settings.FieldInfo) {
	for _, f := range fields {
		if f.Flag == "" {
			some = append(some, f)
		}
	}
	return some
}

// exampleOf returns values of all fields, as the flag of their object takes them.
func exampleOf(fields []settings.FieldInfo) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, f.Name+"="+exampleOrKind(f))
	}
	return strings.Join(parts, ",")
}

// exampleOrKind returns a value of the field for people.
func exampleOrKind(f settings.FieldInfo) string {
	switch value := f.Default.(type) {
	case nil:
		return f.Example
	case json.RawMessage:
		return "none"
	default:
		return fmt.Sprint(value)
	}
}

// changeSome returns the effect of the flag of an object.
func changeSome(object settings.FieldInfo) func(map[string]any, any) error {
	return func(changed map[string]any, given any) error {
		values, _ := given.(map[string]string)
		for name, value := range values {
			i := slices.IndexFunc(object.Fields, func(f settings.FieldInfo) bool { return f.Name == name })
			switch {
			case i < 0: // the form refuses it
				changed[name] = value
			case object.Fields[i].Flag != "":
				return usagef("--%s: %s has a flag of its own: --%[1]s-%[3]s", object.Name, name, object.Fields[i].Flag)
			default:
				changed[name] = valueOf(object.Fields[i].Kind, value)
			}
		}
		return nil
	}
}

// valueOf returns a value of a document from its text. The form refuses it if it does not fit the kind.
func valueOf(kind settings.Kind, text string) any {
	isText := kind == settings.KindText || kind == settings.KindChoice
	isNumber := kind == settings.KindInteger || kind == settings.KindNumber
	switch {
	case !isText && text == "none":
		return nil
	case isNumber && json.Valid([]byte(text)):
		return json.RawMessage(text)
	default:
		return text
	}
}

// changePatterns returns the effect of the flag of patterns: the patterns of each given name are replaced.
func changePatterns(flag string, f settings.FieldInfo) func(map[string]any, any) error {
	return func(object map[string]any, given any) error {
		patterns := objectIn(object, f.Name)
		values, _ := given.([]string)
		replaced := map[string][]string{}
		for _, value := range values {
			name, pattern, is := strings.Cut(value, "=")
			if !is || !slices.Contains(f.Choices, name) {
				return usagef("--%s must be NAME=VALUE, and NAME one of: %s", flag, strings.Join(f.Choices, ", "))
			}
			if pattern != "" {
				replaced[name] = append(replaced[name], pattern)
			} else if replaced[name] == nil {
				replaced[name] = []string{}
			}
		}
		for name, list := range replaced {
			patterns[name] = list
		}
		return nil
	}
}

// changeChoices returns the effect of the flag of a list of choices.
func changeChoices(f settings.FieldInfo) func(map[string]any, any) error {
	return func(object map[string]any, given any) error {
		if choices, _ := given.([]string); len(choices) == 0 {
			return usagef("--%s is empty: name at least one of %s; to name none, use --unset %s", f.Flag,
				strings.Join(f.Choices, ", "), f.Name)
		}
		object[f.Name] = given
		return nil
	}
}

// changeTexts returns the effect of the flag of an object of strings.
func changeTexts(f settings.FieldInfo) func(map[string]any, any) error {
	return func(object map[string]any, given any) error {
		changes, _ := given.(map[string]string)
		texts := objectIn(object, f.Name)
		for name, value := range changes {
			texts[name] = value
			if value == "" {
				delete(texts, name)
			}
		}
		return nil
	}
}

// objectIn returns the object that is a member of the other one. It adds an empty one.
func objectIn(object map[string]any, name string) map[string]any {
	member, is := object[name].(map[string]any)
	if !is {
		member = map[string]any{}
		object[name] = member
	}
	return member
}

// addSecret returns the effect of the flag that adds a secret. The newest secret is the first.
func (s *settingFlags) addSecret(f settings.FieldInfo) func(map[string]any, any) error {
	return func(object map[string]any, given any) error {
		secrets, _ := object[f.Name].([]any)
		if given == "new" {
			s.made = f.New()
			given = s.made
		}
		object[f.Name] = append([]any{given}, secrets...)
		return nil
	}
}

// dropSecrets returns the effect of the flag that keeps the newest secret alone.
func dropSecrets(f settings.FieldInfo) func(map[string]any, any) error {
	return func(object map[string]any, _ any) error {
		secrets, _ := object[f.Name].([]any)
		object[f.Name] = secrets[:min(1, len(secrets))]
		return nil
	}
}

// given reports whether any flag is given.
func (s *settingFlags) given() bool {
	return *s.unset != nil ||
		slices.ContainsFunc(s.flags, func(f *settingFlag) bool { return !f.value.IsZero() })
}

// names returns the names of all flags, for people.
func (s *settingFlags) names() string {
	var names []string
	for _, flag := range s.flags {
		names = append(names, "--"+flag.name)
	}
	return strings.Join(append(names, "--unset"), ", ")
}

// apply changes a document as the flags say. An object that needs a secret and has none gets a new one.
func (s *settingFlags) apply(form *settings.Form, document map[string]any) error {
	fields := form.Fields()
	if *s.unset != nil && len(*s.unset) == 0 {
		return usagef("--unset is empty: name at least one of %s", namesOf(fields))
	}
	for _, name := range *s.unset {
		if !slices.ContainsFunc(fields, func(f settings.FieldInfo) bool { return f.Name == name }) {
			return usagef("--unset: unknown setting %q; known are %s", name, namesOf(fields))
		}
		delete(document, name)
	}
	home, err := s.homeOf(document)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, flag := range s.flags {
		if flag.value.IsZero() {
			continue
		}
		given := reflect.Indirect(flag.value).Interface()
		if text, is := given.(string); is && !utf8.ValidString(text) {
			return usagef("--%s: %w", flag.name, errNotUTF8)
		}
		object := document
		if changed[flag.object] = true; flag.object != "" {
			object = objectIn(home(flag.object), flag.object)
		}
		if err := flag.change(object, given); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if !changed[f.Name] || f.Kind != settings.KindObject {
			continue
		}
		if err := s.completeSecrets(f, objectIn(home(f.Name), f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// homeOf returns a function that returns the object in which the flags change an object of that name: the document, or
// the named object of it.
func (s *settingFlags) homeOf(document map[string]any) (func(object string) map[string]any, error) {
	inDocument := func(string) map[string]any { return document }
	if s.named.value.IsZero() {
		return inDocument, nil
	}
	isPart := func(object string) bool {
		return slices.ContainsFunc(s.objects.Fields, func(f settings.FieldInfo) bool { return f.Name == object })
	}
	name, _ := reflect.Indirect(s.named.value).Interface().(string)
	if !slices.ContainsFunc(s.flags, func(f *settingFlag) bool { return isPart(f.object) && !f.value.IsZero() }) {
		return nil, usagef("--%s %s: give flags of %s with it", s.named.name, name, namesOf(s.objects.Fields))
	}
	return func(object string) map[string]any {
		if !isPart(object) {
			return document
		}
		return objectIn(objectIn(document, s.objects.Name), name)
	}, nil
}

// completeSecrets gives an object a new secret if it needs one and has none.
func (s *settingFlags) completeSecrets(info settings.FieldInfo, object map[string]any) error {
	for _, f := range info.Fields {
		if secrets, _ := object[f.Name].([]any); f.Kind == settings.KindSecrets && len(secrets) == 0 {
			return s.addSecret(f)(object, "new")
		}
	}
	return nil
}
