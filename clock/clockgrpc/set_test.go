package clockgrpc_test

import (
	"net/http"
	stdreflect "reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// forEach runs the test once for each protocol, with a business id of its own.
func forEach(t *testing.T, s *service, test func(t *testing.T, c caller, id string)) {
	for _, c := range s.callers() {
		t.Run(c.name, func(t *testing.T) { test(t, c, "order "+c.name) })
	}
}

// must calls a procedure and fails the test if the call fails.
func must[T proto.Message](t *testing.T, c caller, name string, request proto.Message, response T) T {
	t.Helper()
	if f := c.call(t.Context(), name, request, response); f != nil {
		t.Fatalf("%s %v: %v", name, request, f)
	}
	return response
}

func TestSetCancelAndGetShowTheAlarm(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		ringAt := timestamppb.New(time.UnixMilli(time.Now().Add(time.Hour).UnixMilli()))
		spec := &clockdv1.AlarmSpec{
			BusinessId: id, Ring: &clockdv1.AlarmSpec_RingAt{RingAt: ringAt},
			LatestRingAt: timestamppb.New(ringAt.AsTime().Add(time.Hour)),
			Payload:      &clockdv1.AlarmSpec_Json{Json: `{"n": 1.0}`},
			Retry:        &clockdv1.RetryPolicy{Initial: durationpb.New(2 * time.Second), Limit: proto.Int32(3)},
			AckTimeout:   durationpb.New(time.Minute), MaxRings: proto.Int32(4), Priority: 5,
		}
		set := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
		want := &clockdv1.Alarm{
			Application: "shop", BusinessId: id, State: clockdv1.State_STATE_SCHEDULED, Generation: 1, RingAt: ringAt,
			LatestRingAt: spec.LatestRingAt,
			NextTryTime:  ringAt, ContentType: "application/json", Payload: &clockdv1.Alarm_Json{Json: `{"n": 1.0}`},
			Retry: &clockdv1.RetryPolicy{Initial: durationpb.New(2 * time.Second), Factor: proto.Float64(2),
				Cap: durationpb.New(30 * time.Second), Limit: proto.Int32(3)},
			AckTimeout: durationpb.New(time.Minute), MaxRings: 4, Priority: 5,
			Delivery:  clockdv1.Delivery_DELIVERY_AT_LEAST_ONCE,
			CreatedAt: set.Alarm.CreatedAt, UpdatedAt: set.Alarm.UpdatedAt,
		}
		if !set.Created || !proto.Equal(set.Alarm, want) || !set.Alarm.CreatedAt.IsValid() {
			t.Errorf("created %t\n%v\nwant\n%v", set.Created, set.Alarm, want)
		}
		if again := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{}); again.Created || again.Alarm.Generation != 1 {
			t.Errorf("the repeated set: %v", again)
		}
		got := must(t, c, "Get", &clockdv1.GetRequest{Application: "shop", BusinessId: id}, &clockdv1.GetResponse{})
		if !proto.Equal(got.Alarm, want) || len(got.Attempts) != 0 {
			t.Errorf("get: %v", got)
		}
		cancelled := must(t, c, "Cancel",
			&clockdv1.CancelRequest{Application: "shop", BusinessId: id, Generation: proto.Int64(1)},
			&clockdv1.CancelResponse{})
		if cancelled.Alarm.State != clockdv1.State_STATE_CANCELLED || cancelled.Alarm.FinishedAt == nil {
			t.Errorf("cancel: %v", cancelled)
		}
	})
}

func TestPayloadsAreKeptInTheirForm(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for want, spec := range map[string]*clockdv1.AlarmSpec{
			"text/plain; charset=utf-8": {Payload: &clockdv1.AlarmSpec_Text{Text: "Größe\n"}},
			"application/octet-stream":  {Payload: &clockdv1.AlarmSpec_Binary{Binary: []byte{0, 255, 1}}},
			"application/json":          {Payload: &clockdv1.AlarmSpec_Json{Json: " null"}},
			"image/png": {Payload: &clockdv1.AlarmSpec_Binary{Binary: []byte{137}},
				ContentType: "image/png"},
		} {
			spec.BusinessId, spec.Ring = id+want, &clockdv1.AlarmSpec_Delay{Delay: durationpb.New(time.Hour)}
			a := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
				&clockdv1.SetResponse{}).Alarm
			if a.ContentType != want || a.GetText() != spec.GetText() ||
				string(a.GetBinary()) != string(spec.GetBinary()) || a.GetJson() != spec.GetJson() {
				t.Errorf("%s: %v", want, a)
			}
		}
	})
}

