package repeat

import "testing"

func TestBeforeIsTheOccurrenceInFront(t *testing.T) {
	for _, spec := range []Spec{
		{Every: 7000}, {Cron: "* * * * * *"}, {Cron: "* 9 * * *"}, {Cron: "30 2 * * *", TimeZone: "Europe/Berlin"},
		{Cron: "0 * * * *", TimeZone: "Europe/Berlin"}, {Cron: "0,1,7 0-59 0-23 * * *", TimeZone: "Australia/Lord_Howe"},
		{Cron: "0 0 29 2 *"}, {Cron: "30 1,2 25 10 *", TimeZone: "Europe/Berlin"},
	} {
		r := mustParse(t, spec)
		first, _ := r.First(1_774_000_000_000) // 2026-03-20, before a change of the local clock
		if at := r.Before(first); at != 0 {
			t.Errorf("%+v: %d is before the first occurrence", spec, at)
		}
		list := r.Occurrences(first, 300)
		for i := 1; i < len(list); i++ {
			if at := r.Before(list[i]); at != list[i-1].At {
				t.Errorf("%+v: %d is before %d, not %d", spec, at, list[i].At, list[i-1].At)
			}
		}
	}
	limited := mustParse(t, Spec{Cron: "30 2 * * *", From: 1_774_000_000_000})
	if first, _ := limited.First(0); limited.Before(Occurrence{At: first.At, Number: 5}) != 0 {
		t.Error("an occurrence is before from")
	}
}
