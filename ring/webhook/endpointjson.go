package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// storedEndpoint is the JSON form of an Endpoint.
type storedEndpoint struct {
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        BodyKind          `json:"body"`
	Timeout     string            `json:"timeout"`
	Concurrency int               `json:"concurrency"`
	Secrets     []string          `json:"secrets"`
}

// MarshalJSON writes the endpoint with its secrets, as ParseEndpoint reads it. Show people the JSON of Redacted.
func (e *Endpoint) MarshalJSON() ([]byte, error) {
	s := storedEndpoint{
		URL: e.URL, Method: e.Method, Headers: e.Headers, Body: e.Body, Timeout: strconv.FormatInt(e.Timeout.Milliseconds(), 10) + "ms",
		Concurrency: e.Concurrency, Secrets: make([]string, len(e.Secrets)),
	}
	if e.Timeout%time.Second == 0 {
		s.Timeout = strconv.FormatInt(int64(e.Timeout/time.Second), 10) + "s"
	}
	for i := range e.Secrets {
		s.Secrets[i] = string(e.Secrets[i])
	}
	return json.Marshal(s)
}

// UnmarshalJSON is ParseEndpoint.
func (e *Endpoint) UnmarshalJSON(b []byte) error {
	parsed, err := ParseEndpoint(b)
	if err == nil {
		*e = *parsed
	}
	return err
}

// endpointFields reads the value of each field.
var endpointFields = map[string]func(e *Endpoint, raw json.RawMessage) error{
	"url":         func(e *Endpoint, raw json.RawMessage) error { return decodeText(raw, "url", &e.URL) },
	"method":      func(e *Endpoint, raw json.RawMessage) error { return decodeText(raw, "method", &e.Method) },
	"body":        func(e *Endpoint, raw json.RawMessage) error { return decodeText(raw, "body", (*string)(&e.Body)) },
	"headers":     (*Endpoint).decodeHeaders,
	"timeout":     (*Endpoint).decodeTimeout,
	"concurrency": (*Endpoint).decodeConcurrency,
	"secrets":     (*Endpoint).decodeSecrets,
}

// ParseEndpoint reads the JSON form of an endpoint. Fields that are missing have their defaults. The error is an *clock.Error of kind
// ErrInvalid that names the field: also for an unknown field, and for a field that comes twice.
func ParseEndpoint(b []byte) (*Endpoint, error) {
	e := NewEndpoint("")
	err := eachMember(b, "", "an endpoint", func(name string, value json.RawMessage) error {
		decode := endpointFields[name]
		if decode == nil {
			return clock.Invalid(clock.CodeUnknownField, shown(name), fmt.Sprintf("%s is not a field of an endpoint", shown(name)))
		}
		return decode(e, value)
	})
	if err != nil {
		return nil, err
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return e, nil
}

// eachMember calls member with each member of the object b. It refuses a name that comes twice.
func eachMember(b []byte, prefix, what string, member func(name string, value json.RawMessage) error) error {
	field := strings.TrimSuffix(prefix, ".")
	if !json.Valid(b) || !utf8.Valid(b) {
		return clock.Invalid(clock.CodeInvalidValue, field, what+" must be JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return clock.Invalid(clock.CodeInvalidValue, field, what+" must be a JSON object")
	}
	var seen []string
	for dec.More() {
		token, err := dec.Token()
		name, isName := token.(string)
		var value json.RawMessage
		if err == nil && isName {
			err = dec.Decode(&value)
		}
		if err != nil || !isName {
			return clock.Invalid(clock.CodeInvalidValue, field, what+" must be a JSON object")
		}
		if slices.Contains(seen, name) {
			return clock.Invalid(clock.CodeAmbiguous, prefix+shown(name), prefix+shown(name)+" comes twice")
		}
		if seen = append(seen, name); len(seen) > maxMembers {
			return clock.Invalid(clock.CodeOutOfRange, field, what+" has too many members")
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	return nil
}

// maxMembers bounds the members of an object that is read. It is above the bounds of all objects.
const maxMembers = 2 * maxHeaders

func decodeText(raw json.RawMessage, field string, into *string) error {
	if raw[0] != '"' {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a string")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a string")
	}
	return nil
}

func (e *Endpoint) decodeHeaders(raw json.RawMessage) error {
	e.Headers = nil
	return eachMember(raw, "headers.", "headers", func(name string, value json.RawMessage) error {
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		var text string
		err := decodeText(value, "headers."+shown(name), &text)
		e.Headers[name] = text
		return err
	})
}

func (e *Endpoint) decodeTimeout(raw json.RawMessage) error {
	text := string(raw)
	if raw[0] == '"' {
		if err := decodeText(raw, "timeout", &text); err != nil {
			return err
		}
		if _, err := strconv.Atoi(text); err == nil {
			return clock.Invalid(clock.CodeInvalidValue, "timeout", `timeout has no unit: write "15s", or milliseconds without quotes`)
		}
	}
	d, err := clock.ParseDuration(text)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, "timeout", `timeout must be a duration like "15s", or milliseconds`)
	}
	e.Timeout = d
	return nil
}

func (e *Endpoint) decodeConcurrency(raw json.RawMessage) error {
	n, err := strconv.Atoi(string(raw))
	switch {
	case errors.Is(err, strconv.ErrRange):
		return clock.Invalid(clock.CodeOutOfRange, "concurrency", fmt.Sprintf("concurrency must be from 1 to %d", MaxConcurrency))
	case err != nil:
		return clock.Invalid(clock.CodeInvalidValue, "concurrency", "concurrency must be a whole number")
	}
	e.Concurrency = n
	return nil
}

func (e *Endpoint) decodeSecrets(raw json.RawMessage) error {
	var values []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &values) != nil {
		return clock.Invalid(clock.CodeInvalidValue, "secrets", "secrets must be an array of strings")
	}
	e.Secrets = nil
	for i, value := range values {
		var text string
		if err := decodeText(value, fmt.Sprintf("secrets[%d]", i), &text); err != nil {
			return err
		}
		e.Secrets = append(e.Secrets, Secret(text))
	}
	return nil
}
