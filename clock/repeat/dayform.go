package repeat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dayForm is a day that depends on the month.
type dayForm struct {
	kind    dayFormKind
	n       int // see dayFormKind
	weekday int // of nthWeekday and lastOfWeekday
}

type dayFormKind uint8

const (
	daysBeforeLast dayFormKind = iota // L, L-n: n days before the last day of the month
	nearestWorkday                    // nW: the day from Monday to Friday that is nearest to day n
	lastWorkday                       // LW: the last day from Monday to Friday
	nthOfWeekday                      // FRI#n: the nth Friday of the month
	lastOfWeekday                     // FRI#L: the last Friday of the month
)

// monthDay reads L, L-n, nW and LW.
func (f cronField) monthDay(t term, base string) (form dayForm, is bool, err *Error) {
	switch before, ok := strings.CutPrefix(base, "L-"); {
	case base == "L":
		return dayForm{kind: daysBeforeLast}, true, nil
	case base == "LW":
		return dayForm{kind: lastWorkday}, true, nil
	case ok:
		n, isNumber := number(before)
		if !isNumber || n < 1 || n > 30 {
			return dayForm{}, true, t.fault(2, "%q after L- is not a number from 1 to 30", before)
		}
		return dayForm{kind: daysBeforeLast, n: n}, true, nil
	}
	if day, ok := strings.CutSuffix(base, "W"); ok {
		n, err := f.parseValue(t, 0, day)
		return dayForm{kind: nearestWorkday, n: n}, true, err
	}
	return dayForm{}, false, nil
}

// hintForLast says what to write for 6L, FRIL and L of Quartz, whose days begin with Sunday as 1.
func hintForLast(base string) string {
	day := strings.TrimSuffix(base, "L")
	if n, err := strconv.Atoi(day); err == nil && n >= 1 && n <= len(weekdayNames) {
		day = weekdayNames[n-1]
	}
	if !slices.Contains(weekdayNames, day) {
		return fmt.Sprintf("%q is Quartz's: write SAT for each Saturday, and FRI#L for the last Friday of the month", base)
	}
	return fmt.Sprintf("%q is Quartz's: write %s#L for the last such day of the month", base, day)
}

// nthWeekday reads FRI#3 and FRI#L.
func (f cronField) nthWeekday(t term, base string) (form dayForm, is bool, err *Error) {
	day, nth, ok := strings.Cut(base, "#")
	if !ok {
		if strings.HasSuffix(base, "L") {
			return dayForm{}, true, t.fault(0, "%s", hintForLast(base))
		}
		return dayForm{}, false, nil
	}
	weekday, err := f.parseValue(t, 0, day)
	if err != nil {
		return dayForm{}, true, err
	}
	weekday %= 7
	if nth == "L" {
		return dayForm{kind: lastOfWeekday, weekday: weekday}, true, nil
	}
	n, isNumber := number(nth)
	if !isNumber || n < 1 || n > 5 {
		return dayForm{}, true, t.fault(len(day)+1, "%q after # is not a number from 1 to 5 or L", nth)
	}
	return dayForm{kind: nthOfWeekday, n: n, weekday: weekday}, true, nil
}

// dayOf returns the day as a set, for a month with that weekday on its first day and with that last day. The set is
// empty if the month does not have the day.
func (d dayForm) dayOf(firstWeekday, last int) uint64 {
	day := 0
	switch d.kind {
	case daysBeforeLast:
		day = last - d.n
	case nearestWorkday:
		if d.n <= last {
			day = workday(d.n, firstWeekday, last)
		}
	case lastWorkday:
		day = workday(last, firstWeekday, last)
	case nthOfWeekday:
		if day = 1 + (d.weekday-firstWeekday+7)%7 + 7*(d.n-1); day > last {
			day = 0
		}
	case lastOfWeekday:
		lastWeekday := (firstWeekday + last - 1) % 7
		day = last - (lastWeekday-d.weekday+7)%7
	}
	if day < 1 {
		return 0
	}
	return 1 << day
}

// workday returns the day from Monday to Friday that is nearest to a day, in the same month.
func workday(day, firstWeekday, last int) int {
	switch time.Weekday((firstWeekday + day - 1) % 7) {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return day - 2
		}
		return day + 1
	default:
		return day
	}
}
