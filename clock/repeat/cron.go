package repeat

import (
	"math/bits"
	"strings"
	"time"
)

// maxCronLength is the longest cron expression in bytes.
const maxCronLength = 256

// shortForms maps each short form to its expression.
var shortForms = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// cron is a parsed cron expression without a time zone. It is immutable.
type cron struct {
	second, minute, hour, day, month, weekday values

	bothDays bool // a day must fit the day of month and the day of week; false: one of them
	interval bool // minute or hour begins with *

	skipped map[int]uint64 // days without an occurrence, by monthNumber; bit n stands for day n
}

// skip takes a day out. It is called before the expression is used.
func (c *cron) skip(day time.Time) {
	if c.skipped == nil {
		c.skipped = map[int]uint64{}
	}
	c.skipped[monthNumber(day.Year(), day.Month())] |= 1 << day.Day()
}

func monthNumber(year int, month time.Month) int { return year*12 + int(month) }

// parseCron parses an expression. It also returns the canonical text: upper-case names, and one blank between the
// fields.
func parseCron(text string) (c *cron, canonical string, err error) {
	if len(text) > maxCronLength {
		return nil, "", refuse("cron", "the expression has %d bytes, but may have %d", len(text), maxCronLength)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r > '~' || r < ' ' && r != '\t' }); i >= 0 {
		e := refuse("cron", "the character is not allowed")
		e.Position = i + 1
		return nil, "", e
	}
	if trimmed := strings.ToLower(strings.TrimSpace(text)); strings.HasPrefix(trimmed, "@") {
		return parseShortForm(trimmed)
	}
	if c, canonical, err = parseFields(text); err != nil {
		if hint := hintFor(text); hint != "" {
			err = refuse("cron", "%s", hint)
		}
	}
	return c, canonical, err
}

func parseFields(text string) (c *cron, canonical string, err error) {
	fields := splitFields(strings.ToUpper(text))
	definitions := cronFields
	switch len(fields) {
	case 5:
		definitions = cronFields[1:]
	case 6:
	default:
		return nil, "", refuse("cron", "the expression has %d fields, but must have %s or 6 (second first)",
			len(fields), fieldNames(cronFields[1:]))
	}
	texts, sets := make([]string, len(fields)), make([]values, len(fields))
	for i, field := range fields {
		var err *Error
		if sets[i], err = definitions[i].parse(field); err != nil {
			return nil, "", err
		}
		texts[i] = field.text
	}
	canonical = strings.Join(texts, " ")
	if len(fields) == 5 {
		texts, sets = append([]string{"0"}, texts...), append([]values{{set: 1}}, sets...)
	}
	return &cron{
		second: sets[0], minute: sets[1], hour: sets[2], day: sets[3], month: sets[4], weekday: sets[5],
		bothDays: strings.ContainsAny(texts[3][:1], "*?") || strings.ContainsAny(texts[5][:1], "*?"),
		interval: texts[1][0] == '*' || texts[2][0] == '*',
	}, canonical, nil
}

func parseShortForm(name string) (*cron, string, error) {
	if strings.HasPrefix(name, "@every") {
		return nil, "", refuse("cron", "@every is not a cron expression: use every")
	}
	expression, ok := shortForms[name]
	if !ok {
		return nil, "", refuse("cron",
			"%.32q is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly", name)
	}
	c, _, err := parseCron(expression)
	return c, name, err
}

// splitFields splits an expression at blanks, and keeps the offset of each field.
func splitFields(text string) []term {
	var fields []term
	for i := 0; i < len(text); {
		if text[i] == ' ' || text[i] == '\t' {
			i++
			continue
		}
		end := strings.IndexAny(text[i:], " \t")
		if end < 0 {
			end = len(text) - i
		}
		fields = append(fields, term{text[i : i+end], i})
		i += end
	}
	return fields
}

const (
	searchYears = 400  // period of the Gregorian calendar
	lastYear    = 9999 // last year that RFC 3339 can write
	daySeconds  = 24 * 60 * 60
)

// nextLabel returns the first label that fits the expression and is not before from. It knows no time zone: a label is
// the number of seconds since 1970-01-01T00:00:00 on the local clock.
func (c *cron) nextLabel(from int64) (label int64, ok bool) {
	date := time.Unix(from, 0).UTC()
	year, month, day := date.Date()
	clock := from - floorDiv(from, daySeconds)*daySeconds
	for end := min(year+searchYears, lastYear); year <= end; {
		if !c.month.has(int(month)) {
			year, month = nextMonth(year, month)
			day, clock = 1, 0
			continue
		}
		days := c.daysOf(year, month) &^ c.skipped[monthNumber(year, month)]
		if days>>day&1 != 0 {
			if at, ok := c.nextClock(clock); ok {
				return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() + at, true
			}
		}
		later := days >> (day + 1)
		if later == 0 {
			year, month = nextMonth(year, month)
			day, clock = 1, 0
			continue
		}
		day += 1 + bits.TrailingZeros64(later)
		clock = 0
	}
	return 0, false
}

// nextMonth returns the following month.
func nextMonth(year int, month time.Month) (int, time.Month) {
	if month == time.December {
		return year + 1, time.January
	}
	return year, month + 1
}

// nextClock returns the first fitting second of a day that is not before from.
func (c *cron) nextClock(from int64) (int64, bool) {
	hour, minute, second := int(from/3600), int(from/60%60), int(from%60)
	if s, ok := c.second.from(second); ok && c.hour.has(hour) && c.minute.has(minute) {
		return int64(hour*3600 + minute*60 + s), true
	}
	firstSecond, _ := c.second.from(0)
	if m, ok := c.minute.from(minute + 1); ok && c.hour.has(hour) {
		return int64(hour*3600 + m*60 + firstSecond), true
	}
	firstMinute, _ := c.minute.from(0)
	if h, ok := c.hour.from(hour + 1); ok {
		return int64(h*3600 + firstMinute*60 + firstSecond), true
	}
	return 0, false
}

// daysOf returns the set of fitting days in a month.
func (c *cron) daysOf(year int, month time.Month) uint64 {
	firstWeekday := int(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday())
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	all := uint64(1)<<(last+1) - 2
	byDay, byWeekday := c.day.set, uint64(0)
	for _, form := range c.day.forms {
		byDay |= form.dayOf(firstWeekday, last)
	}
	for day := 1; day <= last; day++ {
		if weekday := (firstWeekday + day - 1) % 7; c.weekday.has(weekday) {
			byWeekday |= 1 << day
		}
	}
	for _, form := range c.weekday.forms {
		byWeekday |= form.dayOf(firstWeekday, last)
	}
	if c.bothDays {
		return byDay & byWeekday & all
	}
	return (byDay | byWeekday) & all
}

// next returns the first occurrence after an instant, both in epoch seconds.
func (c *cron) next(z zone, after int64) (int64, bool) {
	if c.interval {
		return c.nextShown(z, after+1)
	}
	label, ok := c.nextLabel(z.highestLabel(after) + 1)
	if !ok {
		return 0, false
	}
	return floorDiv(z.reach(label*1000), 1000), true
}

// nextShown returns the first instant from at on at which the local clock shows a fitting label.
func (c *cron) nextShown(z zone, at int64) (int64, bool) {
	for {
		s := z.spanAt(at)
		if label, ok := c.nextLabel(at + s.offset); ok && label-s.offset < s.end {
			return label - s.offset, true
		}
		lowest, ok := c.nextLabel(z.lowestLabel(at))
		if !ok {
			return 0, false
		}
		at = max(s.end, lowest-shiftBound)
	}
}
