package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

// TestPeopleFindApplicationsAndAlarms lists the applications and searches, with the client and from the command line.
func TestPeopleFindApplicationsAndAlarms(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			began := time.Now()
			p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
			run := func(args ...string) string {
				t.Helper()
				out, err := command([]string{"CLOCKD_SERVER=" + p.url, "CLOCKD_DATABASE_URL=" + databaseURL},
					args...).CombinedOutput()
				if err != nil {
					t.Fatalf("clockd %s: %v, printed %s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			for _, application := range []string{"shop", "bank", "zoo"} {
				p.must(http.StatusCreated, http.MethodPut, alarmPath(application, "order-1"),
					map[string]any{"delay": "1h"})
			}
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-10"), map[string]any{"delay": "0s"}) // overdue: nothing takes the stream's rings
			run("cancel", "bank", "order-1", "--note", "the bank is closed")
			run("application", "set", "idle", "--max-rings", "3")
			run("application", "pause", "zoo")

			c, err := client.New(p.url)
			if err != nil {
				t.Fatal(err)
			}
			var all []*client.Application
			eventually(t, "the settings are known, the alarm is overdue, the application was seen", func() bool {
				all = nil
				for a, err := range c.Applications(t.Context(), client.ApplicationFilter{Counts: true}) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, a)
				}
				return len(all) == 4 && all[1].SettingsVersion == 1 && !all[2].OldestOverdue.IsZero() &&
					!all[2].LastSeen.IsZero()
			})
			names := func() (names []string) {
				for _, a := range all {
					names = append(names, a.Name)
				}
				return names
			}()
			if !slices.Equal(names, []string{"bank", "idle", "shop", "zoo"}) || !all[3].Paused || all[2].Paused ||
				all[0].Target != "stream" {
				t.Errorf("applications %v; %s", names, all[3].Raw)
			}
			if bank, shop := all[0].Counts, all[2].Counts; bank.Cancelled != 1 || bank.Scheduled != 0 ||
				shop.Scheduled != 2 || !shop.Complete {
				t.Errorf("counts: %+v, %+v", bank, shop)
			}
			if oldest := all[2].OldestOverdue; oldest.Before(began.Add(-time.Second)) || oldest.After(time.Now()) ||
				!all[0].OldestOverdue.IsZero() {
				t.Errorf("oldest overdue: %v, %v", all[2].OldestOverdue, all[0].OldestOverdue)
			}
			if seen := all[2].LastSeen; seen.Before(began.Add(-10*time.Second)) || seen.After(time.Now()) ||
				!all[1].LastSeen.IsZero() {
				t.Errorf("last seen: %v, %v", seen, all[1].LastSeen)
			}
			page, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{Limit: 1, Cursor: "bank"})
			if err != nil || len(page.Applications) != 1 || page.Applications[0].Name != "idle" ||
				page.NextCursor != "idle" || page.Applications[0].Counts != nil {
				t.Errorf("page %+v, %v", page, err)
			}
			for _, name := range []string{"bank", "idle", "shop", "zoo", "Bank", "ban", "bank0", "zoo-1"} {
				page, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{Name: name})
				var want []string
				if slices.Contains(names, name) {
					want = []string{name}
				}
				var got []string
				for _, a := range page.Applications {
					got = append(got, a.Name)
				}
				if err != nil || !slices.Equal(got, want) || page.NextCursor != "" {
					t.Errorf("application %s: %+v, %v", name, page, err)
				}
			}
			for _, c := range []struct {
				args []string
				want []string
			}{
				{[]string{"applications", "--counts"}, []string{"LAST SEEN", "ALL COUNTED", "bank ", "version 1", "yes"}},
				{[]string{"applications", "--json"}, []string{`{"application":"zoo","settings_version":1,"target":`}},
				{[]string{"applications", "shop", "--counts"}, []string{"shop ", "ALL COUNTED"}},
				{[]string{"search", "order-1"}, []string{"bank ", "shop ", "zoo ", "cancelled"}},
				{[]string{"search", "order-1", "--limit", "1"}, []string{"more alarms were found"}},
				{[]string{"forecast", "--by", "hour", "--count", "3", "--application", "bank"},
					[]string{"FROM", ":00:00.000Z", " 0"}},
				{[]string{"events", "bank", "order-1"}, []string{"created", "cancelled"}},
				{[]string{"forecast", "--json"}, []string{`"by":"minute"`, `"exact":true`}},
				{[]string{"search", "order", "--application", "shop", "--json"}, []string{`"business_id":"order-10"`}},
			} {
				out := run(c.args...)
				for _, want := range c.want {
					if !strings.Contains(out, want) {
						t.Errorf("clockd %s lacks %q:\n%s", strings.Join(c.args, " "), want, out)
					}
				}
			}
			life, err := c.Events(t.Context(), "bank", "order-1")
			if err != nil || life.State != client.Cancelled || len(life.Events) != 2 ||
				life.Events[1].Kind != "cancelled" || life.Events[1].Detail != "the bank is closed" {
				t.Errorf("life %+v, %v", life, err)
			}
			p.must(http.StatusOK, http.MethodPut, alarmPath("bank", "order-1"),
				map[string]any{"ring_at": "2036-01-02T03:04:05Z"})
			again, err := c.Events(t.Context(), "bank", "order-1")
			if err != nil || len(again.Events) != 3 || again.Events[0].RingAt.IsZero() ||
				again.Events[1].Detail != "the bank is closed" || again.Events[2].Kind != "set" ||
				again.Events[2].Generation != 2 {
				t.Errorf("life after another set %+v, %v", again, err)
			}
			if out := run("events", "bank", "order-1"); !strings.Contains(out, "for 2036-01-02T03:04:05.000Z") {
				t.Errorf("clockd events does not tell for when the alarm was set:\n%s", out)
			}
			p.must(http.StatusOK, http.MethodDelete, alarmPath("bank", "order-1"), nil)
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "ticks"),
				map[string]any{"repeat": map[string]any{"every": "10m"}})
			forecast, err := c.Forecast(t.Context(), client.ForecastQuery{By: "hour", Count: 2, Applications: 1})
			if err != nil || !forecast.Exact || forecast.Step != time.Hour || len(forecast.Due) != 2 || len(forecast.Repeats) != 2 {
				t.Fatalf("forecast %+v, %v", forecast, err)
			}
			// The next rings: shop three times, zoo once. The set of bank is cancelled. One to two hours are left.
			rings, repeats := forecast.Due[0]+forecast.Due[1], forecast.Repeats[0]+forecast.Repeats[1]
			if rings-repeats != 4 || repeats < 5 || repeats > 11 {
				t.Errorf("forecast %+v", forecast)
			}
			if a := forecast.Applications; len(a) != 1 || a[0].Application != "shop" ||
				a[0].Due[0]+a[0].Due[1] != rings-1 {
				t.Errorf("the largest application is %+v of %+v", a, forecast)
			}
			out := run("forecast", "--by", "hour", "--applications", "2")
			if !regexp.MustCompile(`BY RULES +shop +zoo\n`).MatchString(out) {
				t.Errorf("clockd forecast prints\n%s", out)
			}
			ring := p.listen("shop")
			eventually(t, "the alarm rings", func() bool { return ring.number() == 1 })
			byMessage, err := c.Search(t.Context(), client.SearchQuery{Text: ring.all()[0].messageID})
			if err != nil || len(byMessage.Alarms) != 1 || byMessage.Alarms[0].BusinessID != "order-10" ||
				byMessage.More {
				t.Errorf("by message id %+v: %v", byMessage, err)
			}
		})
	}
}

