package repeat

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMissedPolicies(t *testing.T) {
	numbers := func(list []Occurrence) (n []int64) {
		for _, o := range list {
			n = append(n, o.Number)
		}
		return n
	}
	first := int64(1000)
	for _, c := range []struct {
		name    string
		spec    Spec
		now     int64
		ring    []int64
		missed  int64
		outside int64
		next    int64 // 0: last
	}{
		{"not due", Spec{Every: 1000}, 999, nil, 0, 0, 1},
		{"on time", Spec{Every: 1000}, 1000, []int64{1}, 0, 0, 2},
		{"once", Spec{Every: 1000}, 5999, []int64{5}, 4, 0, 6},
		{"once with cron", Spec{Cron: "* * * * * *"}, 5999, []int64{5}, 4, 0, 6},
		{"skip, in time", Spec{Every: 1000, Missed: MissedSkip}, 5200, []int64{5}, 4, 0, 6},
		{"skip, late", Spec{Every: 1000, Missed: MissedSkip}, 5201, nil, 5, 0, 6},
		{"all", Spec{Every: 1000, Missed: MissedAll}, 3000, []int64{1, 2, 3}, 0, 0, 4},
		{"all, bounded", Spec{Every: 1000, Missed: MissedAll, MissedLimit: 2}, 5000, []int64{4, 5}, 3, 0, 6},
		{"window of once", Spec{Every: 5000, Anchor: &first, MissedWindow: 12_000}, 23_999, []int64{5}, 1, 3, 6},
		{"at the begin of the window", Spec{Every: 5000, Anchor: &first, MissedWindow: 12_999}, 23_999, []int64{5}, 2, 2, 6},
		{"1 ms before the window", Spec{Every: 5000, Anchor: &first, MissedWindow: 12_998}, 23_999, []int64{5}, 1, 3, 6},
		{"none in the window", Spec{Every: 20_000, MissedWindow: 10_000}, 11_001, nil, 0, 1, 2},
		{"window of a cron expression", Spec{Cron: "1/5 * * * * *", MissedWindow: 12_000}, 23_999, []int64{5}, 1, 3, 6},
		{"window of all", Spec{Every: 5000, Anchor: &first, Missed: MissedAll, MissedWindow: 12_000}, 23_999, []int64{4, 5}, 0, 3, 6},
		{"window and limit of all", Spec{Every: 5000, Anchor: &first, Missed: MissedAll, MissedLimit: 1, MissedWindow: 12_000}, 23_999, []int64{5}, 1, 3, 6},
		{"the last one outside", Spec{Every: 1000, Times: 4, MissedWindow: 10_000}, 15_000, nil, 0, 4, 0},
		{"until", Spec{Every: 1000, Until: 3500}, 9000, []int64{3}, 2, 0, 0},
		{"times", Spec{Every: 1000, Times: 4}, 9000, []int64{4}, 3, 0, 0},
		{"a long outage of a period", Spec{Every: 1000}, 1e12, []int64{1e9}, 1e9 - 1, 0, 1e9 + 1},
		{"a long outage with a window", Spec{Every: 1000, MissedWindow: 10_000}, 1e12, []int64{1e9}, 10, 1e9 - 11, 1e9 + 1},
	} {
		r := mustParse(t, c.spec)
		d := r.Due(Ringer{"shop", "4711", 1}, Occurrence{first, 1}, c.now, 200)
		if !slices.Equal(numbers(d.Ring), c.ring) || d.Missed != c.missed || d.Outside != c.outside ||
			d.Last != (c.next == 0) || d.Next.Number != c.next || d.More {
			t.Errorf("%s: got %+v", c.name, d)
		}
	}
}

// TestDueDecidesEachOccurrenceOnce compares Due, called at random instants, with the list of all occurrences.
func TestDueDecidesEachOccurrenceOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			Jitter: rapid.Int64Range(0, 5000).Draw(t, "jitter"),
			Times:  rapid.Int64Range(0, 60).Draw(t, "times"),
			Missed: rapid.SampledFrom([]Missed{MissedOnce, MissedSkip, MissedAll}).Draw(t, "missed"),
		}
		if spec.Missed == MissedAll {
			spec.MissedLimit = rapid.IntRange(1, 5).Draw(t, "limit")
		}
		if spec.Missed != MissedSkip {
			spec.MissedWindow = rapid.SampledFrom([]int64{0, 10_000, 14_321, 40_000}).Draw(t, "window")
		}
		if spec.Cron = rapid.SampledFrom([]string{"", "* * * * * *", "0,1,7 * * * * *"}).Draw(t, "cron"); spec.Cron == "" {
			spec.Every = rapid.Int64Range(1000, 7000).Draw(t, "every")
		}
		if rapid.Bool().Draw(t, "has until") {
			spec.Until = rapid.Int64Range(10_000, 120_000).Draw(t, "until")
		}
		r, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		alarm := Ringer{Application: "shop", BusinessID: rapid.String().Draw(t, "id"), Generation: 3}
		o, ok := r.First(0)
		all := r.Occurrences(o, 300)
		decided := 0 // occurrences of all
		for now, ends := int64(0), int64(150_000); ok &&
			now < ends; now += rapid.Int64Range(1, 20_000).Draw(t, "wait") {
			d := r.Due(alarm, o, now, 500)
			due := 0
			for decided+due < len(all) && r.RingAt(alarm, all[decided+due]) <= now {
				due++
			}
			outside := 0
			for spec.MissedWindow > 0 && outside < due && now-r.RingAt(alarm, all[decided+outside]) > spec.MissedWindow {
				outside++
			}
			keep := min(due-outside, max(1, spec.MissedLimit))
			if spec.Missed == MissedSkip && due > 0 && now-r.RingAt(alarm, all[decided+due-1]) > 500 {
				keep = 0
			}
			if want := all[decided+due-keep : decided+due]; !slices.Equal(d.Ring, want) ||
				d.Missed != int64(due-keep-outside) || d.Outside != int64(outside) {
				t.Fatalf("at %d: got %+v, want the rings %v, %d missed and %d outside", now, d, want, due-keep-outside, outside)
			}
			decided += due
			if d.Last != (decided == len(all)) || !d.Last && d.Next != all[decided] {
				t.Fatalf("at %d: got %+v, want the next %v", now, d, all[decided:])
			}
			o, ok = d.Next, !d.Last
		}
	})
}

