package repeat

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCountsAreThoseOfTheOccurrences compares the counts of steps with the occurrences of the rule, one by one.
func TestCountsAreThoseOfTheOccurrences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Times: rapid.SampledFrom([]int64{0, 0, 1, 5, 200, MaxTimes}).Draw(t, "times")}
		if rapid.Bool().Draw(t, "cron") {
			spec.Cron = rapid.SampledFrom([]string{"*/7 * * * *", "30 2 * * *", "*/20 * * * * *", "0 8-18 * * mon-fri"}).Draw(t, "expression")
			spec.TimeZone = "Europe/Berlin"
		} else {
			spec.Every = rapid.OneOf(rapid.Int64Range(1000, 3*3600_000), rapid.Int64Range(3600_000, MaxEvery)).Draw(t, "every")
			anchor := rapid.Int64Range(0, 2_000_000_000_000).Draw(t, "anchor")
			spec.Anchor = &anchor
		}
		if rapid.Bool().Draw(t, "with jitter") {
			spec.Jitter = rapid.Int64Range(1, 2*3600_000).Draw(t, "jitter")
		}
		begin := rapid.Int64Range(1_774_700_000_000, 1_774_800_000_000).Draw(t, "begin") // a gap of the local clock is near
		if rapid.Bool().Draw(t, "with an end") {
			spec.Until = begin + rapid.Int64Range(0, 40*3600_000).Draw(t, "until")
		}
		rule, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		first, ok := rule.First(begin)
		if !ok {
			return
		}
		alarm := Ringer{Application: "shop", BusinessID: "a", Generation: 3}
		steps := Steps{
			From:   first.At + rapid.Int64Range(-7200_000, 40*3600_000).Draw(t, "from"),
			Length: rapid.SampledFrom([]int64{1000, 60_000, 3600_000}).Draw(t, "length"),
			Counts: make([]int64, rapid.IntRange(1, 100).Draw(t, "steps")),
		}
		after := rule.RingAt(alarm, first) + rapid.Int64Range(-7200_000, 7200_000).Draw(t, "later")
		want := make([]int64, len(steps.Counts))
		for o, ok := first, true; ok && o.At < steps.Until(); o, ok = rule.Following(o) {
			if at := rule.RingAt(alarm, o); at > after && at >= steps.From && at < steps.Until() {
				want[(at-steps.From)/steps.Length]++
			}
		}
		_, until, complete := rule.CountRings(alarm, first, after, &steps, 1_000_000)
		if !complete || until != steps.Until() || !slices.Equal(steps.Counts, want) {
			t.Fatalf("counted %v until %d, complete %v; want %v", steps.Counts, until, complete, want)
		}
	})
}

func TestCountsHaveABound(t *testing.T) {
	t.Parallel()
	rule, err := Parse(Spec{Cron: "* * * * * *"})
	if err != nil {
		t.Fatal(err)
	}
	const begin = 1_800_000_000_000
	steps := Steps{From: begin, Length: 1000, Counts: make([]int64, 10)}
	read, until, complete := rule.CountRings(Ringer{}, Occurrence{At: begin - 3600_000, Number: 1}, begin+1999, &steps, 25)
	want := []int64{0, 0, 1, 1, 1, 1, 1, 0, 0, 0}
	if read != 25 || complete || until != begin+6000 || !slices.Equal(steps.Counts, want) {
		t.Errorf("read %d, complete %v, until %d: %v", read, complete, until, steps.Counts)
	}
	limited, err := Parse(Spec{Cron: "* * * * * *", Times: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	steps.Counts = make([]int64, 10)
	_, until, complete = limited.CountRings(Ringer{}, Occurrence{At: begin - 3600_000, Number: 1}, begin-1, &steps, 200)
	if complete || until != steps.Until() || steps.Counts[0] != 1 || steps.Counts[9] != 1 {
		t.Errorf("with a number of times: complete %v, until %d: %v", complete, until, steps.Counts)
	}
	every, err := Parse(Spec{Every: 1000})
	if err != nil {
		t.Fatal(err)
	}
	steps = Steps{From: begin, Length: 86_400_000, Counts: make([]int64, 1000)}
	read, _, complete = every.CountRings(Ringer{}, Occurrence{At: begin, Number: 1}, begin, &steps, 4)
	if read != 1 || !complete || steps.Counts[0] != 86_399 || steps.Counts[999] != 86_400 {
		t.Errorf("read %d, complete %v, %d occurrences on the first day, %d on the last", read, complete, steps.Counts[0], steps.Counts[999])
	}
}

func BenchmarkCountRings(b *testing.B) {
	for name, spec := range map[string]Spec{
		"minutes": {Cron: "* * * * *", TimeZone: "Europe/Berlin"}, "days": {Cron: "30 2 * * *", TimeZone: "Europe/Berlin"},
		"jitter": {Cron: "* * * * *", TimeZone: "Europe/Berlin", Jitter: 30_000}, "period": {Every: 60_000},
	} {
		rule, err := Parse(spec)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			steps := Steps{From: 1_800_000_000_000, Length: 86_400_000, Counts: make([]int64, 14)}
			sum := 0
			for b.Loop() {
				read, _, _ := rule.CountRings(Ringer{}, Occurrence{At: steps.From, Number: 1}, steps.From, &steps, 1<<30)
				sum += read
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, sum)), "ns/read")
		})
	}
}
