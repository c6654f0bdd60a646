package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestChangeComparesAllRounds(t *testing.T) {
	rate := func(rounds ...float64) Figure { return figureOf("set", perSecond, rounds) }
	late := func(rounds ...float64) Figure { return figureOf("set", millis, rounds) }
	for _, test := range []struct {
		name        string
		before, now Figure
		want        string
	}{
		{"more a second", rate(1, 2, 3), rate(4, 5, 6), changeBetter},
		{"fewer a second", rate(4, 5, 6), rate(1, 2, 3), changeWorse},
		{"later", late(1, 2, 3), late(4, 5, 6), changeWorse},
		{"sooner", late(4, 5, 6), late(1, 2, 3), changeBetter},
		{"within the noise", rate(1, 2, 4), rate(4, 5, 6), changeSame},
		{"within the noise below", rate(4, 5, 6), rate(1, 2, 4), changeSame},
		{"one round outside", rate(1, 2, 3), rate(4), changeBetter},
		{"one round inside", rate(2.5), rate(1, 2, 3), changeSame},
		{"one round each", rate(1), rate(100), ""},
		{"no rounds", Figure{Unit: perSecond, Value: 1}, Figure{Unit: perSecond, Value: 2}, ""},
		{"no rounds before", Figure{Unit: perSecond, Value: 1}, rate(2, 3), changeBetter},
		{
			"faster on a faster machine", rate(1, 2, 3).besideAll("bare", samples{2, 4, 6}),
			rate(10, 20, 30).besideAll("bare", samples{20, 40, 60}),
			changeSame,
		},
		{
			"as fast on a slower machine", rate(1, 1).besideAll("bare", samples{4, 4}),
			rate(1, 1).besideAll("bare", samples{2, 2}),
			changeBetter,
		},
		{"another ceiling", rate(1, 1).besideAll("bare", samples{4, 4}), rate(1, 1).besideAll("other", samples{2, 2}),
			changeSame},
		{"a ceiling without rounds", rate(1, 1).beside("bare", 4), rate(1, 1).beside("bare", 5), changeWorse},
		{"no ceiling before", rate(1, 1), rate(2, 2).beside("bare", 5), changeBetter},
	} {
		if got := (pair{before: &test.before, now: &test.now}).change(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestMatchPairsEqualFigures(t *testing.T) {
	before := []Figure{
		{Stage: "a", What: "x", Value: 1, CeilingWhat: "c1"}, {Stage: "a", What: "x", Value: 2, CeilingWhat: "c2"},
		{Stage: "b", What: "x", Value: 3},
		{Stage: "a", What: "old"}, {Stage: "a", What: "renamed", Value: 4, CeilingWhat: "c1"},
		{Stage: "a", What: "unit", Unit: millis},
	}
	now := []Figure{
		{Stage: "b", What: "x", Value: 3}, {Stage: "a", What: "x", Value: 2, CeilingWhat: "c2"},
		{Stage: "a", What: "x", Value: 1, CeilingWhat: "c1"},
		{Stage: "a", What: "new"}, {Stage: "a", What: "renamed", Value: 4, CeilingWhat: "c3"},
		{Stage: "a", What: "unit", Unit: micros},
	}
	pairs, gone, added := match(before, now)
	if len(pairs) != 4 {
		t.Errorf("%d pairs, want 4", len(pairs))
	}
	for _, p := range pairs {
		if p.before.Value != p.now.Value || p.before.What != p.now.What {
			t.Errorf("%+v is compared with %+v", p.now, p.before)
		}
	}
	if len(gone) != 2 || gone[0].What != "old" || len(added) != 2 || added[0].What != "new" {
		t.Errorf("gone %v, added %v", gone, added)
	}
}

func TestComparePrintsChangesAndDifferences(t *testing.T) {
	before := &Report{
		Version: "1", Started: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Database: "MariaDB", Target: "stream",
		Plan: Plan{Herd: 1, Rate: 5},
		Host: Host{Cores: 2, CPU: "x"},
		Figures: []Figure{
			figureOf("herd", perSecond, samples{1000, 1100}).besideAll("bare loop", samples{2000, 2000}),
			{What: "old", Unit: millis}, {What: "zero", Unit: millis},
		},
	}
	now := *before
	now.Version, now.Host, now.Plan = "2", Host{Cores: 4, CPU: "x"}, Plan{Herd: 2, Rate: 5,
		DistributionPending: []int{1}}
	now.Figures = []Figure{
		figureOf("herd", perSecond, samples{1500, 1600}).besideAll("bare loop", samples{2000, 2000}),
		{What: "new", Unit: millis},
		{What: "zero", Unit: millis, Value: 1},
	}
	var out bytes.Buffer
	if err := Compare(&out, before, &now); err != nil {
		t.Fatal(err)
	}
	const want = `against clockd 1, measured 2026-11-21T08:00:00Z
WARNING: not the same host, cores: 4, was 2
WARNING: not the same plan, distribution pending: [1], was nothing
WARNING: not the same plan, herd: 2, was 1

WHAT  BEFORE   NOW      RATIO  OF CEILING BEFORE  NOW   CHANGE
herd  1,050/s  1,550/s  1.48   0.53               0.78  better
zero  0.0 ms   1.0 ms                                   

CHANGE: whether all rounds of one run are better than all rounds of the other. Runs with the same ceiling are compared by their
ratios to it. Blank if neither run has several rounds.
not measured now: old
not measured before: new
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReadReportRefusesOtherFiles(t *testing.T) {
	directory := t.TempDir()
	for name, test := range map[string]struct{ text, want string }{
		"good.json": {`{"version":"1","distribution":[{"alarms":1,"lateness":{"max_us":7,"buckets_us":[[7,1]]}}]}`,
			""},
		"other.json": {`{}`, "other.json is not the JSON of a bench"},
		"text.json":  {`WHAT`, "text.json: invalid character"},
	} {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ReadReport(path)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err == nil {
			if text, err := json.Marshal(r.Distribution[0].Lateness); err != nil ||
				!strings.Contains(test.text, string(text)) {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
	}
	if _, err := ReadReport(filepath.Join(directory, "none.json")); err == nil {
		t.Error("a missing file was read")
	}
}