// A receiver of an alarm's own is read, kept, and shown without what may be secret.
func TestReceiversAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		given, err := structpb.NewStruct(map[string]any{"url": "https://a.example/x?hush",
			"headers": map[string]any{"x-a": "hush"}})
		if err != nil {
			t.Fatal(err)
		}
		spec := &clockdv1.AlarmSpec{BusinessId: id, Ring: &clockdv1.AlarmSpec_Delay{Delay: durationpb.New(time.Hour)},
			Target: "webhook", Receiver: given}
		a := must(t, c, "Set", &clockdv1.SetRequest{Application: "hooked", Alarm: spec}, &clockdv1.SetResponse{}).Alarm
		want := map[string]any{"url": "https://a.example/x?...", "headers": map[string]any{"x-a": "..."}}
		if !stdreflect.DeepEqual(a.Receiver.AsMap(), want) {
			t.Errorf("people see %v", a.Receiver)
		}
	})
}

// Each fault has the code and the field that the HTTP interface has for it.
func TestFaultsOfSetsAreRefusedWithTheirField(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for _, fault := range []struct {
			code, field string
			change      func(*clockdv1.AlarmSpec)
		}{
			{"invalid_business_id", "business_id", func(a *clockdv1.AlarmSpec) { a.BusinessId = "" }},
			{"required", "ring_at", func(a *clockdv1.AlarmSpec) { a.Ring = nil }},
			{"out_of_range", "ring_at", func(a *clockdv1.AlarmSpec) {
				a.Ring = &clockdv1.AlarmSpec_RingAt{RingAt: timestamppb.New(time.UnixMilli(-1))}
			}},
			{"out_of_range", "delay", func(a *clockdv1.AlarmSpec) {
				a.Ring = &clockdv1.AlarmSpec_Delay{Delay: durationpb.New(-time.Nanosecond)}
			}},
			{"out_of_range", "latest_ring_at",
				func(a *clockdv1.AlarmSpec) { a.LatestRingAt = timestamppb.New(time.UnixMilli(-1)) }},
			{"invalid_value", "json", func(a *clockdv1.AlarmSpec) { a.Payload = &clockdv1.AlarmSpec_Json{Json: "{"} }},
			{"out_of_range", "payload", func(a *clockdv1.AlarmSpec) {
				a.Payload = &clockdv1.AlarmSpec_Json{Json: strings.Repeat("[", 501) + strings.Repeat("]", 501)}
			}},
			{"payload_too_large", "payload", func(a *clockdv1.AlarmSpec) {
				a.Payload = &clockdv1.AlarmSpec_Text{Text: strings.Repeat("x", 64<<10+1)}
			}},
			{"invalid_value", "content_type", func(a *clockdv1.AlarmSpec) { a.ContentType = "ä" }},
			{"invalid_value", "if", func(a *clockdv1.AlarmSpec) { a.If = 4 }},
			{"ambiguous", "if", func(a *clockdv1.AlarmSpec) {
				a.If, a.Generation = clockdv1.Condition_CONDITION_ABSENT, proto.Int64(1)
			}},
			{"out_of_range", "generation", func(a *clockdv1.AlarmSpec) { a.Generation = proto.Int64(-1) }},
			{"out_of_range", "retry.cap",
				func(a *clockdv1.AlarmSpec) { a.Retry = &clockdv1.RetryPolicy{Initial: durationpb.New(time.Hour)} }},
			{"out_of_range", "retry.initial",
				func(a *clockdv1.AlarmSpec) { a.Retry = &clockdv1.RetryPolicy{Initial: durationpb.New(0)} }},
			{"out_of_range", "retry.factor",
				func(a *clockdv1.AlarmSpec) { a.Retry = &clockdv1.RetryPolicy{Factor: proto.Float64(0)} }},
			{"out_of_range", "retry.limit",
				func(a *clockdv1.AlarmSpec) { a.Retry = &clockdv1.RetryPolicy{Limit: proto.Int32(-1)} }},
			{"out_of_range", "ack_timeout",
				func(a *clockdv1.AlarmSpec) { a.AckTimeout = durationpb.New(time.Millisecond) }},
			{"out_of_range", "max_rings", func(a *clockdv1.AlarmSpec) { a.MaxRings = proto.Int32(0) }},
			{"out_of_range", "priority", func(a *clockdv1.AlarmSpec) { a.Priority = 10 }},
			{"invalid_value", "delivery", func(a *clockdv1.AlarmSpec) { a.Delivery = 3 }},
		} {
			spec := alarm(id, time.Hour)
			fault.change(spec)
			f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
				&clockdv1.SetResponse{})
			if f == nil || f.code != codes.InvalidArgument || f.problem.GetCode() != fault.code ||
				f.problem.GetField() != fault.field {
				t.Errorf("%v: %v, want %s %s", spec, f, fault.code, fault.field)
			}
		}
		if f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "no app"}, &clockdv1.SetResponse{}); f.problem.GetField() != "alarm" {
			t.Errorf("a set without an alarm: %v", f)
		}
		if f := c.call(t.Context(), "Get", &clockdv1.GetRequest{Application: "shop", BusinessId: id}, &clockdv1.GetResponse{}); f == nil || f.code != codes.NotFound || f.problem.GetCode() != "unknown_alarm" {
			t.Errorf("a refused set left an alarm: %v", f)
		}
	})
}

