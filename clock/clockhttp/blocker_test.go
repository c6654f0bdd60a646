package clockhttp

import (
	"context"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// Reads of alarms show why due alarms wait. Responses to changes do not.
func TestReadsShowWhyDueAlarmsWait(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.deps.Blockers = func(a *clock.Alarm) []clock.Blocker {
			if a.BusinessID != "waits" {
				return nil
			}
			return []clock.Blocker{{Code: clock.BlockedByHold, Target: "amqp", Detail: "no queue"},
				{Code: clock.BlockedByNode, Detail: "d"}}
		}
		su.deps.Search = waitingSearch{su.store}
	})
	const want = `,"blockers":[{"code":"held","target":"amqp","detail":"no queue"},{"code":"node","target":null,"detail":"d"}]`
	for _, id := range []string{"waits", "rings"} {
		if set := h.expect(201, "", "PUT", alarms+"/"+id, `{"delay":"1h"}`); strings.Contains(string(set.body), "blockers") {
			t.Errorf("a set shows %s", set.body)
		}
	}
	for path, lists := range map[string]bool{alarms + "/waits": false, alarms: true, "/v1/search?q=s": true} {
		body := string(h.expect(200, "", "GET", path, "").body)
		if strings.Count(body, want) != 1 || strings.Contains(body, `"blockers":[]`) != lists {
			t.Errorf("GET %s: %s", path, body)
		}
	}
	if body := string(h.expect(200, "", "GET", alarms+"/rings", "").body); !strings.Contains(body, `,"blockers":[],"attempts":[]}`) {
		t.Errorf("%s", body)
	}
}

// waitingSearch finds both alarms of the test.
type waitingSearch struct{ store *memoryStore }

func (s waitingSearch) Find(
	ctx context.Context, _ clock.SearchQuery, take func(*clock.Alarm) bool,
) (more bool, err error) {
	for _, id := range []string{"rings", "waits"} {
		a, err := s.store.Get(ctx, clock.Key{Application: "shop", BusinessID: id})
		if err != nil || !take(a) {
			return true, err
		}
	}
	return false, nil
}
