package repeat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is the definition of a field of a cron expression.
type cronField struct {
	name     string
	min, max int
	names    []string // names of the values from min on, in upper case; nil: the field has no names
}

var (
	monthNames   = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

	// cronFields lists the fields in the order of an expression with six fields.
	cronFields = []cronField{
		{"second", 0, 59, nil},
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of month", 1, 31, nil},
		{"month", 1, 12, monthNames},
		{"day of week", 0, 7, weekdayNames},
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

// check explains what is wrong with a term of the field. It returns nil for a valid term.
func (f cronField) check(t term) *Error {
	base, step, stepped := strings.Cut(t.text, "/")
	if special, err := f.checkSpecial(t, base); special {
		if err == nil && stepped {
			return t.fault(len(base), "%s %s takes no step", f.name, base)
		}
		return err
	}
	size, err := f.checkRange(t, base, stepped)
	if err != nil || !stepped {
		return err
	}
	n, isNumber := number(step)
	switch {
	case !isNumber:
		return t.fault(len(base)+1, "the step %q of %s is not a whole number", step, f.name)
	case n == 0:
		return t.fault(len(base)+1, "the step of %s is 0, but must be at least 1", f.name)
	case n > 1 && n >= size:
		return t.fault(len(base)+1, "the step %d of %s must be below %d, the number of values", n, f.name, size)
	}
	return nil
}

// checkRange checks *, ?, a value or a range, and returns its number of values. A single value with a step means all
// later values too.
func (f cronField) checkRange(t term, base string, stepped bool) (size int, err *Error) {
	if base == "" {
		return 0, t.fault(0, "a value of %s is missing", f.name)
	}
	if base == "*" || base == "?" && !stepped {
		return f.max - f.min + 1, nil
	}
	lowText, highText, isRange := strings.Cut(base, "-")
	low, err := f.checkValue(t, 0, lowText)
	if err != nil {
		return 0, err
	}
	high := low
	if stepped {
		high = f.max
	}
	if isRange {
		if high, err = f.checkValue(t, len(lowText)+1, highText); err != nil {
			return 0, err
		}
	}
	if low <= high {
		return high - low + 1, nil
	}
	if stepped && f.max == 7 {
		return 0, t.fault(0, "%s %s wraps and has a step: write the days as a list", f.name, base)
	}
	return f.max - low + 1 + high - f.min + 1, nil
}

// checkValue checks a number or a name that begins at a byte offset in the term.
func (f cronField) checkValue(t term, part int, text string) (int, *Error) {
	n, isNumber := number(text)
	switch i := slices.Index(f.names, text); {
	case i >= 0:
		return f.min + i, nil
	case text == "":
		return 0, t.fault(part, "a value of %s is missing", f.name)
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

// checkSpecial checks the forms with L, W and #. It reports whether the term has such a form.
func (f cronField) checkSpecial(t term, base string) (special bool, err *Error) {
	day, nth, isNth := strings.Cut(base, "#")
	switch f.name {
	case "day of week":
		if !isNth {
			return false, nil
		}
		if _, err := f.checkValue(t, 0, day); err != nil {
			return true, err
		}
		if n, isNumber := number(nth); nth != "L" && (!isNumber || n < 1 || n > 5) {
			return true, t.fault(len(day)+1, "%q after # is not a number from 1 to 5 or L", nth)
		}
		return true, nil
	case "day of month":
		return f.checkDayForm(t, base)
	}
	return false, nil
}

// checkDayForm checks L, LW, L-n and nW.
func (f cronField) checkDayForm(t term, base string) (special bool, err *Error) {
	if base == "L" || base == "LW" {
		return true, nil
	}
	if before, ok := strings.CutPrefix(base, "L-"); ok {
		if n, isNumber := number(before); !isNumber || n < 1 || n > 30 {
			return true, t.fault(2, "%q after L- is not a number from 1 to 30", before)
		}
		return true, nil
	}
	if day, ok := strings.CutSuffix(base, "W"); ok {
		_, err := f.checkValue(t, 0, day)
		return true, err
	}
	return false, nil
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