func TestConditionsRefuseWithTheAlarm(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		spec := alarm(id, time.Hour)
		spec.Payload = &clockdv1.AlarmSpec_Text{Text: "kept"}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
		for _, change := range []func(*clockdv1.AlarmSpec){
			func(a *clockdv1.AlarmSpec) { a.If = clockdv1.Condition_CONDITION_ABSENT },
			func(a *clockdv1.AlarmSpec) { a.If = clockdv1.Condition_CONDITION_LATER },
			func(a *clockdv1.AlarmSpec) { a.Generation = proto.Int64(7) },
		} {
			conditional := alarm(id, time.Minute)
			change(conditional)
			f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "shop", Alarm: conditional},
				&clockdv1.SetResponse{})
			if f == nil || f.code != codes.Aborted || f.problem.GetCode() != "condition_failed" ||
				f.problem.GetAlarm().GetBusinessId() != id || f.problem.Alarm.Payload != nil {
				t.Errorf("%v: %v", conditional, f)
			}
		}
		earlier := alarm(id, time.Minute)
		earlier.If = clockdv1.Condition_CONDITION_EARLIER
		if a := must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: earlier}, &clockdv1.SetResponse{}); a.Alarm.Generation != 2 || a.Created {
			t.Errorf("earlier: %v", a)
		}
		f := c.call(t.Context(), "Cancel",
			&clockdv1.CancelRequest{Application: "shop", BusinessId: id, Generation: proto.Int64(1)},
			&clockdv1.CancelResponse{})
		if f == nil || f.code != codes.Aborted {
			t.Errorf("cancel: %v", f)
		}
	})
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, _, body := s.do(t.Context(), procedure("Get"), "application/json",
		`{"application":"shop","business_id":"a","colour":1}`)
	if f := connectFailure(t, body); status != http.StatusBadRequest || f.code != codes.InvalidArgument ||
		!strings.Contains(f.text, "colour") {
		t.Errorf("JSON: %d %v", status, f)
	}
	newer, err := proto.Marshal(&clockdv1.SetRequest{Application: "shop", Alarm: alarm("a", time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	newer = append(newer, 0xf8, 0x07, 1) // field 127, a varint
	if status, _, body := s.do(t.Context(), procedure("Set"), "application/proto", string(newer)); status != http.StatusBadRequest || !strings.Contains(string(body), "does not know") {
		t.Errorf("binary: %d %s", status, body)
	}
	inner := append([]byte{0x12, byte(3)}, 0xf8, 0x07, 1) // alarm with field 127
	if status, _, body := s.do(t.Context(), procedure("Set"), "application/proto", string(inner)); status != http.StatusBadRequest || !strings.Contains(string(body), "does not know") {
		t.Errorf("binary, within the alarm: %d %s", status, body)
	}
}

func TestTraceContextIsKept(t *testing.T) {
	t.Parallel()
	s := start(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var response clockdv1.SetResponse
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", trace)
	if err := s.grpc().Invoke(ctx, procedure("Set"), &clockdv1.SetRequest{Application: "shop", Alarm: alarm("a", time.Hour)}, &response); err != nil {
		t.Fatal(err)
	}
	if response.Alarm.Traceparent != trace {
		t.Errorf("got %q", response.Alarm.Traceparent)
	}
}
