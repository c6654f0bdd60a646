package clockhttp

import (
	"bytes"
	"encoding/base64"

	"github.com/clockd/clockd/clock"
)

// payload keeps a JSON value byte for byte, null included.
func (d *setDecoder) payload(raw []byte) error {
	return d.take("payload", clock.JSON, bytes.Clone(raw))
}

func (d *setDecoder) text(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	var text string
	if err := decodeString(raw, "text", &text); err != nil {
		return err
	}
	return d.take("text", clock.Text, []byte(text))
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
	return d.take("base64", clock.Binary, b)
}

// take sets the payload, the first one that is given.
func (d *setDecoder) take(field string, kind clock.PayloadKind, payload []byte) error {
	s := &d.body.set
	if s.PayloadKind != clock.NoPayload {
		return clock.Invalid(clock.CodeAmbiguous, field, "give one of payload, text and base64")
	}
	s.PayloadKind, s.Payload = kind, payload
	return nil
}

// appendPayload appends the member that gives the payload as it was given, with a comma before it; nothing where there
// is none.
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
	default:
		return b
	}
}
