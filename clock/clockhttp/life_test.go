package clockhttp

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestEventsOfAnAlarmAreListed(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/a%2Fevents", `{"delay":"1h"}`)
	h.store.alter(clock.Key{Application: "shop", BusinessID: "a/events"}, func(a *clock.Alarm) {
		a.CreateTime = 1_800_000_000_000
		a.Attempts = []clock.Attempt{{Generation: 1, RingNo: 1, Time: 1_800_000_001_000, Outcome: clock.Nacked,
			Error: "full"}}
	})
	body := string(h.expect(200, "", "GET", alarms+"/a%2Fevents/events", "").body)
	const want = `"events":[{"at":"2027-01-15T08:00:00.000Z","event":"created","generation":1,"ring_no":null,"detail":null,"by":null},` +
		`{"at":"2027-01-15T08:00:01.000Z","event":"tried","generation":1,"ring_no":1,"detail":"nacked: full","by":null}]}`
	if !strings.Contains(body, want) || !strings.HasPrefix(body, `{"state":"scheduled","next_try_time":"`) {
		t.Errorf("got %s", body)
	}
	h.expect(404, clock.CodeUnknownAlarm, "GET", alarms+"/b/events", "")
}
