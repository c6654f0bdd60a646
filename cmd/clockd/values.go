package main

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/clockd/clockd/clock"
)

// valueMappers make the parser read durations with days, and say in plain words why it cannot read a value. values gets
// the faults of the command line.
func valueMappers(values *sources) []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), mapper(values, parseDuration)),
		kong.TypeMapper(reflect.TypeFor[slog.Level](), mapper(values, parseLevel)),
		kong.TypeMapper(reflect.TypeFor[map[string]string](), pairsMapper(values)),
		kong.KindMapper(reflect.String, mapper(values, func(s string) (string, error) { return s, nil })),
		kong.KindMapper(reflect.Int,
			mapper(values, func(s string) (int, error) { return parseNumber[int](s, strconv.IntSize) })),
		kong.KindMapper(reflect.Int64,
			mapper(values, func(s string) (int64, error) { return parseNumber[int64](s, 64) })),
	}
}

// mapper returns the parser's mapper for values that parse reads. A value of the command line that parse cannot read
// becomes the default.
func mapper[T any](values *sources, parse func(string) (T, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := popText(ctx)
		if err != nil {
			return err
		}
		v, err := parse(text)
		if err != nil {
			if err := values.tolerate(ctx.Value, err); err != nil {
				return err
			}
			if v, err = parse(ctx.Value.Default); err != nil {
				return nil //nolint:nilerr // no default: the zero value
			}
		}
		target.Set(reflect.ValueOf(v).Convert(target.Type()))
		return nil
	}
}

// popText takes the text of a value from the command line.
func popText(ctx *kong.DecodeContext) (string, error) {
	token, err := ctx.Scan.PopValue(ctx.Value.Name)
	switch {
	case err != nil && token.IsEOL():
		return "", errors.New("its value is missing")
	case err != nil:
		return "", fmt.Errorf("its value is missing before %q; a value that begins with a hyphen is written --flag=-value", token.String())
	}
	return fmt.Sprint(token.Value), nil
}

// errNotUTF8 is the mistake in a value with bytes that are no text.
var errNotUTF8 = errors.New("its value is not valid UTF-8")

// pairsMapper returns the parser's mapper for pairs NAME=VALUE, from one flag or from repeated ones. The parser's own
// mapper replaces invalid UTF-8, and keeps the last value of a name.
func pairsMapper(values *sources) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := popText(ctx)
		if err != nil {
			return err
		}
		if target.IsNil() {
			target.Set(reflect.MakeMap(target.Type()))
		}
		if pairs, is := target.Interface().(map[string]string); is {
			err = addPairs(pairs, text, ctx.Value.Tag.MapSep)
		}
		if err != nil {
			return values.tolerate(ctx.Value, err)
		}
		return nil
	}
}

// addPairs adds the pairs of a text to pairs. The separator -1 means that the text is one pair.
func addPairs(pairs map[string]string, text string, separator rune) error {
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	items := kong.SplitEscaped(text, separator)
	if len(items) == 0 {
		items = []string{""}
	}
	for _, item := range items {
		name, value, is := strings.Cut(item, "=")
		if !is {
			return fmt.Errorf("expected NAME=VALUE, not %q", item)
		}
		if _, twice := pairs[name]; twice {
			return fmt.Errorf("%s is given twice", name)
		}
		pairs[name] = value
	}
	return nil
}

// parseDuration reads a duration of time.ParseDuration, or days: 7d. It takes negative durations, which the
// configuration refuses together with its other faults.
func parseDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	return clock.ParseDuration(s)
}

// parseLevel reads a log level of package slog: debug, or info+2.
func parseLevel(s string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(s)) != nil {
		return level, fmt.Errorf("%q is not a level: write debug, info, warn or error", s)
	}
	return level, nil
}

func parseNumber[T int | int64](s string, bits int) (T, error) {
	n, err := strconv.ParseInt(s, 0, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large", s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return T(n), nil
}

// checkValue returns the mistake in the text of a flag's value, nil without one.
func checkValue(flag *kong.Flag, text string) error {
	return checkValueInto(flag, text, reflect.New(flag.Target.Type()).Elem())
}

// checkValueInto is checkValue, and puts the value into target.
func checkValueInto(flag *kong.Flag, text string, target reflect.Value) error {
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text})
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, target); err != nil {
		return err
	}
	if flag.Enum != "" {
		return checkEnum(flag, target)
	}
	return nil
}

// checkEnum returns an error if the value is none of the flag's choices.
func checkEnum(flag *kong.Flag, value reflect.Value) error {
	choices := flag.EnumSlice()
	if slices.Contains(choices, fmt.Sprint(value)) {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool { return choice == "" }) // the flag may be left out
	return fmt.Errorf("%q is none of %s", fmt.Sprint(value), strings.Join(named, ", "))
}
