package clockhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// bodyKind is the place of a set's body. It decides which fields the body may have besides the common fields of a set.
type bodyKind uint8

const (
	pathBody bodyKind = iota // body of a PUT: the key is in the path
	itemBody                 // item of a batch: with business_id
	lineBody                 // line of a stream: a set with business_id, or a cancel
)

// setBody is a decoded set. In a stream it may be a cancel instead.
type setBody struct {
	set      clock.Set // without application and traceparent; RingAt is NoInstant if none is given
	isCancel bool      // true: the line cancels set.BusinessID
}

// setField is one field of a set body.
type setField struct {
	bit    uint32   // the field's bit in setDecoder.seen
	kind   bodyKind // first kind of body that may have the field; later kinds may have it too
	decode func(d *setDecoder, raw []byte) error
}

// setFields holds the fields by name. init fills it, because the decode functions use setFields in their messages.
var setFields map[string]setField

func init() {
	setFields = map[string]setField{
		"business_id":    {kind: itemBody, decode: (*setDecoder).businessID},
		"cancel":         {kind: lineBody, decode: (*setDecoder).cancel},
		"ring_at":        {decode: (*setDecoder).ringAt},
		"delay":          {decode: (*setDecoder).delay},
		"latest_ring_at": {decode: (*setDecoder).latestRingAt},
		"payload":        {decode: (*setDecoder).payload},
		"text":           {decode: (*setDecoder).text},
		"base64":         {decode: (*setDecoder).base64},
		"content_type":   {decode: (*setDecoder).contentType},
		"if":             {decode: (*setDecoder).condition},
		"retry":          {decode: (*setDecoder).retry},
		"ack_timeout":    {decode: (*setDecoder).ackTimeout},
		"max_rings":      {decode: (*setDecoder).maxRings},
		"priority":       {decode: (*setDecoder).priority},
		"repeat":         {decode: (*setDecoder).repeat},
		"delivery":       {decode: (*setDecoder).delivery},
		"target":         {decode: (*setDecoder).target},
		"receiver":       {decode: (*setDecoder).receiver},
		"time_zone":      {decode: (*setDecoder).timeZone},
	}
	bit := uint32(1)
	for _, name := range slices.Sorted(maps.Keys(setFields)) {
		f := setFields[name]
		f.bit = bit
		setFields[name] = f
		bit <<= 1
	}
}

// setDecoder decodes one set body, field by field.
type setDecoder struct {
	kind bodyKind
	seen uint32 // bits of the fields that the body had so far
	body setBody

	ringAtJSON []byte  // value of ring_at; nil: not given, or null
	zone       *string // value of time_zone; nil: not given
}

// decodeSet reads a set. It returns a 400 problem for a body that is not JSON, and an ErrInvalid with the field's name
// for every other fault. The result shares no memory with body. On an error, the result holds the fields read so far,
// because a batch's result repeats the business_id.
func decodeSet(body []byte, kind bodyKind) (*setBody, error) {
	if err := checkJSON(body); err != nil {
		return new(setBody), err
	}
	return decodeValidSet(body, kind)
}

// checkJSON returns a 400 problem unless body is one JSON value in UTF-8.
func checkJSON(body []byte) error {
	if isJSON(body) && utf8.Valid(body) {
		return nil
	}
	return &front.Problem{Status: 400, Code: codeNotJSON, Detail: whyNotJSON(body)}
}

// isJSON is json.Valid in less than half the time.
func isJSON(body []byte) bool {
	return jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func whyNotJSON(body []byte) string {
	if len(skipBlanks(body)) == 0 {
		return "the body is empty; send a JSON object"
	}
	var into json.RawMessage
	err := json.Unmarshal(body, &into)
	if err == nil {
		return "the body is not UTF-8; JSON must be UTF-8"
	}
	detail := "not JSON: " + err.Error()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		detail += fmt.Sprintf(", at byte %d", syntax.Offset)
	}
	return detail
}

// decodeValidSet is decodeSet for a body that passed checkJSON.
func decodeValidSet(body []byte, kind bodyKind) (*setBody, error) {
	d := &setDecoder{kind: kind}
	d.body.set = clock.EmptySet()
	ms, ok := objectMembers(body)
	if !ok {
		return &d.body, clock.Invalid(clock.CodeInvalidValue, "",
			`a set must be a JSON object like {"delay": "30m"}, not `+kindOf(body))
	}
	for key, value, more := ms.next(); more; key, value, more = ms.next() {
		if err := d.member(key, value); err != nil {
			return &d.body, err
		}
	}
	return &d.body, d.finish()
}

