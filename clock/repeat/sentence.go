package repeat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Sentence says when the rule rings, for people: "at 09:00 on Monday to Friday, Europe/Berlin". It leaves out the
// policies and the jitter.
func (r Rule) Sentence() string {
	var s string
	switch {
	case r.IsZero():
		return "once"
	case r.cron == nil:
		s = "every " + period(r.spec.Every)
		if r.spec.Anchor != nil {
			s += ", counted from " + instantText(*r.spec.Anchor)
		}
	default:
		s = r.cron.sentence() + ", " + r.spec.TimeZone
	}
	switch n := len(r.spec.SkipDates); {
	case n > mostTimes:
		s += ", except on " + count(n, "date")
	case n > 0:
		s += ", except on " + join(r.spec.SkipDates)
	}
	if r.spec.From != 0 {
		s += ", from " + instantText(r.spec.From)
	}
	if r.spec.Until != 0 {
		s += ", until " + instantText(r.spec.Until)
	}
	if r.spec.Times != 0 {
		s += ", " + count(int(r.spec.Times), "time") + " at most"
	}
	return s
}

func instantText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format(shownLayout)
}

// period writes milliseconds in the units of a rule: 90 minutes, 1 day.
func period(ms int64) string {
	for _, unit := range []struct {
		name string
		ms   int64
	}{{"day", daySeconds * 1000}, {"hour", 3_600_000}, {"minute", 60_000}, {"second", 1000}} {
		if ms%unit.ms == 0 {
			return each(int(ms/unit.ms), unit.name)
		}
	}
	return fmt.Sprintf("%d ms", ms)
}

// each returns "hour", "2 hours".
func each(n int, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// count returns "1 time", "2 times".
func count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return each(n, unit)
}

// sentence says at which times and on which days.
func (c *cron) sentence() string {
	s := c.times()
	if days := c.days(); days != "" {
		s += " on " + days
	}
	if months := c.month.list(1, 12, func(n int) string { return time.Month(n).String() }); months != "" {
		s += " in " + months
	}
	return s
}

// mostTimes is the most times of day, or dates, that a sentence lists.
const mostTimes = 6

// times says at which times of a day: the listed ones, or those of a pace.
func (c *cron) times() string {
	seconds, minutes, hours := c.second.all(), c.minute.all(), c.hour.all()
	if n := len(seconds) * len(minutes) * len(hours); n <= mostTimes {
		listed := make([]string, 0, n)
		for _, h := range hours {
			for _, m := range minutes {
				for _, s := range seconds {
					listed = append(listed, clockText(h, m, s))
				}
			}
		}
		return "at " + join(listed)
	}
	onlySecond := len(seconds) == 1 && seconds[0] == 0
	low, high := hours[0], hours[len(hours)-1]
	if n := len(hours); onlySecond && len(minutes) == 1 && n < 24 && n == high-low+1 {
		return "every hour from " + clockText(low, minutes[0], 0) + " to " + clockText(high, minutes[0], 0)
	}
	var parts []string
	if onlySecond {
		parts = append(parts, c.minute.pace("minute", 60))
	} else {
		parts = append(parts, c.second.pace("second", 60))
		if len(minutes) < 60 {
			parts = append(parts, c.minute.named("minute", 60))
		}
	}
	if len(hours) < 24 {
		parts = append(parts, c.hour.named("hour", 24))
	} else if !strings.HasPrefix(parts[len(parts)-1], "every") {
		parts = append(parts, "every hour")
	}
	s := strings.Join(parts, " of ")
	if !strings.HasPrefix(s, "every") {
		s = "at " + s
	}
	return s
}

// clockText returns 09:00, or 09:00:30.
func clockText(hour, minute, second int) string {
	if second == 0 {
		return fmt.Sprintf("%02d:%02d", hour, minute)
	}
	return fmt.Sprintf("%02d:%02d:%02d", hour, minute, second)
}

