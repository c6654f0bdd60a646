package client_test

import (
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

func TestPausedAlarmWaitsUntilItIsResumed(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	at := time.Date(2090, 1, 31, 18, 30, 0, 0, time.UTC)
	if _, err := c.Set(ctx, app, "order", client.Set{When: client.At(at)}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a paused alarm is no error
		a, err := c.Pause(ctx, app, "order", client.AtGeneration(1))
		if err != nil || a.State != client.Paused || !a.NextTryTime.IsZero() || !a.RingAt.Equal(at) {
			t.Fatalf("pause: %+v, %v", a, err)
		}
	}
	for range 2 {
		a, err := c.Resume(ctx, app, "order")
		if err != nil || a.State != client.Scheduled || !a.NextTryTime.Equal(at) || a.Generation != 1 {
			t.Fatalf("resume: %+v, %v", a, err)
		}
	}
	if _, err := c.Cancel(ctx, app, "order"); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"pause":  func() error { _, err := c.Pause(ctx, app, "order"); return err },
		"resume": func() error { _, err := c.Resume(ctx, app, "order"); return err },
	} {
		if failed := refused(t, call(), client.CodeAlreadyCancelled); failed.Alarm == nil ||
			failed.Alarm.State != client.Cancelled {
			t.Errorf("%s of a cancelled alarm: %+v", name, failed)
		}
	}
	_, err := c.Pause(ctx, app, "order", client.AtGeneration(7))
	refused(t, err, client.CodeConditionFailed)
	_, err = c.Resume(ctx, app, "unknown")
	refused(t, err, client.CodeUnknownAlarm)
}
