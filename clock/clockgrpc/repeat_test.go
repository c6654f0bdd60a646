package clockgrpc_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestRepeatingAlarmsShowTheRuleThatASetAccepts(t *testing.T) {
	t.Parallel()
	s := start(t)
	anchor := timestamppb.New(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	until := timestamppb.New(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC))
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for name, rule := range map[string]*clockdv1.Repeat{
			"cron": {
				Cron: "30 2 * * *", TimeZone: "Europe/Berlin", From: anchor, Until: until, Times: 500,
				SkipDates: []string{"2030-12-25", "2030-12-26"},
				Jitter:    durationpb.New(time.Minute), LatestAfter: durationpb.New(time.Hour),
				Missed: clockdv1.Missed_MISSED_ALL, MissedLimit: 7, MissedWindow: durationpb.New(26 * time.Hour),
				PauseAfter: 3, Overlap: clockdv1.Overlap_OVERLAP_QUEUE_ONE,
				Dst: clockdv1.Dst_DST_RING_ONCE,
			},
			"every": {
				Every: durationpb.New(90 * time.Minute), Anchor: anchor, Missed: clockdv1.Missed_MISSED_SKIP,
				Overlap: clockdv1.Overlap_OVERLAP_SKIP,
			},
		} {
			spec := &clockdv1.AlarmSpec{BusinessId: id + name, Ring: &clockdv1.AlarmSpec_Repeat{Repeat: rule}}
			set := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
			if a := set.Alarm; !set.Created || !proto.Equal(a.Repeat, rule) || a.Occurrence.GetNumber() != 1 ||
				len(a.NextOccurrences) != 3 ||
				!proto.Equal(a.NextOccurrences[0], a.Occurrence.At) ||
				!proto.Equal(a.NextOccurrences[1], a.Occurrence.NextAt) {
				t.Errorf("%s: %v", name, set)
			}
			again := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
			got := must(t, c, "Get", &clockdv1.GetRequest{Application: "shop", BusinessId: id + name},
				&clockdv1.GetResponse{})
			if again.Created || again.Alarm.Generation != 1 || !proto.Equal(got.Alarm, set.Alarm) {
				t.Errorf("%s: a repeated set\n%v\nand a get\n%v", name, again, got)
			}
			next := must(t, c, "Occurrences",
				&clockdv1.OccurrencesRequest{Application: "shop", BusinessId: id + name, Count: 4},
				&clockdv1.OccurrencesResponse{})
			if len(next.Occurrences) != 4 || next.TimeZoneData == "" || next.Occurrences[3].Number != 4 ||
				!proto.Equal(next.Occurrences[2].At, set.Alarm.NextOccurrences[2]) ||
				!proto.Equal(next.Occurrences[0].RingAt, set.Alarm.RingAt) || next.Occurrences[0].Local == "" {
				t.Errorf("%s: %v", name, next)
			}
		}
	})
}

// Each fault has the code and the field that the HTTP interface has for it.
func TestFaultsOfRulesAreRefusedWithTheirField(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for _, fault := range []struct {
			code, field string
			rule        *clockdv1.Repeat
		}{
			{"invalid_value", "repeat.cron", &clockdv1.Repeat{}},
			{"invalid_value", "repeat.cron", &clockdv1.Repeat{Cron: "0 0 31 2 *"}},
			{"invalid_value", "repeat.time_zone", &clockdv1.Repeat{Cron: "@daily", TimeZone: "Mars/Olympus"}},
			{"invalid_value", "repeat.every", &clockdv1.Repeat{Every: durationpb.New(time.Millisecond)}},
			{"out_of_range", "repeat.jitter",
				&clockdv1.Repeat{Cron: "@daily", Jitter: durationpb.New(-time.Nanosecond)}},
			{"out_of_range", "repeat.anchor",
				&clockdv1.Repeat{Every: durationpb.New(time.Hour), Anchor: timestamppb.New(time.UnixMilli(-1))}},
			{"out_of_range", "repeat.until",
				&clockdv1.Repeat{Cron: "@daily", Until: timestamppb.New(time.UnixMilli(1))}},
			{"invalid_value", "repeat.times", &clockdv1.Repeat{Cron: "@daily", Times: -1}},
			{"invalid_value", "repeat.missed", &clockdv1.Repeat{Cron: "@daily", Missed: 9}},
			{"invalid_value", "repeat.overlap", &clockdv1.Repeat{Cron: "@daily", Overlap: 9}},
			{"invalid_value", "repeat.dst", &clockdv1.Repeat{Cron: "@daily", Dst: 9}},
		} {
			spec := &clockdv1.AlarmSpec{BusinessId: id, Ring: &clockdv1.AlarmSpec_Repeat{Repeat: fault.rule}}
			f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
				&clockdv1.SetResponse{})
			if f == nil || f.problem.GetCode() != fault.code || f.problem.GetField() != fault.field {
				t.Errorf("%v: %v, want %s of %s", fault.rule, f, fault.code, fault.field)
			}
		}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: alarm(id, time.Hour)},
			&clockdv1.SetResponse{})
		for want, request := range map[string]*clockdv1.OccurrencesRequest{
			"rings_once":    {Application: "shop", BusinessId: id},
			"unknown_alarm": {Application: "shop", BusinessId: "none"},
			"out_of_range":  {Application: "shop", BusinessId: id, Count: 1001},
		} {
			if f := c.call(t.Context(), "Occurrences", request, &clockdv1.OccurrencesResponse{}); f == nil ||
				f.problem.GetCode() != want {
				t.Errorf("%v: %v, want %s", request, f, want)
			}
		}
	})
}

