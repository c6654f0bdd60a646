package client_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

func TestRepeatingAlarmShowsTheRuleThatWasSet(t *testing.T) {
	t.Parallel()
	c := dial(t, serverURL)
	anchor := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for id, rule := range map[string]client.Repeat{
		"cron": {
			Cron: "30 2 * * *", TimeZone: "Europe/Berlin", From: anchor.AddDate(1, 0, 0), Until: anchor.AddDate(300, 0, 0),
			Times: 500, SkipDates: []string{"2030-12-25", "2030-12-26"},
			Jitter: time.Minute, LatestAfter: time.Hour,
			Missed: client.MissedAll, MissedLimit: 7, MissedWindow: 26 * time.Hour, Overlap: client.OverlapQueueOne,
			PauseAfter: 3, DST: "ring_once",
		},
		"every": {Every: 90 * time.Minute, Anchor: anchor, Missed: client.MissedOnce, Overlap: client.OverlapSkip},
	} {
		for range 2 {
			a, err := c.Set(t.Context(), "repeats", id, client.Set{Repeat: &rule})
			if err != nil {
				t.Fatal(err)
			}
			if a.Repeat == nil || !reflect.DeepEqual(*a.Repeat, rule) || a.Generation != 1 || a.Occurrence == nil ||
				a.Occurrence.Number != 1 || len(a.NextOccurrences) != 3 ||
				!a.NextOccurrences[0].Equal(a.Occurrence.At) || !a.NextOccurrences[1].Equal(a.Occurrence.NextAt) {
				t.Errorf("%s: rule %+v, occurrence %+v, %s", id, a.Repeat, a.Occurrence, a.Raw)
			}
		}
		next, err := c.Occurrences(t.Context(), "repeats", id, 4)
		if err != nil || len(next.List) != 4 || next.List[3].Number != 4 || next.TimeZoneData == "" || next.Sentence == "" ||
			next.List[0].Local == "" || next.List[0].RingAt.Before(next.List[0].At) {
			t.Errorf("%s: %+v, %v", id, next, err)
		}
	}
	if _, err := c.Set(t.Context(), "repeats", "once", client.Set{When: client.After(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Occurrences(t.Context(), "repeats", "once", 0)
	if failed := refused(t, err, client.CodeRingsOnce); failed.Alarm == nil {
		t.Errorf("occurrences of an alarm that rings once: %v", err)
	}
	_, err = c.Set(t.Context(), "repeats", "never", client.Set{Repeat: &client.Repeat{Cron: "0 0 31 2 *"}})
	if failed := refused(t, err, client.CodeInvalidValue); failed.Field != "repeat.cron" {
		t.Errorf("an expression that never occurs: %v", err)
	}
}

func TestLocalTimeShowsItsInstant(t *testing.T) {
	t.Parallel()
	c := dial(t, serverURL)
	for range 2 {
		a, err := c.Set(t.Context(), "repeats", "local",
			client.Set{When: client.AtLocal("2027-10-31T02:30", "Europe/Berlin")})
		if err != nil {
			t.Fatal(err)
		}
		if a.LocalRingAt != "2027-10-31T02:30:00" || a.TimeZone != "Europe/Berlin" ||
			!a.RingAt.Equal(time.Date(2027, 10, 31, 0, 30, 0, 0, time.UTC)) || a.Generation != 1 {
			t.Errorf("the alarm is %s", a.Raw)
		}
	}
	_, err := c.Set(t.Context(), "repeats", "local",
		client.Set{When: client.AtLocal("2027-10-31T02:30", "Mars/Olympus")})
	if failed := refused(t, err, client.CodeInvalidValue); failed.Field != "time_zone" {
		t.Errorf("an unknown time zone: %v", err)
	}
}

func TestBatchesAndStreamsTakeLocalTimesAndRules(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	changes := []client.Change{
		{BusinessID: "local", Set: &client.Set{When: client.AtLocal("2027-03-28T02:30", "Europe/Berlin")}},
		{BusinessID: "cron", Set: &client.Set{Repeat: &client.Repeat{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}}},
		{BusinessID: "unknown", Set: &client.Set{When: client.AtLocal("2027-03-28T02:30", "Mars/Olympus")}},
	}
	batch, err := c.Batch(ctx, app, changes)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := apply(ctx, c, app, slices.Values(changes))
	if err != nil {
		t.Fatal(err)
	}
	for name, results := range map[string][]client.Result{"batch": batch, "stream": stream} {
		want := map[string]int{"batch": 201, "stream": 200}[name] // the stream repeats the sets
		if len(results) != 3 || results[0].Status != want || results[1].Status != want || results[1].Generation != 1 {
			t.Fatalf("%s: %+v", name, results)
		}
		if failed := refused(t, results[2].Err(), client.CodeInvalidValue); failed.Field != "time_zone" {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	a, err := c.Get(ctx, app, "local")
	if err != nil || a.LocalRingAt != "2027-03-28T02:30:00" ||
		!a.RingAt.Equal(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("the alarm is %+v, %v", a, err)
	}
}

func TestRingsOfARepeatingAlarmCarryTheirOccurrence(t *testing.T) {
	t.Parallel()
	c := dial(t, serverURL)
	if _, err := c.Set(t.Context(), "ticks", "tick", client.Set{Repeat: &client.Repeat{Every: time.Second, Times: 2, Missed: client.MissedAll}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var rings []client.Ring
	err := c.Consume(ctx, "ticks", client.Consumer{Handle: func(_ context.Context, r *client.Ring) client.Answer {
		if rings = append(rings, *r); len(rings) == 2 {
			cancel()
		}
		return client.Answer{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rings {
		if r.Occurrence == nil || r.Occurrence.Number != int64(i+1) || !r.Occurrence.At.Equal(r.RingAt) ||
			i == 0 != r.Occurrence.PreviousAt.IsZero() || i == 1 != r.Occurrence.NextAt.IsZero() {
			t.Errorf("ring %d: %+v of occurrence %+v", i, r, r.Occurrence)
		}
	}
	if first, second := rings[0].Occurrence, rings[1].Occurrence; !first.NextAt.Equal(second.At) || !second.PreviousAt.Equal(first.At) {
		t.Errorf("after %+v comes %+v", first, second)
	}
	if apart := rings[1].Occurrence.At.Sub(rings[0].Occurrence.At); apart != time.Second ||
		rings[0].MessageID == rings[1].MessageID {
		t.Errorf("two rings %s apart, %s and %s", apart, rings[0].MessageID, rings[1].MessageID)
	}
}

// The report is made each night at half past two in Berlin, also when the clocks change.
func ExampleRepeat() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	alarm, err := c.Set(ctx, "office", "nightly-report", client.Set{
		Repeat:  &client.Repeat{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", LatestAfter: 4 * time.Hour},
		Payload: client.Text("make the report"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(alarm.State, alarm.Repeat.Cron, alarm.Repeat.TimeZone, len(alarm.NextOccurrences))
	// Output:
	// scheduled 30 2 * * * Europe/Berlin 3
}
