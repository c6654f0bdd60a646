package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/clockd/clockd/clock"
)

// valueMappers make the parser read durations with days, and say in plain words why it cannot read a value.
func valueMappers() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), mapper(parseDuration)),
		kong.TypeMapper(reflect.TypeFor[slog.Level](), mapper(parseLevel)),
		kong.KindMapper(reflect.String, mapper(func(s string) (string, error) { return s, nil })),
		kong.KindMapper(reflect.Int, mapper(func(s string) (int, error) { return parseNumber[int](s, strconv.IntSize) })),
		kong.KindMapper(reflect.Int64, mapper(func(s string) (int64, error) { return parseNumber[int64](s, 64) })),
	}
}

// mapper returns the parser's mapper for values that parse reads.
func mapper[T any](parse func(string) (T, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue(ctx.Value.Name)
		switch {
		case err != nil && token.IsEOL():
			return errors.New("its value is missing")
		case err != nil:
			return fmt.Errorf("its value is missing before %q; a value that begins with a hyphen is written --flag=-value", token.String())
		}
		v, err := parse(fmt.Sprint(token.Value))
		if err != nil {
			return err
		}
		target.Set(reflect.ValueOf(v).Convert(target.Type()))
		return nil
	}
}

// parseDuration reads a duration of time.ParseDuration, or days: 7d. It takes negative durations, which the configuration refuses together with
// its other faults.
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

// variable returns the environment variable that is set for the flag.
func variable(flag *kong.Flag) (name, value string, set bool) {
	for _, name := range flag.Envs {
		if value, set := os.LookupEnv(name); set {
			return name, value, true
		}
	}
	return "", "", false
}

// checkVariable returns the mistake in the value of an environment variable of the flag, nil without one.
func checkVariable(flag *kong.Flag, value string) error {
	into := reflect.New(flag.Target.Type()).Elem()
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value})
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, into); err != nil {
		return err
	}
	if flag.Enum != "" && !slices.Contains(flag.EnumSlice(), fmt.Sprint(into)) {
		return fmt.Errorf("%q is none of %s", value, strings.Join(flag.EnumSlice(), ", "))
	}
	return nil
}
