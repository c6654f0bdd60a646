package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// An application with quotas gets 429, with a code that names the quota, and 413 for a payload. It changes and cancels
// its alarms. Other applications notice nothing.
func TestQuotasOfAnApplication(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			p := startOn(t, databaseURL, nil)
			application(t, databaseURL, "set", "shop", "--quotas=pending_alarms=5,payload_bytes=10")
			const text = `{"delay":"1h","text":"12345678901"}`
			eventually(t, "the quotas apply", func() bool { return p.settings("shop").AppliedVersion == 1 })
			status, body := p.tryWith(t, http.MethodPut, alarmPath("shop", "large"), "", text)
			if status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "quota payload_bytes") ||
				!strings.Contains(body, `"field":"payload"`) {
				t.Errorf("a large payload: %d %s", status, body)
			}
			p.must2(t, "", http.MethodPut, alarmPath("till", "large"), text)

			set := func(id, body string) (status int, code string) {
				t.Helper()
				a, err := p.do(http.MethodPut, alarmPath("shop", id), map[string]any{"delay": body})
				if err != nil {
					t.Fatal(err)
				}
				if a.Status == http.StatusTooManyRequests && a.RetryAfter == "" {
					t.Error("429 without Retry-After")
				}
				return a.Status, a.Code
			}
			eventually(t, "the alarms are counted", func() bool {
				_, metrics := p.tryWith(t, http.MethodGet, "/metrics", "", "")
				return strings.Contains(metrics, `clockd_quota_pending_alarms{application="shop"} 0`)
			})
			for i := range 6 {
				if status, code := set(fmt.Sprint("early", i), "1h"); (status == http.StatusCreated) != (i < 5) ||
					(code == clock.CodeQuotaPending) != (i == 5) {
					t.Errorf("alarm %d: %d %s", i, status, code)
				}
			}
			if status, code := set("early0", "2h"); status != http.StatusOK {
				t.Errorf("a change of an alarm: %d %s", status, code)
			}

			// A batch and a stream say it of each alarm, and so does gRPC.
			for content, request := range map[string]string{
				"application/json":     `{"set":[{"business_id":"b1","delay":"1h"},{"business_id":"early1","delay":"2h"}]}`,
				"application/x-ndjson": `{"business_id":"b1","delay":"1h"}` + "\n" + `{"business_id":"early2","delay":"2h"}` + "\n",
			} {
				status, body = p.tryWith(t, http.MethodPost, "/v1/applications/shop/alarms", "", request, "Content-Type", content)
				if status != http.StatusOK || strings.Count(body, `"status":429,"code":"`+clock.CodeQuotaPending+`"`) != 1 ||
					strings.Count(body, `"status":200`) != 1 {
					t.Errorf("%s: %d %s", content, status, body)
				}
			}
			status, body = p.tryWith(t, http.MethodPost, "/clockd.v1.AlarmService/Set", "",
				`{"application":"shop","alarm":{"business_id":"g1","delay":"3600s"}}`, "Content-Type", "application/json")
			if status != http.StatusTooManyRequests || !strings.Contains(body, `"resource_exhausted"`) ||
				!strings.Contains(body, "quota pending_alarms") {
				t.Errorf("Connect: %d %s", status, body)
			}

			// Cancelled alarms leave room, and so do alarms that have rung.
			for i := range 2 {
				p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", fmt.Sprint("early", i+3)), nil)
			}
			for i := range 2 {
				if status, code := set(fmt.Sprint("late", i), "1s"); status != http.StatusCreated {
					t.Errorf("with room again: %d %s", status, code)
				}
			}
			if status, code := set("late2", "1h"); code != clock.CodeQuotaPending {
				t.Errorf("the sixth: %d %s", status, code)
			}
			rings := p.listen("shop")
			eventually(t, "two ring", func() bool { return rings.number() == 2 })
			eventually(t, "there is room again", func() bool {
				status, _ := set("late2", "1h")
				return status == http.StatusCreated
			})
			_, shown := p.tryWith(t, http.MethodGet, "/v1/applications/shop/settings", "", "")
			if !strings.Contains(shown, `"quotas":{"pending_alarms":5,"sets_per_second":null,"payload_bytes":10}`) {
				t.Errorf("settings: %s", shown)
			}

			application(t, databaseURL, "set", "shop", "--quotas=pending_alarms=none,sets_per_second=2")
			eventually(t, "the quota of sets holds", func() bool {
				for i := range 5 {
					if status, code := set(fmt.Sprint("fast", i), "1h"); code == clock.CodeQuotaSets {
						return status == http.StatusTooManyRequests
					}
				}
				return false
			})
			application(t, databaseURL, "set", "shop", "--unset=quotas")
			out, code := typed(t, []string{"CLOCKD_DATABASE_URL=" + databaseURL}, "application", "set", "shop", "--quotas=sets_per_second=0")
			if code != exitUsage || !strings.Contains(out, "quotas.sets_per_second") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}
