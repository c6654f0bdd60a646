package clockhttp

import (
	"bytes"
	"encoding/base64"

	"github.com/clockd/clockd/clock"
)

// payload keeps a JSON value byte for byte, also null.
func (d *setDecoder) payload(raw []byte) error {
	return d.setPayload("payload", clock.JSON, bytes.Clone(raw))
}

func (d *setDecoder) text(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var text string
	if err := decodeString(raw, "text", &text); err != nil {
		return err
	}
	return d.setPayload("text", clock.Text, []byte(text))
}

func (d *setDecoder) base64(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var text string
	if err := decodeString(raw, "base64", &text); err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, "base64",
			"base64 must be standard base64 (A-Z a-z 0-9 + /) with = padding: "+err.Error())
	}
	return d.setPayload("base64", clock.Binary, b)
}

// setPayload sets the payload. It refuses a second payload.
func (d *setDecoder) setPayload(field string, kind clock.PayloadKind, payload []byte) error {
	s := &d.body.set
	if s.PayloadKind != clock.NoPayload {
		return clock.Invalid(clock.CodeAmbiguous, field, "give one of payload, text and base64")
	}
	s.PayloadKind, s.Payload = kind, payload
	return nil
}

// appendPayload appends the payload as a member with a comma before it, in the form in which it was given. It appends
// nothing for an alarm without a payload.
func appendPayload(b []byte, kind clock.PayloadKind, payload []byte) []byte {
	switch kind {
	case clock.JSON:
		b = append(b, `,"payload":`...)
		return append(b, payload...)
	case clock.Text:
		b = append(b, `,"text":`...)
		return appendString(b, payload)
	case clock.Binary:
		b = append(b, `,"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, payload)
		return append(b, '"')
	case clock.MessagePayload:
		return appendMessage(b, payload)
	default:
		return b
	}
}

// appendMessage appends a message that waits for its time: where it goes, and its body.
func appendMessage(b, packed []byte) []byte {
	m, err := clock.UnpackMessage(packed)
	if err != nil {
		return b // its ring will be refused with the reason
	}
	b = append(b, `,"message":{"exchange":`...)
	b = appendString(b, []byte(m.Exchange))
	b = append(b, `,"routing_key":`...)
	b = appendString(b, []byte(m.RoutingKey))
	b = append(b, '}')
	return appendPayload(b, clock.Binary, m.Body)
}
