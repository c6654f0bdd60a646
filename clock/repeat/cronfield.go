package repeat

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// values is what a field of a cron expression selects. Bit n of the set stands for the value n. Forms are of the days
// only.
type values struct {
	set   uint64
	forms []dayForm
}

// has reports whether the set has a value.
func (v *values) has(value int) bool { return v.set>>value&1 != 0 }

// from returns the first value of the set that is not below a value.
func (v *values) from(value int) (int, bool) {
	rest := v.set >> value
	return value + bits.TrailingZeros64(rest), rest != 0
}

// cronField is the definition of a field of a cron expression.
type cronField struct {
	name     string
	min, max int
	names    []string // names of the values from min on, in upper case; nil: the field has no names
	form     func(f cronField, t term, base string) (form dayForm, is bool, err *Error)
}

var (
	monthNames   = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

	// cronFields lists the fields in the order of an expression with six fields.
	cronFields = []cronField{
		{name: "second", max: 59},
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of month", min: 1, max: 31, form: cronField.monthDay},
		{name: "month", min: 1, max: 12, names: monthNames},
		{name: "day of week", max: 7, names: weekdayNames, form: cronField.nthWeekday}, // Sunday is 0 and 7
	}
)

// term is one element of a field's list, and its byte offset in the expression.
type term struct {
	text   string
	offset int
}

// fault returns the reason why a term is refused, with the byte offset of its part.
func (t term) fault(part int, format string, args ...any) *Error {
	e := refuse("cron", format, args...)
	e.Position = t.offset + part + 1
	return e
}

// parse reads the terms of a field.
func (f cronField) parse(field term) (v values, err *Error) {
	offset := field.offset
	for text := range strings.SplitSeq(field.text, ",") {
		if err := f.parseTerm(term{text, offset}, &v); err != nil {
			return values{}, err
		}
		offset += len(text) + 1
	}
	return v, nil
}

// parseTerm adds what a term selects.
func (f cronField) parseTerm(t term, v *values) *Error {
	base, step, stepped := strings.Cut(t.text, "/")
	if f.form != nil {
		form, is, err := f.form(f, t, base)
		switch {
		case err != nil:
			return err
		case is && stepped:
			return t.fault(len(base), "%s %s takes no step", f.name, base)
		case is:
			v.forms = append(v.forms, form)
			return nil
		}
	}
	low, size, err := f.parseRange(t, base, stepped)
	if err != nil {
		return err
	}
	every := 1
	if stepped {
		if every, err = f.parseStep(t, len(base)+1, step, size); err != nil {
			return err
		}
	}
	for i := 0; i < size; i += every {
		v.set |= 1 << (f.min + (low+i-f.min)%f.different()) // a range may wrap
	}
	return nil
}

// different returns the number of different values. Sunday has two numbers.
func (f cronField) different() int {
	if f.max == 7 {
		return 7
	}
	return f.max - f.min + 1
}

// parseStep reads the step of a range of that many values. It begins at a byte offset in the term.
func (f cronField) parseStep(t term, part int, text string, size int) (int, *Error) {
	n, isNumber := number(text)
	switch {
	case !isNumber:
		return 0, t.fault(part, "the step %q of %s is not a whole number", text, f.name)
	case n == 0:
		return 0, t.fault(part, "the step of %s is 0, but must be at least 1", f.name)
	case n > 1 && n >= size:
		return 0, t.fault(part, "the step %d of %s must be below %d, the number of values", n, f.name, size)
	}
	return n, nil
}

// parseRange reads *, ?, a value or a range, and returns its first value and its number of values. A single value with
// a step means all later values too.
func (f cronField) parseRange(t term, base string, stepped bool) (low, size int, err *Error) {
	switch {
	case base == "":
		return 0, 0, t.fault(0, "a value of %s is missing", f.name)
	case base == "*", base == "?" && f.form != nil && !stepped:
		return f.min, f.max - f.min + 1, nil
	case base == "?" && f.form == nil:
		return 0, 0, t.fault(0, "? is for day of month and day of week: write * for each %s", f.name)
	}
	lowText, highText, isRange := strings.Cut(base, "-")
	if low, err = f.parseValue(t, 0, lowText); err != nil {
		return 0, 0, err
	}
	high := low
	if stepped {
		high = f.max
	}
	if isRange {
		if high, err = f.parseValue(t, len(lowText)+1, highText); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case low <= high:
		return low, high - low + 1, nil
	case f.max == 7 && stepped:
		return 0, 0, t.fault(0, "%s %s wraps and has a step: write the days as a list", f.name, base)
	}
	return low, f.different() - low + high + 1, nil
}

// parseValue reads a number or a name that begins at a byte offset in the term.
func (f cronField) parseValue(t term, part int, text string) (int, *Error) {
	n, isNumber := number(text)
	switch i := slices.Index(f.names, text); {
	case i >= 0:
		return f.min + i, nil
	case text == "":
		return 0, t.fault(part, "a value of %s is missing", f.name)
	case text == "H", strings.HasPrefix(text, "H("):
		return 0, t.fault(part, "H is Jenkins's: write a number, and use jitter to spread alarms")
	case !isNumber && f.names != nil:
		return 0, t.fault(part, "%s %q is not a number from %d to %d and no name such as %s", f.name, text, f.min,
			f.max, f.names[1])
	case !isNumber:
		return 0, t.fault(part, "%s %q is not a number from %d to %d", f.name, text, f.min, f.max)
	case n > f.max:
		return 0, t.fault(part, "%s %s is over %d", f.name, text, f.max)
	case n < f.min:
		return 0, t.fault(part, "%s %s is below %d", f.name, text, f.min)
	}
	return n, nil
}

// number parses up to four decimal digits.
func number(text string) (int, bool) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// fieldNames lists the names of the fields for a message.
func fieldNames(fields []cronField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return fmt.Sprintf("%d (%s)", len(fields), strings.Join(names, ", "))
}
