package repeat

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A name means its number, alone, in lists, ranges and steps, and with # and L, in each position and in any case.
func TestNamesMeanTheirNumbers(t *testing.T) {
	t.Parallel()
	for _, field := range cronFields {
		for i, name := range field.names {
			number := fmt.Sprint(field.min + i)
			for j, other := range field.names {
				otherNumber := fmt.Sprint(field.min + j)
				forms := []string{"A", "A,B", "B,A", "B,A,B", "A-B", "B-A", "A/1", "A-B/1", "B,A-B", "A-A,B"}
				if field.name == "day of week" {
					forms = append(forms, "A#1", "B,A#5", "A#L", "A#L,B", "A#2,B#3")
				}
				for _, form := range forms {
					text := strings.NewReplacer("A", name, "B", other).Replace(form)
					want := strings.NewReplacer("A", number, "B", otherNumber).Replace(form)
					for _, text := range []string{text, strings.ToLower(text)} {
						wantSameDays(t, field.name, text, want)
					}
				}
			}
		}
	}
}

// wantSameDays fails unless two texts of the field have the same effect, or the same refusal.
func wantSameDays(t *testing.T, field, text, want string) {
	t.Helper()
	expression := "0 0 1 %s *"
	if field == "day of week" {
		expression = "0 0 ? * %s"
	}
	got, _, err := parseCron(fmt.Sprintf(expression, text))
	twin, _, twinErr := parseCron(fmt.Sprintf(expression, want))
	if !reflect.DeepEqual(got, twin) || (err == nil) != (twinErr == nil) {
		t.Errorf("%s: %+v, %v; %s: %+v, %v", text, got, err, want, twin, twinErr)
	}
}

// What people copy from other programs is read as they mean it, or refused with the form that they need.
func TestExpressionsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, cron, want string }{
		{"crontab", "17 * * * *", "17 * * * *"},
		{"crontab", "25 6 * * 7", "25 6 * * 7"},
		{"crontab", "0 4 8-14 * *", "0 4 8-14 * *"},
		{"crontab", "0 22 * * 1-5", "0 22 * * 1-5"},
		{"crontab", "23 0-23/2 * * *", "23 0-23/2 * * *"},
		{"crontab", "5 4 * * sun", "5 4 * * SUN"},
		{"crontab", "0 9 * * Mon-Thu", "0 9 * * MON-THU"},
		{"crontab", "@hourly", "@hourly"},
		{"crontab", "@reboot", `"@reboot" is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly`},
		{"crontab", "30 2 * * * /usr/local/bin/report --all", "a crontab line has a command"},
		{"crontab", "30 2 * * * root /usr/local/bin/report", "a crontab line has a command"},
		{"crontab", "17 * * * * root cd / && run-parts --report /etc/cron.hourly", "a crontab line has a command"},
		{"crontab", "*/5 * * * * ./poll.sh", "a crontab line has a command"},
		{"crontab", "0 3 * * * php artisan schedule:run", "a crontab line has a command"},
		{"crontab", "CRON_TZ=Asia/Tokyo 0 9 * * *", "give it as time_zone"},
		{"Kubernetes", "TZ=Etc/UTC 0 * * * *", "give it as time_zone"},
		{"Kubernetes", "*/1 * * * *", "*/1 * * * *"},
		{"Kubernetes", "@every 1h30m", "use every"},
		{"Quartz", "0 0 12 * * ?", "0 0 12 * * ?"},
		{"Quartz", "0 15 10 ? * MON-FRI", "0 15 10 ? * MON-FRI"},
		{"Quartz", "0 0/5 14,18 * * ?", "0 0/5 14,18 * * ?"},
		{"Quartz", "0 15 10 L-2 * ?", "0 15 10 L-2 * ?"},
		{"Quartz", "0 15 10 ? * FRI#3", "0 15 10 ? * FRI#3"},
		{"Quartz", "0 15 10 15W * ?", "0 15 10 15W * ?"},
		{"Quartz", "0 15 10 ? * 6L", `"6L" is Quartz's: write FRI#L for the last such day of the month`},
		{"Quartz", "0 0 0 ? * L", `"L" is Quartz's: write SAT for each Saturday`},
		{"Quartz", "0 15 10 * * ? 2005", "seven fields have a year, as in Quartz: leave it out"},
		{"Quartz", "0 15 10 ? * MON-FRI 2026-2030", "seven fields have a year, as in Quartz: leave it out"},
		{"Quartz", "0 15 10 ? * MON *", "seven fields have a year, as in Quartz: leave it out"},
		{"EventBridge", "0 12 * * ? *", "have a year at their end, as in EventBridge: leave the year out"},
		{"EventBridge", "15 10 ? * 6L 2027-2030", "have a year at their end, as in EventBridge: leave the year out"},
		{"EventBridge", "0/5 8-17 ? * MON-FRI *", "have a year at their end, as in EventBridge: leave the year out"},
		{"EventBridge", "cron(0 12 * * ? *)", "cron(...) is EventBridge's: write its fields alone, without the year"},
		{"EventBridge", "rate(5 minutes)", "give it as every"},
		{"EventBridge", "at(2026-12-24T18:00:00)", "an alarm that rings once has ring_at"},
		{"Jenkins", "H * * * *", "H is Jenkins's: write a number, and use jitter"},
		{"Jenkins", "H(0-29)/10 * * * *", "H is Jenkins's: write a number, and use jitter"},
		{"Jenkins", "@midnight", "@midnight"},
		{"systemd", "*-*-* 02:30:00", "this is a calendar of systemd"},
		{"systemd", "Mon..Fri *-*-* 10:00", "this is a calendar of systemd"},
		{"systemd", "*:0/15", "this is a calendar of systemd"},
		{"systemd", "2026-12-24 18:00", "this is a calendar of systemd"},
		{"systemd", "daily", "a short form begins with @"},
		{"Quartz", "0 0 0 ? * 2L", `"2L" is Quartz's: write MON#L for the last such day of the month`},
		{"others", "0 0 * * MON-L", "write SAT for each Saturday"},
		{"others", "every 5 minutes", "give it as every"},
		{"others", "5m", "give it as every"},
		{"others", "R5/2026-12-24T18:00:00Z/PT1H", "this is an interval of ISO 8601"},
		{"others", "FREQ=DAILY;BYHOUR=9", "this is a rule of iCalendar"},
	} {
		rule, err := Parse(Spec{Cron: c.cron})
		got := rule.Spec().Cron
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q: %s, want %s", c.from, c.cron, got, c.want)
		}
	}
}