func (d *setDecoder) member(key, value []byte) error {
	f, known := setFields[string(key[1:len(key)-1])]
	if !known || f.kind > d.kind {
		return d.escapedOrUnknownMember(key, value)
	}
	return d.decode(key, &f, value)
}

// escapedOrUnknownMember decodes a member whose name is written with escapes. It refuses a name that the body may not
// have.
func (d *setDecoder) escapedOrUnknownMember(key, value []byte) error {
	name := nameOf(key)
	f, known := setFields[name]
	switch {
	case known && f.kind <= d.kind:
		return d.decode(key, &f, value)
	case known && name == "business_id":
		return clock.Invalid(clock.CodeUnknownField, name, "business_id belongs in the path, not in the body")
	case known:
		return clock.Invalid(clock.CodeUnknownField, name,
			"cancel is for lines of application/x-ndjson; here, use DELETE or the batch's cancel list")
	}
	return unknownField("", name, d.known())
}

func (d *setDecoder) decode(key []byte, f *setField, value []byte) error {
	if d.seen&f.bit != 0 {
		name, _ := unquote(key)
		return duplicateField(name)
	}
	d.seen |= f.bit
	return f.decode(d, value)
}

// known returns the names of the fields that the body may have.
func (d *setDecoder) known() []string {
	var names []string
	for name, f := range setFields {
		if f.kind <= d.kind {
			names = append(names, name)
		}
	}
	return names
}

func unknownField(parent, name string, known []string) error {
	slices.Sort(known)
	shown := name
	if len(name) > maxQuoted {
		shown = strings.ToValidUTF8(name[:maxQuoted], "") + "..."
	}
	return clock.Invalid(clock.CodeUnknownField, parent+shown,
		fmt.Sprintf("unknown field %q; known are %s", parent+shown, strings.Join(known, ", ")))
}

func duplicateField(name string) error {
	return clock.Invalid(codeDuplicateField, name, name+" occurs twice; give it once")
}

// finish checks the fields together and fills in the default content type. The domain checks ranges and times.
func (d *setDecoder) finish() error {
	s := &d.body.set
	if d.body.isCancel {
		return d.finishCancel()
	}
	if d.kind != pathBody && s.BusinessID == "" {
		return clock.Invalid(clock.CodeRequired, "business_id", d.needsID())
	}
	if s.ContentType == "" {
		s.ContentType = s.PayloadKind.DefaultContentType()
	}
	return d.finishRingAt()
}

// finishRingAt reads ring_at: an instant, or with time_zone a local time.
func (d *setDecoder) finishRingAt() error {
	s := &d.body.set
	switch {
	case d.zone == nil && d.ringAtJSON == nil:
		return nil
	case d.zone == nil:
		return decodeInstant(d.ringAtJSON, "ring_at", &s.RingAt)
	case s.Repeat != nil:
		return clock.Invalid(clock.CodeAmbiguous, "time_zone", "the time zone of a rule is repeat.time_zone")
	case d.ringAtJSON == nil:
		return clock.Invalid(clock.CodeAmbiguous, "time_zone",
			`time_zone is for a local ring_at like "2030-01-31T18:30:00"`)
	case d.ringAtJSON[0] != '"':
		return wrongType("ring_at", `with time_zone a local time like "2030-01-31T18:30:00"`, d.ringAtJSON)
	}
	var local string
	if err := decodeString(d.ringAtJSON, "ring_at", &local); err != nil {
		return err
	}
	if _, err := clock.ParseInstant(local); err == nil {
		return clock.Invalid(clock.CodeAmbiguous, "time_zone",
			"ring_at has an offset: leave out the offset or time_zone")
	}
	return s.SetLocalTime(local, *d.zone, "ring_at")
}

func (d *setDecoder) needsID() string {
	if d.kind == lineBody {
		return `give the alarm's business_id, or {"cancel": "its id"}`
	}
	return "give the alarm's business_id"
}

func (d *setDecoder) finishCancel() error {
	if d.seen == setFields["cancel"].bit {
		return nil
	}
	return clock.Invalid(clock.CodeAmbiguous, "cancel",
		"a line is a set or a cancel: a line with cancel has no other field")
}

