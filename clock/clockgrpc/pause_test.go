package clockgrpc_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestPauseAndResumeChangeOneAlarm(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: alarm(id, time.Hour)},
			&clockdv1.SetResponse{})
		for range 2 {
			paused := must(t, c, "Pause",
				&clockdv1.PauseRequest{Application: "shop", BusinessId: id, Generation: proto.Int64(1), Note: "later"},
				&clockdv1.PauseResponse{}).Alarm
			if paused.State != clockdv1.State_STATE_PAUSED || paused.NextTryTime != nil || paused.LastError != "paused: later" {
				t.Errorf("paused: %v", paused)
			}
		}
		if f := c.call(t.Context(), "Resume", &clockdv1.ResumeRequest{Application: "shop", BusinessId: id, Generation: proto.Int64(2)}, &clockdv1.ResumeResponse{}); f == nil || f.code != codes.Aborted {
			t.Errorf("resume of another generation: %v", f)
		}
		resumed := must(t, c, "Resume", &clockdv1.ResumeRequest{Application: "shop", BusinessId: id},
			&clockdv1.ResumeResponse{}).Alarm
		if resumed.State != clockdv1.State_STATE_SCHEDULED || !proto.Equal(resumed.NextTryTime, resumed.RingAt) {
			t.Errorf("resumed: %v", resumed)
		}
		long := &clockdv1.TriggerRequest{Application: "shop", BusinessId: id, Note: strings.Repeat("x", 301)}
		if f := c.call(t.Context(), "Trigger", long, &clockdv1.TriggerResponse{}); f == nil ||
			f.code != codes.InvalidArgument {
			t.Errorf("a long note: %v", f)
		}
		due := must(t, c, "Trigger", &clockdv1.TriggerRequest{Application: "shop", BusinessId: id, Generation: proto.Int64(1)},
			&clockdv1.TriggerResponse{}).Alarm
		if due.Generation != 2 || due.NextTryTime.AsTime().After(resumed.RingAt.AsTime()) || !proto.Equal(due.NextTryTime, due.RingAt) {
			t.Errorf("triggered: %v", due)
		}
		must(t, c, "Cancel", &clockdv1.CancelRequest{Application: "shop", BusinessId: id}, &clockdv1.CancelResponse{})
		f := c.call(t.Context(), "Pause", &clockdv1.PauseRequest{Application: "shop", BusinessId: id},
			&clockdv1.PauseResponse{})
		if f == nil || f.code != codes.FailedPrecondition || f.problem.GetCode() != "already_cancelled" {
			t.Errorf("pause of a cancelled alarm: %v", f)
		}
	})
}

func TestBackfillRingsForARangeOfThePast(t *testing.T) {
	t.Parallel()
	s := start(t)
	in := s.subscribe(t.Context(), s.grpc())
	forEach(t, s, func(t *testing.T, c caller, id string) {
		rule := &clockdv1.Repeat{Cron: "@daily"}
		spec := &clockdv1.AlarmSpec{BusinessId: id, Ring: &clockdv1.AlarmSpec_Repeat{Repeat: rule}}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
		from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		asked := &clockdv1.BackfillRequest{
			Application: "shop", BusinessId: id, From: timestamppb.New(from), Until: timestamppb.New(from.AddDate(0, 0, 1)),
			Limit: 1, Pace: durationpb.New(0),
		}
		f := c.call(t.Context(), "Backfill", asked, &clockdv1.BackfillResponse{})
		if f == nil || f.code != codes.InvalidArgument {
			t.Errorf("a range that is too long: %v", f)
		}
		asked.Limit = 2
		b := must(t, c, "Backfill", asked, &clockdv1.BackfillResponse{}).Alarm.Occurrence.Backfill
		if b.Left != 2 || !b.At.AsTime().Equal(from) || b.DueAt == nil {
			t.Errorf("backfill: %v", b)
		}
		var rings []*clockdv1.Ring
		for len(rings) < 2 {
			rings = append(rings, in.next(t)...)
		}
		for i, r := range rings {
			o := r.Occurrence
			if at := from.AddDate(0, 0, i); o.GetNumber() != 0 || !o.At.AsTime().Equal(at) ||
				!o.PreviousAt.AsTime().Equal(at.AddDate(0, 0, -1)) || !o.NextAt.AsTime().Equal(at.AddDate(0, 0, 1)) {
				t.Errorf("ring %d: %v", i, r)
			}
		}
		must(t, c, "EndBackfill", &clockdv1.EndBackfillRequest{Application: "shop", BusinessId: id},
			&clockdv1.EndBackfillResponse{})
	})
}
