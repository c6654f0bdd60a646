package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

func TestStatsCountSetsAndRings(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	rings := p.listen("shop")
	for i := range 3 {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("order-", i)),
			map[string]any{"delay": "0s"})
	}
	eventually(t, "the alarms ring", func() bool { return rings.number() == 3 })
	var got struct {
		Sets, Rings  []int
		LatenessP99  []*float64 `json:"lateness_p99"`
		Applications []struct{ Application string }
	}
	sum := func(column []int) (n int) {
		for _, v := range column {
			n += v
		}
		return n
	}
	eventually(t, "the steps end", func() bool {
		status, _, err := p.decode(http.MethodGet, "/v1/stats", nil, &got)
		return err == nil && status == http.StatusOK && sum(got.Sets) == 3 && sum(got.Rings) == 3
	})
	if len(got.Applications) != 1 || got.Applications[0].Application != "shop" ||
		!slices.ContainsFunc(got.LatenessP99, func(v *float64) bool { return v != nil }) {
		t.Errorf("applications %v, lateness %v", got.Applications, got.LatenessP99)
	}
}