// days says on which days, "" for each.
func (c *cron) days() string {
	monthDays := c.day.list(1, 31, strconv.Itoa)
	if monthDays != "" {
		monthDays = c.day.named("day", 31) + " of the month"
	}
	week := c.weekday.mondayFirst()
	weekdays := week.list(1, 7, func(n int) string { return time.Weekday(n % 7).String() })
	byDay, byWeekday := withForms(monthDays, c.day.forms), withForms(weekdays, c.weekday.forms)
	everyDay, everyWeekday := len(c.day.all()) == 31, len(week.all()) == 7
	switch {
	case everyDay && everyWeekday, (everyDay || everyWeekday) && !c.bothDays:
		return ""
	case everyDay:
		return byWeekday
	case everyWeekday:
		return byDay
	case c.bothDays:
		return byDay + ", if it is " + byWeekday
	default:
		return byDay + " or on " + byWeekday
	}
}

// withForms adds the names of forms to listed days.
func withForms(listed string, forms []dayForm) string {
	var items []string
	if listed != "" {
		items = append(items, listed)
	}
	for _, form := range forms {
		items = append(items, form.text())
	}
	return join(items)
}

// text names the day.
func (d dayForm) text() string {
	switch d.kind {
	case daysBeforeLast:
		if d.n == 0 {
			return "the last day of the month"
		}
		return "the day that is " + count(d.n, "day") + " before the last of the month"
	case nearestWorkday:
		return fmt.Sprintf("the day from Monday to Friday next to day %d of the month", d.n)
	case lastWorkday:
		return "the last day from Monday to Friday of the month"
	case nthOfWeekday:
		nth := [...]string{"first", "second", "third", "fourth", "fifth"}[d.n-1]
		return "the " + nth + " " + time.Weekday(d.weekday).String() + " of the month"
	default:
		return "the last " + time.Weekday(d.weekday).String() + " of the month"
	}
}

// all returns the values of the set, in order.
func (v *values) all() (all []int) {
	for n, ok := v.from(0); ok; n, ok = v.from(n + 1) {
		all = append(all, n)
	}
	return all
}

// mondayFirst returns a set of weekdays with Sunday as 7.
func (v *values) mondayFirst() *values {
	set := v.set &^ 1
	if v.has(0) {
		set |= 1 << 7
	}
	return &values{set: set}
}

// list lists the values, with ranges for three and more: "Monday to Friday". It is empty for all values from low to
// high, and for none.
func (v *values) list(low, high int, name func(int) string) string {
	all := v.all()
	if len(all) == high-low+1 {
		return ""
	}
	var items []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		switch {
		case j-i >= 2:
			items = append(items, name(all[i])+" to "+name(all[j]))
		case j > i:
			items = append(items, name(all[i]), name(all[j]))
		default:
			items = append(items, name(all[i]))
		}
		i = j + 1
	}
	return join(items)
}

// pace says how often a unit of that many values comes: "every minute", "every 5 minutes", "minutes 5 and 35".
func (v *values) pace(unit string, of int) string {
	all := v.all()
	if len(all) == of {
		return "every " + unit
	}
	if step := of / len(all); of%len(all) == 0 && all[0] == 0 && v.isEvery(step) && len(all) > 1 {
		return "every " + each(step, unit)
	}
	return v.named(unit, of)
}

// named lists the values of a unit of that many values: "minute 5", "minutes 5 and 35".
func (v *values) named(unit string, of int) string {
	if v.set&(v.set-1) != 0 {
		unit += "s"
	}
	return unit + " " + v.list(0, of-1, strconv.Itoa)
}

// isEvery reports whether the values have that distance from each other.
func (v *values) isEvery(step int) bool {
	all := v.all()
	for i := 1; i < len(all); i++ {
		if all[i]-all[i-1] != step {
			return false
		}
	}
	return true
}

// join joins items with commas, and the last one with "and".
func join(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
