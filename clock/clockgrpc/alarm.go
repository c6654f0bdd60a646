package clockgrpc

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// alarmOf returns the message for an alarm.
func alarmOf(a *clock.Alarm) *clockdv1.Alarm {
	m := &clockdv1.Alarm{
		Application: a.Application, BusinessId: a.BusinessID, State: clockdv1.State(a.State), Generation: a.Generation,
		RingAt: timestampOf(a.NextRingAt()), LatestRingAt: timestampOf(a.Latest()),
		NextTryTime: timestampOf(a.NextTryTime),
		RetryTimes:  int32(a.RetryTimes), RingNo: int32(a.RingNo), InDoubt: a.InDoubt, LastError: text(a.LastError),
		ContentType: text(a.ContentType),
		Retry:       retryOf(a.Retry), MaxRings: int32(a.MaxRings), Priority: int32(a.Priority),
		Delivery: deliveryOf(a.Delivery), Target: clock.TargetText(a.Target, a.Destination.Name),
		Traceparent: text(a.Traceparent), RungAt: timestampOf(a.RungAt), CreatedAt: timestampOf(a.CreateTime),
		UpdatedAt:  timestampOf(a.UpdateTime),
		FinishedAt: timestampOf(a.FinishedAt),
	}
	if a.AckTimeout > 0 {
		m.AckTimeout = durationpb.New(a.AckTimeout)
	}
	if a.Answer != clock.NoAnswer {
		m.Answer, m.AnsweredBy, m.AnsweredAt = clockdv1.AnswerKind(a.Answer), text(a.AnsweredBy), timestampOf(a.AnsweredAt)
	}
	if a.Local != nil {
		m.LocalRingAt, m.TimeZone = a.Local.String(), a.Local.TimeZone()
	}
	if shown := a.ShownReceiver(); shown != nil {
		m.Receiver = &structpb.Struct{}
		if protojson.Unmarshal(shown, m.Receiver) != nil {
			m.Receiver = nil // the stored text is no object
		}
	}
	setRepeat(m, a)
	setPayload(m, a.PayloadKind, a.Payload)
	return m
}

// blockedAlarmOf is alarmOf with the reasons why the alarm does not ring.
func (s *Service) blockedAlarmOf(a *clock.Alarm) *clockdv1.Alarm {
	m := alarmOf(a)
	for _, b := range s.blockers(a) {
		m.Blockers = append(m.Blockers,
			&clockdv1.Blocker{Code: string(b.Code), Target: b.Target, Detail: text(b.Detail)})
	}
	return m
}

// setPayload sets the payload in the form in which it was given. It sets nothing for an alarm without a payload.
func setPayload(m *clockdv1.Alarm, kind clock.PayloadKind, payload []byte) {
	switch kind {
	case clock.JSON:
		m.Payload = &clockdv1.Alarm_Json{Json: text(string(payload))}
	case clock.Text:
		m.Payload = &clockdv1.Alarm_Text{Text: text(string(payload))}
	case clock.Binary:
		m.Payload = &clockdv1.Alarm_Binary{Binary: payload}
	case clock.MessagePayload:
		if unpacked, err := clock.UnpackMessage(payload); err == nil { // otherwise its ring will be refused with the reason
			m.Payload = &clockdv1.Alarm_Message{Message: &clockdv1.Message{
				Exchange: text(unpacked.Exchange), RoutingKey: text(unpacked.RoutingKey), Body: unpacked.Body,
			}}
		}
	case clock.NoPayload:
	}
}

// attemptsOf returns the messages for failed attempts.
func attemptsOf(attempts []clock.Attempt) []*clockdv1.Attempt {
	all := make([]*clockdv1.Attempt, 0, len(attempts))
	for i := range attempts {
		t := &attempts[i]
		all = append(all, &clockdv1.Attempt{
			Generation: t.Generation, RingNo: int32(t.RingNo), ClaimId: text(t.ClaimID), Time: timestampOf(t.Time),
			Outcome: t.Outcome.String(),
			Error:   text(t.Error), By: text(t.By),
		})
	}
	return all
}

func retryOf(p clock.RetryPolicy) *clockdv1.RetryPolicy {
	m := &clockdv1.RetryPolicy{Initial: durationpb.New(p.Initial), Factor: &p.Factor, Cap: durationpb.New(p.Cap)}
	if p.Limit != clock.NoLimit {
		limit := int32(p.Limit)
		m.Limit = &limit
	}
	return m
}

// deliveries holds the message's delivery for each mode.
var deliveries = map[clock.DeliveryMode]clockdv1.Delivery{
	clock.AtLeastOnce: clockdv1.Delivery_DELIVERY_AT_LEAST_ONCE,
	clock.AtMostOnce:  clockdv1.Delivery_DELIVERY_AT_MOST_ONCE,
}

func deliveryOf(d clock.DeliveryMode) clockdv1.Delivery { return deliveries[d] }

// timestampOf returns nil for NoInstant.
func timestampOf(i clock.Instant) *timestamppb.Timestamp {
	if i == clock.NoInstant {
		return nil
	}
	return timestamppb.New(time.UnixMilli(int64(i)))
}

// text returns s as protobuf allows it: each byte that is not part of valid UTF-8 becomes U+FFFD.
func text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
