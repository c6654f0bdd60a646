package clockgrpc_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

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
		if f := c.call(t.Context(), "Trigger", &clockdv1.TriggerRequest{Application: "shop", BusinessId: id, Note: strings.Repeat("x", 301)}, &clockdv1.TriggerResponse{}); f == nil || f.code != codes.InvalidArgument {
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