func TestDueAfterAVeryLongOutageGoesOnInSteps(t *testing.T) {
	const due = 2*maxScan + 1
	decide := func(window int64) (missed, outside int64) {
		r := mustParse(t, Spec{Cron: "* * * * * *", Missed: MissedAll, MissedLimit: 3, MissedWindow: window})
		o := Occurrence{1000, 1}
		for range 5 {
			d := r.Due(Ringer{}, o, due*1000, 0)
			missed, outside = missed+d.Missed, outside+d.Outside
			if !d.More {
				if !slices.Equal(d.Ring, []Occurrence{{(due - 2) * 1000, due - 2}, {(due - 1) * 1000, due - 1}, {due * 1000, due}}) {
					t.Errorf("the last step is %+v", d)
				}
				return missed, outside
			}
			if len(d.Ring) > 0 || d.Next.At > due*1000 || d.Next.At <= o.At {
				t.Fatalf("got %+v after %v", d, o)
			}
			o = d.Next
		}
		t.Error("five steps did not end")
		return missed, outside
	}
	if missed, outside := decide(0); missed != due-3 || outside != 0 {
		t.Errorf("%d missed, %d outside", missed, outside)
	}
	if missed, outside := decide(10_000); missed != 11-3 || outside != due-11 {
		t.Errorf("with a window of 10 s: %d missed, %d outside", missed, outside)
	}
}

func TestJitterIsBetweenItsOccurrenceAndTheNext(t *testing.T) {
	r := mustParse(t, Spec{Cron: "0,1,30 * * * * *", Jitter: 10_000, Times: 200})
	first, _ := r.First(0)
	values := map[int64]bool{}
	for list := r.Occurrences(first, 200); len(list) > 1; list = list[1:] {
		at := r.RingAt(Ringer{"shop", "7", 2}, list[0])
		if at < list[0].At || at >= list[1].At || at > list[0].At+10_000 {
			t.Errorf("%v rings at %d, the next occurrence is %v", list[0], at, list[1])
		}
		if at != r.RingAt(Ringer{"shop", "7", 2}, list[0]) {
			t.Errorf("%v rings at two instants", list[0])
		}
		values[at-list[0].At] = true
	}
	if len(values) < 150 {
		t.Errorf("only %d different delays", len(values))
	}
	if at := r.RingAt(Ringer{"shop", "7", 2}, first); at == r.RingAt(Ringer{"shop", "8", 2}, first) ||
		at == r.RingAt(Ringer{"shop", "7", 3}, first) {
		t.Error("the jitter does not depend on the alarm and its generation")
	}
	if at := r.RingAt(Ringer{"shop", "7", 2}, Occurrence{30_000, 2}); at != 35_196 {
		t.Errorf("the ring moved to %d: a new version must draw the same jitter", at)
	}
}

// TestOverlappedDecidesEachOccurrenceOnce compares Overlapped with the list of all occurrences.
func TestOverlappedDecidesEachOccurrenceOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlap := rapid.SampledFrom([]Overlap{"", OverlapSkip, OverlapQueueOne}).Draw(t, "overlap")
		spec := Spec{Every: 1000, Overlap: overlap, Times: rapid.Int64Range(0, 9).Draw(t, "times"),
			Jitter: rapid.Int64Range(0, 900).Draw(t, "jitter")}
		if rapid.Bool().Draw(t, "cron") {
			spec.Every, spec.Cron = 0, "* * * * * *"
		}
		r, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		alarm := Ringer{Application: "shop", Generation: 1}
		first, _ := r.First(0)
		all := r.Occurrences(first, 40)
		now := rapid.Int64Range(0, 20_000).Draw(t, "now")
		due := 0
		for due < len(all) && r.RingAt(alarm, all[due]) <= now {
			due++
		}
		got := r.Overlapped(alarm, first, now)
		want := Overlapped{Skipped: int64(due), Last: due == len(all)}
		if due < len(all) {
			want.Next = all[due]
		} else {
			want.Latest = all[due-1]
		}
		if overlap == OverlapQueueOne && due > 0 {
			want.Ring, want.Skipped = first, int64(due-1)
		}
		if got != want {
			t.Fatalf("at %d: got %+v, want %+v", now, got, want)
		}
	})
}

func TestOverlappedEndsAfterManyOccurrences(t *testing.T) {
	r := mustParse(t, Spec{Cron: "* * * * * *"})
	d := r.Overlapped(Ringer{}, Occurrence{1000, 1}, 3*maxScan*1000)
	if d.Skipped != maxScan-1 || d.Next != (Occurrence{maxScan * 1000, maxScan}) || d.Last {
		t.Errorf("got %+v", d)
	}
}
