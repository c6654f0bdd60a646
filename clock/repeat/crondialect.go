package repeat

import (
	"regexp"
	"strings"
)

// dialects has forms of other programs that are no cron expressions here, and what to write instead.
var dialects = []struct {
	form *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`(?i)^(CRON_)?TZ=`), "the time zone is not part of the expression: give it as time_zone"},
	{regexp.MustCompile(`(?i)^cron\(`), "cron(...) is EventBridge's: write its fields alone, without the year at the end"},
	{regexp.MustCompile(`(?i)^(rate\(|every\b|\d+\s*[smhd]$)`), "this is a period: give it as every, such as 5m"},
	{regexp.MustCompile(`(?i)^at\(`), "at(...) is EventBridge's: an alarm that rings once has ring_at"},
	{
		regexp.MustCompile(`(?i)^(minutely|hourly|daily|weekly|monthly|quarterly|semiannually|yearly|annually)$`),
		"a short form begins with @, such as @daily",
	},
	{
		regexp.MustCompile(`(?i)^R\d*/`),
		"this is an interval of ISO 8601: give its period as every, its begin as anchor and its repetitions as times",
	},
	{regexp.MustCompile(`(?i)^(RRULE:|FREQ=)`), "this is a rule of iCalendar: write it as fields, such as 30 2 * * MON-FRI"},
	{
		regexp.MustCompile(`^(\S+\s+){2}(\?\s+\S+\s+\S+|\S+\s+\S+\s+\?)\s+\S+$`),
		"six fields with ? for the third or the fifth have a year at their end, as in EventBridge: leave the year out",
	},
	{
		regexp.MustCompile(`^(\S+\s+){6}[*\d][\d,*/-]*$`),
		"seven fields have a year, as in Quartz: leave it out, and set until if the alarm must end",
	},
	{regexp.MustCompile(`\*-\*|\d:\d|\*:|\d{4}-\d\d-`), "this is a calendar of systemd: write its fields as in 30 2 * * MON-FRI"},
	{
		regexp.MustCompile(`^(\S+\s+){5}(\S*[/.][A-Za-z]|\S+\s.*[A-Za-z]{3})`),
		"a crontab line has a command after its five fields: leave it out, because the receiver of the ring knows its work",
	},
}

// hintFor returns what to write instead of a refused expression of another program, "" if it looks like none.
func hintFor(text string) string {
	text = strings.TrimSpace(text)
	for _, d := range dialects {
		if d.form.MatchString(text) {
			return d.hint
		}
	}
	return ""
}
