package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// PayloadKind is the form of a payload in JSON.
type PayloadKind uint8

// The kinds of payloads.
const (
	NoPayload     PayloadKind = iota // empty
	JSONPayload                      // a JSON value
	TextPayload                      // a text in UTF-8
	BinaryPayload                    // any bytes
)

// Payload is what an alarm delivers. Make it with JSON, RawJSON, Text or Bytes. The zero value is empty.
type Payload struct {
	kind PayloadKind
	data []byte
	err  error // fault of the value that JSON was given; the call that sends the payload returns it
}

// JSON returns v as JSON, encoded by encoding/json. If it cannot be encoded, the call with this payload returns the
// error.
func JSON(v any) Payload {
	b, err := json.Marshal(v)
	return Payload{kind: JSONPayload, data: b, err: err}
}

// RawJSON returns a payload of JSON that is stored and delivered byte for byte. The caller must not change b
// afterwards.
func RawJSON(b []byte) Payload { return Payload{kind: JSONPayload, data: b} }

// Text returns a payload of text.
func Text(s string) Payload { return Payload{kind: TextPayload, data: []byte(s)} }

// Bytes returns a payload of any bytes. The caller must not change b afterwards.
func Bytes(b []byte) Payload { return Payload{kind: BinaryPayload, data: b} }

// Kind returns the kind.
func (p Payload) Kind() PayloadKind { return p.kind }

// Bytes returns the payload as the application receives it. The caller must not change it.
func (p Payload) Bytes() []byte { return p.data }

// String returns the payload as a text.
func (p Payload) String() string { return string(p.data) }

// Decode decodes a payload of JSON into v.
func (p Payload) Decode(v any) error {
	if p.kind != JSONPayload {
		return errors.New("the payload is not JSON")
	}
	return json.Unmarshal(p.data, v)
}

// check returns the fault of the payload, or nil. encoding/json would replace wrong UTF-8 without an error.
func (p Payload) check() *Error {
	switch {
	case p.err != nil:
		return &Error{Code: CodeInvalidValue, Field: "payload",
			Detail: "the payload cannot be encoded: " + p.err.Error(), Err: p.err}
	case p.kind == JSONPayload && (!json.Valid(p.data) || !utf8.Valid(p.data)):
		return invalid("payload", "the payload is not JSON in UTF-8; a text goes with Text")
	case p.kind == TextPayload && !utf8.Valid(p.data):
		return invalid("text", "the text is not UTF-8; other bytes go with Bytes")
	}
	return nil
}

// appendMember appends the payload as a member of a JSON object, with a comma before it. It appends nothing for an
// empty payload.
func (p Payload) appendMember(b []byte) []byte {
	switch p.kind {
	case JSONPayload:
		return append(append(b, `,"payload":`...), p.data...)
	case TextPayload:
		return appendQuoted(append(b, `,"text":`...), string(p.data))
	case BinaryPayload:
		b = append(b, `,"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, p.data)
		return append(b, '"')
	default:
		return b
	}
}

// appendQuoted appends s as a string in JSON.
func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // every string encodes
	}
	return append(b, quoted...)
}

// payloadFields are the members of alarms and rings that hold the payload.
type payloadFields struct {
	Payload json.RawMessage `json:"payload"`
	Text    *string         `json:"text"`
	Base64  *string         `json:"base64"`
}

// payload returns the payload that the members hold.
func (f *payloadFields) payload() (Payload, error) {
	switch {
	case f.Payload != nil:
		return RawJSON(f.Payload), nil
	case f.Text != nil:
		return Text(*f.Text), nil
	case f.Base64 != nil:
		b, err := base64.StdEncoding.DecodeString(*f.Base64)
		if err != nil {
			return Payload{}, fmt.Errorf("base64: %w", err)
		}
		return Bytes(b), nil
	}
	return Payload{}, nil
}
