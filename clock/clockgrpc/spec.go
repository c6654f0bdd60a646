package clockgrpc

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// setOf returns the set that a message asks for. Its fields are read here; the domain checks ranges and times.
func setOf(application string, spec *clockdv1.AlarmSpec, traceparent string) (*clock.Set, error) {
	if spec == nil {
		return nil, clock.Invalid(clock.CodeRequired, "alarm", "give the alarm to set")
	}
	set := clock.EmptySet()
	set.Key, set.Traceparent = clock.Key{Application: application, BusinessID: spec.BusinessId}, traceparent
	for _, read := range []func(*clock.Set, *clockdv1.AlarmSpec) error{readTimes, readPayload, readCondition, readRetry, readOptions} {
		if err := read(&set, spec); err != nil {
			return nil, err
		}
	}
	return &set, nil
}

func readTimes(set *clock.Set, spec *clockdv1.AlarmSpec) error {
	switch ring := spec.Ring.(type) {
	case *clockdv1.AlarmSpec_RingAt:
		if err := readInstant(ring.RingAt, "ring_at", &set.RingAt); err != nil {
			return err
		}
	case *clockdv1.AlarmSpec_Delay:
		set.Delay.Given = true
		if err := readDuration(ring.Delay, "delay", &set.Delay.Span); err != nil {
			return err
		}
	case *clockdv1.AlarmSpec_Repeat:
		if err := readRepeat(set, ring.Repeat); err != nil {
			return err
		}
	case *clockdv1.AlarmSpec_LocalRingAt:
		if err := set.SetLocalTime(ring.LocalRingAt, spec.TimeZone, "local_ring_at"); err != nil {
			return err
		}
	}
	if spec.TimeZone != "" && set.Local == nil {
		return clock.Invalid(clock.CodeAmbiguous, "time_zone",
			"time_zone is for local_ring_at; the time zone of a rule is repeat.time_zone")
	}
	return readInstant(spec.LatestRingAt, "latest_ring_at", &set.LatestRingAt)
}

// readPayload keeps the text of a JSON value byte for byte.
func readPayload(set *clock.Set, spec *clockdv1.AlarmSpec) error {
	switch payload := spec.Payload.(type) {
	case *clockdv1.AlarmSpec_Json:
		set.PayloadKind, set.Payload = clock.JSON, []byte(payload.Json)
		if !json.Valid(set.Payload) {
			return clock.Invalid(clock.CodeInvalidValue, "json",
				"json must be the text of one JSON value; send other text as text")
		}
	case *clockdv1.AlarmSpec_Text:
		set.PayloadKind, set.Payload = clock.Text, []byte(payload.Text)
	case *clockdv1.AlarmSpec_Binary:
		set.PayloadKind, set.Payload = clock.Binary, payload.Binary
	}
	if set.ContentType = spec.ContentType; set.ContentType == "" {
		set.ContentType = set.PayloadKind.DefaultContentType()
	}
	return nil
}

// conditions holds the kind of each condition.
var conditions = map[clockdv1.Condition]clock.ConditionKind{
	clockdv1.Condition_CONDITION_UNSPECIFIED: clock.AnyRow,
	clockdv1.Condition_CONDITION_ABSENT:      clock.Absent,
	clockdv1.Condition_CONDITION_EARLIER:     clock.Earlier,
	clockdv1.Condition_CONDITION_LATER:       clock.Later,
}

func readCondition(set *clock.Set, spec *clockdv1.AlarmSpec) error {
	kind, known := conditions[spec.If]
	if !known {
		return clock.Invalid(clock.CodeInvalidValue, "if", fmt.Sprintf("if has the unknown value %d", spec.If))
	}
	set.If.Kind = kind
	if spec.Generation == nil {
		return nil
	}
	if kind != clock.AnyRow {
		return clock.Invalid(clock.CodeAmbiguous, "if", "give if or generation, not both")
	}
	var err error
	set.If, err = generationCondition(spec.Generation)
	return err
}

// generationCondition returns the condition that an optional generation stands for.
func generationCondition(generation *int64) (clock.Condition, error) {
	switch {
	case generation == nil:
		return clock.Condition{}, nil
	case *generation < 0:
		return clock.Condition{}, clock.Invalid(clock.CodeOutOfRange, "generation", "generation must not be negative")
	}
	return clock.Condition{Kind: clock.AtGeneration, Generation: *generation}, nil
}

func readRetry(set *clock.Set, spec *clockdv1.AlarmSpec) error {
	given := spec.Retry
	if given == nil {
		return nil
	}
	set.Omitted &^= clock.RetryOption
	if err := readDuration(given.Initial, "retry.initial", &set.Retry.Initial); err != nil {
		return err
	}
	if err := readDuration(given.Cap, "retry.cap", &set.Retry.Cap); err != nil {
		return err
	}
	if given.Factor != nil {
		set.Retry.Factor = *given.Factor
	}
	if given.Limit != nil {
		if *given.Limit < 0 { // the domain's number for no limit is negative
			return clock.Invalid(clock.CodeOutOfRange, "retry.limit",
				"retry.limit must not be negative; leave it out for no limit")
		}
		set.Retry.Limit = int(*given.Limit)
	}
	return set.Retry.CheckDefaultCap(given.Cap != nil)
}

func readOptions(set *clock.Set, spec *clockdv1.AlarmSpec) error {
	if spec.AckTimeout != nil {
		set.Omitted &^= clock.AckTimeoutOption
		if err := readDuration(spec.AckTimeout, "ack_timeout", &set.AckTimeout); err != nil {
			return err
		}
	}
	if spec.MaxRings != nil {
		set.Omitted &^= clock.MaxRingsOption
		set.MaxRings = int(*spec.MaxRings)
	}
	set.Priority = int(spec.Priority)
	if spec.Target != "" {
		var err error
		if set.Target, set.Destination.Name, err = clock.ParseTarget(spec.Target); err != nil {
			return err
		}
	}
	if spec.Receiver != nil {
		receiver, err := json.Marshal(spec.Receiver.AsMap())
		if err != nil { // a number that is none
			return clock.Invalid(clock.CodeInvalidValue, "receiver", "receiver must be an object like {method: PUT}")
		}
		set.Receiver = string(receiver)
	}
	if spec.Delivery == clockdv1.Delivery_DELIVERY_UNSPECIFIED {
		return nil
	}
	for mode, delivery := range deliveries {
		if delivery == spec.Delivery {
			set.Delivery = mode
			return nil
		}
	}
	return clock.Invalid(clock.CodeInvalidValue, "delivery",
		fmt.Sprintf("delivery has the unknown value %d", spec.Delivery))
}

// readInstant writes a time to into. It leaves into unchanged if the time is not given.
func readInstant(given *timestamppb.Timestamp, field string, into *clock.Instant) error {
	if given == nil {
		return nil
	}
	i, err := clock.ParseTime(given.AsTime())
	if err == nil {
		err = given.CheckValid()
	}
	if err != nil {
		return clock.Invalid(clock.CodeOutOfRange, field, field+": "+err.Error())
	}
	*into = i
	return nil
}

// readDuration writes a duration to into. It leaves into unchanged if the duration is not given.
func readDuration(given *durationpb.Duration, field string, into *time.Duration) error {
	if given == nil {
		return nil
	}
	d, err := clock.CutDuration(given.AsDuration())
	if err == nil {
		err = given.CheckValid()
	}
	if err != nil {
		return clock.Invalid(clock.CodeOutOfRange, field, field+": "+err.Error())
	}
	*into = d
	return nil
}