func isNull(raw []byte) bool { return raw[0] == 'n' }

func (d *setDecoder) businessID(raw []byte) error {
	return decodeString(raw, "business_id", &d.body.set.BusinessID)
}

func (d *setDecoder) cancel(raw []byte) error {
	d.body.isCancel = true
	if raw[0] != '"' {
		return wrongType("cancel", "the business_id as a string", raw)
	}
	return decodeString(raw, "cancel", &d.body.set.BusinessID)
}

func (d *setDecoder) ringAt(raw []byte) error {
	if !isNull(raw) {
		d.ringAtJSON = raw
	}
	return nil
}

func (d *setDecoder) timeZone(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	d.zone = new(string)
	return decodeString(raw, "time_zone", d.zone)
}

func (d *setDecoder) latestRingAt(raw []byte) error {
	return decodeInstant(raw, "latest_ring_at", &d.body.set.LatestRingAt)
}

func (d *setDecoder) delay(raw []byte) error {
	d.body.set.Delay.Given = !isNull(raw)
	return decodeDuration(raw, "delay", &d.body.set.Delay.Span)
}

// ackTimeout reads 0 as no acknowledgement, whatever the application's settings say.
func (d *setDecoder) ackTimeout(raw []byte) error {
	if !isNull(raw) {
		d.body.set.Omitted &^= clock.AckTimeoutOption
	}
	return decodeDuration(raw, "ack_timeout", &d.body.set.AckTimeout)
}

func (d *setDecoder) maxRings(raw []byte) error {
	if !isNull(raw) {
		d.body.set.Omitted &^= clock.MaxRingsOption
	}
	return decodeInt(raw, "max_rings", &d.body.set.MaxRings)
}

func (d *setDecoder) priority(raw []byte) error {
	return decodeInt(raw, "priority", &d.body.set.Priority)
}

func (d *setDecoder) target(raw []byte) error {
	var name string
	if err := decodeString(raw, "target", &name); err != nil || isNull(raw) {
		return err
	}
	if len(name) > maxQuoted {
		return tooLong("target")
	}
	set := &d.body.set
	var err error
	set.Target, set.Destination.Name, err = clock.ParseTarget(name)
	return err
}

// receiver keeps a copy of the JSON, whose fields the domain reads.
func (d *setDecoder) receiver(raw []byte) error {
	switch {
	case isNull(raw):
		return nil
	case raw[0] != '{':
		return wrongType("receiver", `an object like {"method": "PUT"}`, raw)
	case len(raw) > clock.MaxReceiver:
		return clock.ValidateReceiver(string(raw))
	}
	d.body.set.Receiver = string(raw)
	return nil
}

func (d *setDecoder) delivery(raw []byte) error {
	var name string
	if err := decodeString(raw, "delivery", &name); err != nil || isNull(raw) {
		return err
	}
	if len(name) > maxQuoted {
		return tooLong("delivery")
	}
	mode, err := clock.ParseDeliveryMode(name)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, "delivery", err.Error())
	}
	d.body.set.Delivery = mode
	return nil
}

// contentType refuses a value of a wrong length early, so that a stream's window never holds a very long value.
func (d *setDecoder) contentType(raw []byte) error {
	s := &d.body.set
	if err := decodeString(raw, "content_type", &s.ContentType); err != nil || isNull(raw) {
		return err
	}
	if n := len(s.ContentType); n == 0 || n > clock.MaxContentType {
		return clock.Invalid(clock.CodeInvalidValue, "content_type", fmt.Sprintf(
			"content_type must be 1 to %d printable ASCII characters; leave it out for the default",
			clock.MaxContentType))
	}
	return nil
}

func (d *setDecoder) condition(raw []byte) error {
	var name string
	if err := decodeString(raw, "if", &name); err != nil || isNull(raw) {
		return err
	}
	for _, k := range []clock.ConditionKind{clock.Absent, clock.Earlier, clock.Later} {
		if k.String() == name {
			d.body.set.If.Kind = k
			return nil
		}
	}
	if len(name) > maxQuoted {
		return tooLong("if")
	}
	return clock.Invalid(clock.CodeInvalidValue, "if", fmt.Sprintf(
		`if is %q; it must be "absent", "earlier" or "later" (a generation goes into the header If-Match)`, name))
}
