package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
)

// TestPeopleListRepeatingAlarms lists the repeating alarms of all applications, and of a token's applications, with the
// client and from the command line.
func TestPeopleListRepeatingAlarms(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
			rule := map[string]any{"repeat": map[string]any{"cron": "0 9 * * mon-fri", "time_zone": "Europe/Berlin"}}
			for _, path := range []string{
				alarmPath("bank", "payday"), alarmPath("shop", "a/b"), alarmPath("shop", "paused"), alarmPath("shop", "stopped"),
				alarmPath("zoo", "feed"),
			} {
				p.must(http.StatusCreated, http.MethodPut, path, rule)
			}
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-1"), map[string]any{"delay": "1h"})
			run := func(args ...string) string {
				t.Helper()
				out, err := command([]string{"CLOCKD_SERVER=" + p.url, "CLOCKD_DATABASE_URL=" + databaseURL},
					args...).CombinedOutput()
				if err != nil {
					t.Fatalf("clockd %s: %v, printed %s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			run("pause", "shop", "paused")
			run("cancel", "shop", "stopped")
			c, err := client.New(p.url)
			if err != nil {
				t.Fatal(err)
			}
			ids := func(application string, f client.Filter) (ids []string) {
				t.Helper()
				for a, err := range c.Repeating(t.Context(), application, f) {
					if err != nil {
						t.Fatal(err)
					}
					if a.RepeatSentence != "at 09:00 on Monday to Friday, Europe/Berlin" {
						t.Errorf("%s rings %q", a.BusinessID, a.RepeatSentence)
					}
					ids = append(ids, a.Application+"/"+a.BusinessID)
				}
				return ids
			}
			all := []string{"bank/payday", "shop/a/b", "shop/paused", "shop/stopped", "zoo/feed"}
			if got := ids("", client.Filter{}); !slices.Equal(got, all) {
				t.Errorf("all: %q", got)
			}
			if got := ids("", client.Filter{Limit: 2}); !slices.Equal(got, all[:2]) {
				t.Errorf("two: %q", got)
			}
			if got := ids("shop", client.Filter{States: []client.State{"paused", "cancelled"}}); !slices.Equal(got, all[2:4]) {
				t.Errorf("of the shop: %q", got)
			}
			var pages []string
			for f := (client.Filter{Limit: 1}); ; {
				page, err := c.RepeatingPage(t.Context(), "", f)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range page.Alarms {
					pages = append(pages, a.Application+"/"+a.BusinessID)
				}
				if f.Cursor = page.NextCursor; f.Cursor == "" {
					break
				}
			}
			if !slices.Equal(pages, all) {
				t.Errorf("by pages of one: %q", pages)
			}
			for _, c := range []struct {
				args []string
				want []string
			}{
				{[]string{"repeat", "list"},
					[]string{"APPLICATION", "bank ", "payday", "at 09:00 on Monday to Friday, Europe/Berlin", "zoo "}},
				{[]string{"repeat", "list", "shop", "--state", "paused"}, []string{"paused       paused"}},
				{[]string{"repeat", "list", "--prefix", "fe", "--json"}, []string{`"application":"zoo"`}},
				{[]string{"repeat", "list", "shpo"}, []string{"BUSINESS ID", "did you mean shop"}},
				{[]string{"get", "zoo", "feed"}, []string{"  rings at 09:00 on Monday to Friday, Europe/Berlin"}},
			} {
				out := run(c.args...)
				for _, want := range c.want {
					if !strings.Contains(out, want) {
						t.Errorf("clockd %s: %q is missing in\n%s", strings.Join(c.args, " "), want, out)
					}
				}
				if strings.Contains(out, "order-1") {
					t.Errorf("clockd %s lists an alarm that rings once:\n%s", strings.Join(c.args, " "), out)
				}
			}
		})
	}
}
