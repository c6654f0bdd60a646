package repeat

import (
	"errors"
	"math/bits"
	"strings"
	"time"

	cronparser "github.com/netresearch/go-cron"
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

// cron is a parsed cron expression without a time zone. It is immutable. Bit n of a set stands for the value n.
type cron struct {
	second, minute, hour, day, month, weekday uint64
	dayForms                                  []cronparser.DomConstraint // L, LW, L-n, nW
	weekdayForms                              []cronparser.DowConstraint // FRI#3, FRI#L
	bothDays                                  bool                       // a day must fit the day of month and the day of week; false: one of them
	interval                                  bool                       // minute or hour begins with *
}

var fieldParser = cronparser.MustNewParser(cronparser.Second | cronparser.Minute | cronparser.Hour | cronparser.Dom |
	cronparser.Month | cronparser.Dow | cronparser.Extended)

// parseCron parses an expression. It also returns the canonical text: upper-case names, and one blank between the
// fields.
func parseCron(text string) (*cron, string, error) {
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
	texts := make([]string, len(fields))
	for i, field := range fields {
		if err := checkField(definitions[i], field); err != nil {
			return nil, "", err
		}
		texts[i] = field.text
	}
	canonical := strings.Join(texts, " ")
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	c, err := compile(texts)
	return c, canonical, err
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

func checkField(definition cronField, field term) error {
	offset := field.offset
	for text := range strings.SplitSeq(field.text, ",") {
		if err := definition.check(term{text, offset}); err != nil {
			return err
		}
		offset += len(text) + 1
	}
	return nil
}

// compile turns six checked fields into sets.
func compile(fields []string) (*cron, error) {
	schedule, err := fieldParser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, refuse("cron", "%v", err)
	}
	s, ok := schedule.(*cronparser.SpecSchedule)
	if !ok {
		return nil, errors.New("cron: the parser returned a schedule without fields")
	}
	return &cron{
		second:       s.Second & (1<<60 - 1),
		minute:       s.Minute & (1<<60 - 1),
		hour:         s.Hour & (1<<24 - 1),
		day:          s.Dom & (1<<32 - 1),
		month:        s.Month & (1<<13 - 1),
		weekday:      cronparser.NormalizeDOW(s.Dow) & (1<<7 - 1),
		dayForms:     s.DomConstraints,
		weekdayForms: s.DowConstraints,
		bothDays:     strings.ContainsAny(fields[3][:1], "*?") || strings.ContainsAny(fields[5][:1], "*?"),
		interval:     fields[1][0] == '*' || fields[2][0] == '*',
	}, nil
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
		if c.month>>month&1 == 0 {
			year, month = nextMonth(year, month)
			day, clock = 1, 0
			continue
		}
		days := c.daysOf(year, month)
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
	if s, ok := nextBit(c.second, second); ok && c.hour>>hour&1 != 0 && c.minute>>minute&1 != 0 {
		return int64(hour*3600 + minute*60 + s), true
	}
	first := int64(bits.TrailingZeros64(c.second))
	if m, ok := nextBit(c.minute, minute+1); ok && c.hour>>hour&1 != 0 {
		return int64(hour*3600+m*60) + first, true
	}
	if h, ok := nextBit(c.hour, hour+1); ok {
		return int64(h*3600+bits.TrailingZeros64(c.minute)*60) + first, true
	}
	return 0, false
}

// nextBit returns the first value of a set that is not below from.
func nextBit(set uint64, from int) (int, bool) {
	rest := set >> from
	return from + bits.TrailingZeros64(rest), rest != 0
}

// daysOf returns the set of fitting days in a month.
func (c *cron) daysOf(year int, month time.Month) uint64 {
	firstWeekday := int(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday())
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	all := uint64(1)<<(last+1) - 2
	byDay, byWeekday := c.day, uint64(0)
	for _, form := range c.dayForms {
		byDay |= daysOfForm(form, firstWeekday, last)
	}
	for day := 1; day <= last; day++ {
		weekday := (firstWeekday + day - 1) % 7
		if c.weekday>>weekday&1 != 0 || fitsWeekdayForm(c.weekdayForms, weekday, day, last) {
			byWeekday |= 1 << day
		}
	}
	if c.bothDays {
		return byDay & byWeekday & all
	}
	return (byDay | byWeekday) & all
}

// daysOfForm returns the day of L, LW, L-n or nW as a set. It is empty if the month does not have that day.
func daysOfForm(form cronparser.DomConstraint, firstWeekday, last int) uint64 {
	switch form.Type {
	case cronparser.DomLast:
		return 1 << last
	case cronparser.DomLastOffset:
		if form.N >= last {
			return 0
		}
		return 1 << (last - form.N)
	case cronparser.DomLastWeekday:
		return 1 << nearestWeekday(last, firstWeekday, last)
	default: // DomNearestWeekday
		if form.N > last {
			return 0
		}
		return 1 << nearestWeekday(form.N, firstWeekday, last)
	}
}

// nearestWeekday returns the day from Monday to Friday that is nearest to a day, in the same month.
func nearestWeekday(day, firstWeekday, last int) int {
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

func fitsWeekdayForm(forms []cronparser.DowConstraint, weekday, day, last int) bool {
	for _, form := range forms {
		if form.Weekday%7 == weekday && (form.N == (day-1)/7+1 || form.N == -1 && day+7 > last) {
			return true
		}
	}
	return false
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
