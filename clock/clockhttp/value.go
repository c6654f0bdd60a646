package clockhttp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// Each decoder of a single value reads raw JSON text and writes the value to into. For null it leaves into unchanged.

func decodeString(raw []byte, field string, into *string) error {
	switch {
	case isNull(raw):
		return nil
	case raw[0] != '"':
		return wrongType(field, "a string", raw)
	}
	s, err := unquote(raw)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" "+err.Error())
	}
	*into = s
	return nil
}

func decodeInt(raw []byte, field string, into *int) error {
	switch {
	case isNull(raw):
		return nil
	case !isNumber(raw):
		return wrongType(field, "a whole number", raw)
	}
	n, err := wholeNumber(raw, field)
	if err != nil {
		return err
	}
	if n != int64(int32(n)) {
		return clock.Invalid(clock.CodeOutOfRange, field, fmt.Sprintf("%s is out of range", field))
	}
	*into = int(n)
	return nil
}

// decodeTexts reads an array of strings, and calls take for each. null is an empty array.
func decodeTexts(raw []byte, field, example string, take func(text string) error) error {
	if isNull(raw) {
		return nil
	}
	es, ok := arrayElements(raw)
	if !ok {
		return wrongType(field, "an array like "+example, raw)
	}
	for value, more := es.next(); more; value, more = es.next() {
		var text string
		if err := decodeString(value, field, &text); err != nil {
			return err
		}
		if err := take(text); err != nil {
			return err
		}
	}
	return nil
}

func decodeInstant(raw []byte, field string, into *clock.Instant) error {
	switch {
	case isNull(raw):
		return nil
	case raw[0] == '"':
		return instantOfString(raw, field, into)
	case !isNumber(raw):
		return wrongType(field,
			`RFC 3339 with an offset, like "2030-01-31T18:30:00+01:00", or milliseconds since the epoch`, raw)
	}
	n, err := wholeNumber(raw, field)
	if err != nil {
		return err
	}
	i, err := clock.InstantOfMillis(n)
	if err != nil {
		return clock.Invalid(clock.CodeOutOfRange, field, field+": "+err.Error())
	}
	*into = i
	return nil
}

// instantOfString refuses bare digits. "2030" would mean two seconds after the epoch, and the alarm would ring at once.
func instantOfString(raw []byte, field string, into *clock.Instant) error {
	var s string
	if err := decodeString(raw, field, &s); err != nil {
		return err
	}
	if isBare(s) {
		return clock.Invalid(clock.CodeInvalidValue, field,
			field+" in quotes must be RFC 3339 with an offset; write milliseconds since the epoch without quotes")
	}
	if len(s) > maxQuoted {
		return tooLong(field)
	}
	i, err := clock.ParseInstant(s)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+": "+err.Error())
	}
	*into = i
	return nil
}

func decodeDuration(raw []byte, field string, into *time.Duration) (err error) {
	code := clock.CodeOutOfRange
	switch {
	case isNull(raw):
		return nil
	case isNumber(raw):
		var n int64
		if n, err = wholeNumber(raw, field); err != nil {
			return err
		}
		*into, err = clock.DurationOfMillis(n)
	case raw[0] == '"':
		var s string
		if err := decodeString(raw, field, &s); err != nil {
			return err
		}
		if len(s) > maxQuoted {
			return tooLong(field)
		}
		if !strings.HasPrefix(s, "-") {
			code = clock.CodeInvalidValue
		}
		if *into, err = clock.ParseDuration(s); err != nil && isBare(s) {
			err = fmt.Errorf("%w; a number without quotes is milliseconds", err)
		}
	default:
		return wrongType(field, `a duration like "30m", or milliseconds`, raw)
	}
	if err != nil {
		return clock.Invalid(code, field, field+": "+err.Error())
	}
	return nil
}

// maxQuoted is the longest text of a body, in bytes, that a message repeats. It is small because a stream holds many
// messages.
const maxQuoted = 64

func tooLong(field string) error {
	return clock.Invalid(clock.CodeInvalidValue, field, fmt.Sprintf("%s is longer than %d bytes", field, maxQuoted))
}

// wholeNumber reads a JSON number without a fraction. 1e3 and 5.0 are whole numbers too.
func wholeNumber(raw []byte, field string) (int64, error) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	const exact = 1 << 53 // a float64 holds every whole number up to this bound
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(f) > exact {
		return 0, clock.Invalid(clock.CodeOutOfRange, field, field+" is out of range")
	}
	if f != math.Trunc(f) {
		return 0, clock.Invalid(clock.CodeInvalidValue, field, field+" must be a whole number")
	}
	return int64(f), nil
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// isBare reports whether s is a number without a unit.
func isBare(s string) bool { return isDigits(strings.TrimPrefix(s, "+")) }

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func wrongType(field, want string, raw []byte) error {
	return clock.Invalid(clock.CodeInvalidValue, field, fmt.Sprintf("%s must be %s, not %s", field, want, kindOf(raw)))
}

// kindOf names the type of a JSON value.
func kindOf(raw []byte) string {
	raw = skipBlanks(raw)
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