// TestDeadAlarmsAreCountedWhereverTheyAre pauses one alarm behind more alarms of its application than are counted.
func TestDeadAlarmsAreCountedWhereverTheyAre(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	for part := range 2 {
		var sets []map[string]any
		for i := range 600 {
			sets = append(sets, map[string]any{"business_id": fmt.Sprintf("a-%d-%03d", part, i), "delay": "1h"})
		}
		p.must(http.StatusOK, http.MethodPost, "/v1/applications/shop/alarms", map[string]any{"set": sets})
	}
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "z"), map[string]any{"delay": "1h"})
	p.must(http.StatusCreated, http.MethodPut, alarmPath("bank", "z"), map[string]any{"delay": "1h"})
	p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "z")+"/pause", nil)
	c, err := client.New(p.url)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{Counts: true})
	if err != nil || len(all.Applications) != 2 {
		t.Fatalf("applications %+v, %v", all, err)
	}
	want := client.StateCounts{Scheduled: 1001, Paused: 1, AttentionComplete: true}
	if got := all.Applications[1].Counts; *got != want {
		t.Errorf("counts %+v, want %+v", *got, want)
	}
	some, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{Attention: true})
	if err != nil || len(some.Applications) != 1 || some.Applications[0].Name != "shop" {
		t.Fatalf("applications with alarms that wait for a person: %+v, %v", some, err)
	}
	if got := some.Applications[0].Counts; *got != (client.StateCounts{Paused: 1, AttentionComplete: true}) {
		t.Errorf("counts %+v", *got)
	}
	only, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{Name: "bank", Attention: true})
	if err != nil || len(only.Applications) != 0 {
		t.Errorf("bank has no alarm that waits for a person, but the list is %+v, %v", only, err)
	}
	out, code := typed(t, []string{"CLOCKD_SERVER=" + p.url}, "applications", "shop", "--attention")
	if code != 0 || !strings.Contains(out, "PAUSED") || !strings.Contains(out, "shop ") ||
		strings.Contains(out, "bank ") {
		t.Errorf("%d, %s", code, out)
	}
}
