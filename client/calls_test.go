package client_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

func TestSetIsReadAsItWasGiven(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	at := time.Date(2090, 1, 31, 18, 30, 0, 1_000_001, time.FixedZone("", 3600))
	limit := 3
	given := client.Set{
		When: client.At(at), LatestRingAt: at.Add(time.Hour),
		Payload: client.RawJSON([]byte("{\"a\" : [1,\n\"<&>\"]}")), ContentType: "application/x",
		Retry:      &client.Retry{Initial: 2500 * time.Millisecond, Factor: 1.5, Cap: time.Hour, Limit: &limit},
		AckTimeout: 90 * time.Second, MaxRings: 4, Priority: 7,
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	if _, err := c.Set(ctx, app, "a/b%+ ü..", given); err != nil {
		t.Fatal(err)
	}
	a, err := c.Get(ctx, app, "a/b%+ ü..")
	if err != nil {
		t.Fatal(err)
	}
	rounded := time.Date(2090, 1, 31, 17, 30, 0, 2_000_000, time.UTC) // 1.000001 ms is rounded up
	switch {
	case a.Application != app || a.BusinessID != "a/b%+ ü.." || a.State != client.Scheduled || a.Generation != 1:
		t.Errorf("identity: %+v", a)
	case !a.RingAt.Equal(rounded) || !a.LatestRingAt.Equal(rounded.Add(time.Hour)) || !a.NextTryTime.Equal(rounded) ||
		a.CreatedAt.IsZero():
		t.Errorf("times: %+v", a)
	case !bytes.Equal(a.Payload.Bytes(), given.Payload.Bytes()) || a.Payload.Kind() != client.JSONPayload ||
		a.ContentType != "application/x":
		t.Errorf("payload: %q %v %q", a.Payload.Bytes(), a.Payload.Kind(), a.ContentType)
	case a.Retry.Initial != 2500*time.Millisecond || a.Retry.Factor != 1.5 || a.Retry.Cap != time.Hour ||
		a.Retry.Limit == nil || *a.Retry.Limit != 3:
		t.Errorf("retry: %+v", a.Retry)
	case a.AckTimeout != 90*time.Second || a.MaxRings != 4 || a.Priority != 7 || a.Traceparent != given.Traceparent ||
		a.Delivery != client.AtLeastOnce:
		t.Errorf("options: %+v", a)
	case !a.RungAt.IsZero() || !a.FinishedAt.IsZero() || a.Answer != "" || a.LastError != "" || len(a.Attempts) != 0:
		t.Errorf("absent values: %+v", a)
	case !bytes.HasPrefix(a.Raw, []byte(`{"application":`)):
		t.Errorf("raw: %s", a.Raw)
	}
}

func TestPayloadsOfAllKindsReturnUnchanged(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	for name, p := range map[string]client.Payload{
		"none": {}, "json": client.JSON(map[string]any{"order": 4711}), "null": client.RawJSON([]byte("null")),
		"text": client.Text("a \"quoted\"\nline <ü>"), "bytes": client.Bytes([]byte{0, 255, 10}),
		"empty": client.Text(""),
	} {
		a, err := c.Set(ctx, app, name, client.Set{When: client.After(time.Hour), Payload: p})
		if err != nil || a.Payload.Kind() != p.Kind() || !bytes.Equal(a.Payload.Bytes(), p.Bytes()) {
			t.Errorf("%s: got %v %q, want %v %q, %v", name, a.Payload.Kind(), a.Payload.Bytes(), p.Kind(), p.Bytes(),
				err)
		}
	}
}

func TestInputThatJSONCannotHoldIsRefusedByTheClient(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	for name, c2 := range map[string]struct {
		set   client.Set
		field string
	}{
		"a function":        {client.Set{Payload: client.JSON(func() {})}, "payload"},
		"half JSON":         {client.Set{Payload: client.RawJSON([]byte(`{"a":`))}, "payload"},
		"JSON, not UTF-8":   {client.Set{Payload: client.RawJSON([]byte("\"\xff\""))}, "payload"},
		"text, not UTF-8":   {client.Set{Payload: client.Text("\xff")}, "text"},
		"factor, no number": {client.Set{Retry: &client.Retry{Factor: nan()}}, "retry"},
	} {
		c2.set.When = client.After(time.Hour)
		_, err := c.Set(ctx, app, "x", c2.set)
		if failed := refused(t, err, client.CodeInvalidValue); failed.Field != c2.field || failed.Status != 0 {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	for _, change := range []client.Change{{}, {BusinessID: "\xff"}, {BusinessID: "x", Set: &client.Set{If: client.AtGeneration(1)}}} {
		if _, err := c.Batch(ctx, app, []client.Change{change}); err == nil {
			t.Errorf("the batch took %+v", change)
		}
	}
}

func TestConditionsReachTheService(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	at := time.Now().Add(time.Hour)
	set := func(when time.Time, condition client.Condition) (*client.Alarm, error) {
		return c.Set(ctx, app, "x", client.Set{When: client.At(when), If: condition})
	}
	if _, err := set(at, client.Absent); err != nil {
		t.Fatal(err)
	}
	for name, refuse := range map[string]func() error{
		"absent":     func() error { _, err := set(at, client.Absent); return err },
		"earlier":    func() error { _, err := set(at.Add(time.Hour), client.Earlier); return err },
		"later":      func() error { _, err := set(at.Add(-time.Minute), client.Later); return err },
		"generation": func() error { _, err := set(at.Add(time.Hour), client.AtGeneration(7)); return err },
		"cancel":     func() error { _, err := c.Cancel(ctx, app, "x", client.AtGeneration(7)); return err },
		"cancel with a note": func() error {
			_, err := c.Cancel(ctx, app, "x", client.AtGeneration(7), client.Note("closed"))
			return err
		},
	} {
		failed := refused(t, refuse(), client.CodeConditionFailed)
		if failed.Status != 412 || failed.Alarm == nil || failed.Alarm.BusinessID != "x" || failed.Unconfirmed {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	if a, err := set(at.Add(time.Minute), client.AtGeneration(1)); err != nil || a.Generation != 2 {
		t.Errorf("the right generation: %+v, %v", a, err)
	}
	if _, err := set(at, client.AtGeneration(0)); err == nil {
		t.Error("generation 0 is no condition")
	}
	if _, err := c.Cancel(ctx, app, "x", client.Absent); err == nil {
		t.Error("a cancel took the condition Absent")
	}
}

func TestCancelAnswersDefinitely(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	_, err := c.Cancel(ctx, app, "none")
	if failed := refused(t, err, client.CodeUnknownAlarm); failed.Status != 404 || failed.Alarm != nil {
		t.Errorf("%+v", failed)
	}
	if _, err := c.Set(ctx, app, "x", client.Set{When: client.After(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Cancel(ctx, app, "x", client.Note("closed")); err != nil || a.State != client.Cancelled {
		t.Fatalf("%+v, %v", a, err)
	}
	life, err := c.Events(ctx, app, "x")
	if err != nil || len(life.Events) != 2 || life.Events[1].Kind != "cancelled" || life.Events[1].Detail != "closed" {
		t.Errorf("%+v, %v", life, err)
	}
	for range 2 {
		if a, err := c.Cancel(ctx, app, "x"); err != nil || a.State != client.Cancelled || a.FinishedAt.IsZero() {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

func TestFaultsNameTheField(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	_, err := c.Set(ctx, app, "x", client.Set{})
	if failed := refused(t, err, "required"); failed.Status != 422 || failed.Field == "" {
		t.Errorf("without a time: %+v", failed)
	}
	_, err = c.Set(ctx, app, "x", client.Set{When: client.After(time.Hour), Priority: 10})
	if failed := refused(t, err, "out_of_range"); failed.Field != "priority" {
		t.Errorf("priority: %+v", failed)
	}
	if text := err.Error(); text == "" || !bytes.Contains([]byte(text), []byte("(out_of_range, field priority)")) {
		t.Errorf("text: %s", text)
	}
}

func TestListFollowsPages(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	var changes []client.Change
	for i := range 1000 {
		changes = append(changes,
			client.Change{BusinessID: fmt.Sprintf("order-%04d", i), Set: &client.Set{When: client.After(time.Hour)}})
	}
	for _, part := range [][]client.Change{changes, {{BusinessID: "x-1", Set: &client.Set{When: client.After(2 * time.Hour)}}, {BusinessID: "order-0007"}}} {
		if _, err := c.Batch(ctx, app, part); err != nil {
			t.Fatal(err)
		}
	}
	soon := time.Now().Add(90 * time.Minute)
	for name, want := range map[string]struct {
		filter client.Filter
		count  int
		first  string
	}{
		"all":        {client.Filter{}, 1001, "order-0000"},
		"limit":      {client.Filter{Limit: 1001}, 1001, "order-0000"},
		"few":        {client.Filter{Limit: 3}, 3, "order-0000"},
		"prefix":     {client.Filter{Prefix: "order-000"}, 10, "order-0000"},
		"states":     {client.Filter{States: []client.State{client.Cancelled, client.Dead}}, 1, "order-0007"},
		"due after":  {client.Filter{DueAfter: soon}, 1, "x-1"},
		"due before": {client.Filter{DueBefore: soon, States: []client.State{client.Scheduled}}, 999, "order-0000"},
	} {
		var ids []string
		var due time.Time
		for a, err := range c.List(ctx, app, want.filter) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if byDue := !want.filter.DueBefore.IsZero(); byDue && a.NextTryTime.Before(due) {
				t.Errorf("%s: %s is due before the alarm before it", name, a.BusinessID)
			}
			ids, due = append(ids, a.BusinessID), a.NextTryTime
		}
		if !want.filter.DueBefore.IsZero() {
			slices.Sort(ids) // sets of one instant are in the order of their ids in the database
		}
		if len(ids) != want.count || ids[0] != want.first || !slices.IsSorted(ids) {
			t.Errorf("%s: %d alarms, %v", name, len(ids), ids[:min(3, len(ids))])
		}
	}
	for a, err := range c.List(ctx, app, client.Filter{Cursor: "wrong"}) {
		if refused(t, err, "invalid_cursor"); a != nil {
			t.Errorf("an alarm with an error: %+v", a)
		}
	}
}

func TestBatchReturnsSetsThenCancels(t *testing.T) {
	t.Parallel()
	c, app, ctx := dial(t, serverURL), applicationOf(t), t.Context()
	results, err := c.Batch(ctx, app, []client.Change{
		{BusinessID: "a"},
		{BusinessID: "a",
			Set: &client.Set{When: client.After(time.Hour), Payload: client.RawJSON([]byte(`{"n" : 1}`))}},
		{BusinessID: "b", Set: &client.Set{When: client.After(time.Hour), Priority: -1}},
		{BusinessID: "missing"},
	})
	if err != nil || len(results) != 4 {
		t.Fatalf("%+v, %v", results, err)
	}
	if r := results[0]; r.BusinessID != "a" || r.Status != 201 || r.State != client.Scheduled || r.Err() != nil {
		t.Errorf("set: %+v", r)
	}
	refused(t, results[1].Err(), "out_of_range")
	if r := results[2]; r.BusinessID != "a" || r.State != client.Cancelled {
		t.Errorf("cancel: %+v", r)
	}
	refused(t, results[3].Err(), client.CodeUnknownAlarm)
	if a, err := c.Get(ctx, app, "a"); err != nil || a.Payload.String() != `{"n" : 1}` {
		t.Errorf("payload: %+v, %v", a, err)
	}
	if results, err := c.Batch(ctx, app, nil); err != nil || len(results) != 0 {
		t.Errorf("empty batch: %+v, %v", results, err)
	}
}

// awaitNode returns the view of the cluster once its node is alive. The node registers itself after the start of its
// service. A busy machine may renew the registration late.
func awaitNode(t *testing.T, c *client.Client) *client.Cluster {
	t.Helper()
	for {
		cluster, err := c.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(cluster.Nodes) > 0 && cluster.Nodes[0].Alive {
			return cluster
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestNodesShowsTheServiceItself(t *testing.T) {
	t.Parallel()
	cluster := awaitNode(t, dial(t, serverURL))
	if len(cluster.Nodes) != 1 || len(cluster.Shards) == 0 || cluster.DatabaseTime.IsZero() {
		t.Fatalf("%s", cluster.Raw)
	}
	if n := cluster.Nodes[0]; n.Incarnation != cluster.Self || n.StartedAt.IsZero() {
		t.Errorf("%+v", n)
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
