package clockhttp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

func TestForecastHasANumberForEachStep(t *testing.T) {
	t.Parallel()
	var asked clock.ForecastQuery
	h := start(t, func(su *setup) {
		su.deps.Forecast = func(_ context.Context, q clock.ForecastQuery) (clock.Forecast, clock.Instant, error) {
			asked = q
			return clock.Forecast{Due: []int64{7, 0, 64}, Repeats: []int64{0, 0, 60}, Counted: q.Count, Shards: 24}, 1_800_000_000_000, nil
		}
	})
	want := `{"by":"hour","application":"shop","start":"2027-01-15T08:00:00.000Z","step_seconds":3600,"exact":true,"complete":true,"due":[7,0,64],"repeats":[0,0,60],"applications":[]}`
	if got := string(h.expect(200, "", "GET", "/v1/forecast?by=hour&application=shop", "").body); strings.TrimSpace(got) != want {
		t.Errorf("got %s", got)
	}
	if want := (clock.ForecastQuery{Step: time.Hour, Count: 24, Application: "shop"}); asked != want {
		t.Errorf("asked for %+v", asked)
	}
	if got := string(h.expect(200, "", "GET", "/v1/forecast?count=3", "").body); !strings.Contains(got, `"by":"minute","application":null`) || !strings.Contains(got, `"exact":false`) {
		t.Errorf("got %s", got)
	}
	h.expect(200, "", "GET", "/v1/forecast?applications=20", "")
	if asked.Applications != 20 {
		t.Errorf("asked for %+v", asked)
	}
	for query, code := range map[string]string{
		"applications=21": clock.CodeOutOfRange, "applications=2&application=shop": clock.CodeInvalidValue,
		"by=week": clock.CodeInvalidValue, "count=1001": clock.CodeOutOfRange,
		"application=a%20b": clock.CodeInvalidApplication, "from=1": codeUnknownParameter,
	} {
		h.expect(422, code, "GET", "/v1/forecast?"+query, "")
	}
	tokens := &testTokens{t: t}
	header := tokens.add("reader", access.Reader, "shop")
	restricted := start(t, func(su *setup) {
		su.deps.Access = tokens.watch()
		su.deps.Forecast = func(context.Context, clock.ForecastQuery) (clock.Forecast, clock.Instant, error) {
			return clock.Forecast{Shards: 1, Counted: 1}, 0, nil
		}
	})
	restricted.expect(200, "", "GET", "/v1/forecast?application=shop", "", header)
	restricted.expect(403, clock.CodeForbidden, "GET", "/v1/forecast?application=bank", "", header)
	restricted.expect(422, clock.CodeInvalidValue, "GET", "/v1/forecast", "", header)
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/forecast", "")
}
