package clockhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/stats"
)

// fixedStats has an hour whose last two steps are filled, and a day that is not known yet.
type fixedStats struct{}

func (fixedStats) Last(_ context.Context, of stats.Range) (stats.Joined, error) {
	if of == stats.Day {
		return stats.Joined{}, nil
	}
	steps := make([]stats.Step, of.Steps)
	for i := range 2 {
		figures := stats.Figures{Sets: 3, Cancels: 2, Refused: 1, Rings: 10, Failed: 4,
			Lateness: stats.Sketch{Buckets: []stats.Bucket{{Index: 0, Count: 10}}, Max: 900 * time.Microsecond}}
		steps[len(steps)-1-i].Total = figures
		steps[len(steps)-1-i].Applications = map[string]*stats.Figures{"shop": &figures,
			fmt.Sprint("idle-", i): {Sets: 1}}
	}
	return stats.Joined{Steps: steps, Start: 1_800_000_000_000, Nodes: []string{"a", "b"},
		Missing: []stats.Missing{{Reason: "away"}, {Node: "c", Reason: "older"}}}, nil
}

type statsResponse struct {
	Range, Start string
	Application  *string
	Nodes        []string
	Missing      []struct{ Node, Reason *string }
	StepSeconds  int        `json:"step_seconds"`
	Sets, Rings  []int      //
	FailedTries  []int      `json:"failed_tries"`
	LatenessP99  []*float64 `json:"lateness_p99"`
	LatenessMax  []*float64 `json:"lateness_max"`
	Applications []struct {
		Application string
		Sets, Rings int
	}
}

func TestStatsHaveANumberForEachStep(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.deps.Stats = fixedStats{} })
	for query, sets := range map[string]int{"": 3, "?range=hour&application=shop": 3, "?application=idle-0": 1, "?application=unknown": 0} {
		var got statsResponse
		if err := json.Unmarshal(h.expect(200, "", "GET", "/v1/stats"+query, "").body, &got); err != nil {
			t.Fatal(err)
		}
		last := len(got.Sets) - 1
		if last != 719 || len(got.Rings) != 720 || got.StepSeconds != 5 || got.Range != "hour" ||
			got.Start != "2027-01-15T08:00:00.000Z" || got.Sets[last] != sets || got.Sets[0] != 0 {
			t.Errorf("%s: %+v", query, got)
		}
		if sets == 3 &&
			(got.Rings[last] != 10 || got.FailedTries[last] != 4 || *got.LatenessMax[last] != .001 ||
				got.LatenessP99[0] != nil) {
			t.Errorf("%s: the last step has %d rings, %d failed tries", query, got.Rings[last], got.FailedTries[last])
		}
		if len(got.Nodes) != 2 || len(got.Missing) != 2 || got.Missing[0].Node != nil ||
			*got.Missing[0].Reason != "away" || *got.Missing[1].Node != "c" {
			t.Errorf("%s: nodes %v without %v", query, got.Nodes, got.Missing)
		}
		if (got.Application != nil) != strings.Contains(query, "application") {
			t.Errorf("%s: application %v", query, got.Application)
		}
		if len(got.Applications) != 3 || got.Applications[0].Application != "shop" || got.Applications[0].Sets != 6 ||
			got.Applications[1].Application != "idle-0" {
			t.Errorf("%s: applications %+v", query, got.Applications)
		}
	}
}

func TestStatsRefuseWhatTheyDoNotHave(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.deps.Stats = fixedStats{} })
	h.expect(422, clock.CodeInvalidValue, "GET", "/v1/stats?range=week", "")
	h.expect(422, codeUnknownParameter, "GET", "/v1/stats?from=1", "")
	h.expect(422, codeDuplicateField, "GET", "/v1/stats?range=day&range=hour", "")
	if r := h.do("GET", "/v1/stats?application=a%20b", ""); r.status != 422 || r.field("field") != "application" {
		t.Errorf("status %d, field %v", r.status, r.field("field"))
	}
	h.expect(503, clock.CodeUnavailable, "GET", "/v1/stats?range=day", "")
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/stats", "")
}
