package client_test

import (
	"fmt"
	"strings"
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
		"pause":   func() error { _, err := c.Pause(ctx, app, "order"); return err },
		"resume":  func() error { _, err := c.Resume(ctx, app, "order"); return err },
		"trigger": func() error { _, err := c.Trigger(ctx, app, "order"); return err },
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

func TestTriggeredAlarmRingsNow(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	at := time.Now().Add(time.Hour)
	for _, s := range []client.Set{{When: client.At(at)}, {Repeat: &client.Repeat{Every: time.Hour, Anchor: at}}} {
		id := fmt.Sprint(s.Repeat != nil)
		if _, err := c.Set(ctx, app, id, s); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pause(ctx, app, id, client.Note("not now")); err != nil {
			t.Fatal(err)
		}
		_, err := c.Trigger(ctx, app, id)
		if failed := refused(t, err, client.CodePaused); failed.Alarm == nil || failed.Alarm.LastError != "paused: not now" {
			t.Errorf("trigger of a paused alarm: %+v", failed)
		}
		if a, err := c.Resume(ctx, app, id); err != nil || a.LastError != "" {
			t.Fatalf("resume: %+v, %v", a, err)
		}
		_, err = c.Trigger(ctx, app, id, client.AtGeneration(5), client.Note("now"))
		refused(t, err, client.CodeConditionFailed)
		a, err := c.Trigger(ctx, app, id, client.AtGeneration(1), client.Note("now"))
		if err != nil || a.NextTryTime.After(time.Now()) {
			t.Fatalf("trigger: %+v, %v", a, err)
		}
		if s.Repeat != nil && (a.Generation != 1 || !a.Occurrence.TriggeredAt.Equal(a.NextTryTime) || a.Occurrence.At.Before(at.Truncate(time.Millisecond))) {
			t.Errorf("trigger: %+v", a)
		}
		if s.Repeat == nil && (a.Generation != 2 || !a.RingAt.Equal(a.NextTryTime)) {
			t.Errorf("trigger: %+v", a)
		}
	}
	pace := time.Duration(0)
	rings := client.BackfillRange{From: at.Add(-time.Hour), Pace: &pace}
	_, err := c.Backfill(ctx, app, "true", rings)
	if failed := refused(t, err, "out_of_range"); failed.Field != "from" {
		t.Errorf("a backfill before the anchor: %+v", failed)
	}
	_, err = c.Backfill(ctx, app, "false", rings)
	refused(t, err, client.CodeRingsOnce)
	_, err = c.Pause(ctx, app, "true", client.Note(strings.Repeat("x", 301)))
	if failed := refused(t, err, "out_of_range"); failed.Field != "note" {
		t.Errorf("a long note: %+v", failed)
	}
}

func TestBackfillRingsForARangeOfThePast(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	anchor := time.Now().Add(-5 * time.Hour).Truncate(time.Second)
	rule := &client.Repeat{Every: time.Hour, Anchor: anchor.Add(-time.Minute)}
	if _, err := c.Set(ctx, app, "hourly", client.Set{Repeat: rule}); err != nil {
		t.Fatal(err)
	}
	rings := client.BackfillRange{From: anchor, Until: anchor.Add(150 * time.Minute), Limit: 3}
	a, err := c.Backfill(ctx, app, "hourly", rings, client.AtGeneration(1), client.Note("the disk was full"))
	if err != nil {
		t.Fatal(err)
	}
	if b := a.Occurrence.Backfill; b == nil || b.Left != 2 || !b.At.Equal(anchor.Add(59*time.Minute)) ||
		b.DueAt.IsZero() || b.Rung+b.Failed != 0 {
		t.Errorf("backfill: %+v", b)
	}
	_, err = c.Backfill(ctx, app, "hourly", client.BackfillRange{From: anchor})
	refused(t, err, client.CodeBackfillRuns)
	a, err = c.EndBackfill(ctx, app, "hourly", client.Note("enough"))
	if err != nil || a.Occurrence.Backfill != nil && a.Occurrence.Backfill.Left != 0 {
		t.Errorf("end: %+v, %v", a, err)
	}
}