func TestRingsOfARepeatingAlarmCarryTheirOccurrence(t *testing.T) {
	t.Parallel()
	s := start(t)
	in := s.subscribe(t.Context(), s.grpc())
	spec := &clockdv1.AlarmSpec{BusinessId: "tick",
		Ring: &clockdv1.AlarmSpec_Repeat{Repeat: &clockdv1.Repeat{Every: durationpb.New(time.Second), Times: 2,
			Missed: clockdv1.Missed_MISSED_ALL}}}
	set := must(t, s.callers()[0], "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
		&clockdv1.SetResponse{}).Alarm
	var rings []*clockdv1.Ring
	for len(rings) < 2 {
		rings = append(rings, in.next(t)...)
	}
	for i, r := range rings {
		if r.Occurrence.GetNumber() != int64(i+1) || !proto.Equal(r.Occurrence.At, set.NextOccurrences[i]) ||
			!proto.Equal(r.RingAt, r.Occurrence.At) || i == 0 && !proto.Equal(r.Occurrence.NextAt, set.NextOccurrences[1]) ||
			i == 1 && !proto.Equal(r.Occurrence.PreviousAt, set.NextOccurrences[0]) || i == 0 != (r.Occurrence.PreviousAt == nil) ||
			i == 1 != (r.Occurrence.NextAt == nil) {
			t.Errorf("ring %d of %v: %v", i+1, set.NextOccurrences, r)
		}
	}
}

func TestLocalTimesShowTheirInstant(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		spec := &clockdv1.AlarmSpec{
			BusinessId: id, Ring: &clockdv1.AlarmSpec_LocalRingAt{LocalRingAt: "2027-03-28T02:30"},
			TimeZone: "Europe/Berlin",
		}
		for range 2 {
			a := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
				&clockdv1.SetResponse{}).Alarm
			if a.Generation != 1 || a.LocalRingAt != "2027-03-28T02:30:00" || a.TimeZone != "Europe/Berlin" ||
				!a.RingAt.AsTime().Equal(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)) {
				t.Errorf("the alarm is %v", a)
			}
		}
		for _, fault := range []struct {
			code, field string
			spec        *clockdv1.AlarmSpec
		}{
			{"invalid_value", "local_ring_at",
				&clockdv1.AlarmSpec{Ring: &clockdv1.AlarmSpec_LocalRingAt{LocalRingAt: "2027-03-28"},
					TimeZone: "Europe/Berlin"}},
			{"invalid_value", "time_zone",
				&clockdv1.AlarmSpec{Ring: &clockdv1.AlarmSpec_LocalRingAt{LocalRingAt: "2027-03-28T02:30:00"}}},
			{"ambiguous", "time_zone",
				&clockdv1.AlarmSpec{Ring: &clockdv1.AlarmSpec_Delay{Delay: durationpb.New(time.Hour)},
					TimeZone: "Europe/Berlin"}},
		} {
			fault.spec.BusinessId = id
			f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "shop", Alarm: fault.spec},
				&clockdv1.SetResponse{})
			if f == nil || f.problem.GetCode() != fault.code || f.problem.GetField() != fault.field {
				t.Errorf("%v: %v, want %s of %s", fault.spec, f, fault.code, fault.field)
			}
		}
	})
}
