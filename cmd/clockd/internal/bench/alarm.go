package bench

import (
	"bytes"
	"strconv"
)

// application is the one that all alarms belong to.
const application = "bench"

// maxSeries is how many alarms a series may have: what the digits of an id hold.
const maxSeries = 99_999_999

const (
	idDigits     = 8
	payloadBytes = 200
	contentType  = "application/json"
)

// series is a set of alarms that are numbered from 0. Its name comes first in their ids.
type series string

// appendID appends the business id of alarm n, like "herd-00000042".
func (s series) appendID(b []byte, n int) []byte {
	b = append(append(b, s...), '-')
	digits := strconv.AppendInt(nil, int64(n), 10)
	b = append(b, "00000000"[:idDigits-len(digits)]...)
	return append(b, digits...)
}

func (s series) id(n int) string { return string(s.appendID(nil, n)) }

// number returns the n of an id.
func (s series) number(id []byte) (n int, ok bool) {
	if len(id) != len(s)+1+idDigits || string(id[:len(s)]) != string(s) {
		return 0, false
	}
	n, err := strconv.Atoi(string(id[len(s)+1:]))
	return n, err == nil && n >= 0
}

// filler makes payloads as long as they shall be.
var filler = bytes.Repeat([]byte("clockd "), payloadBytes)

// appendPayload appends the payload of alarm n: JSON of payloadBytes that names the alarm, so that a mix-up shows.
func (s series) appendPayload(b []byte, n int) []byte {
	from := len(b)
	b = append(b, `{"order":"`...)
	b = s.appendID(b, n)
	b = append(b, `","note":"`...)
	b = append(b, filler[:payloadBytes-2-(len(b)-from)]...)
	return append(b, `"}`...)
}

// appendSet appends alarm n as a set of a batch, due at epoch milliseconds.
func (s series) appendSet(b []byte, n int, at int64) []byte {
	b = append(b, `{"business_id":"`...)
	b = s.appendID(b, n)
	b = append(b, `",`...)
	b = s.appendBody(b, n, at)
	return append(b, '}')
}

// appendBody appends the members that a single set has too.
func (s series) appendBody(b []byte, n int, at int64) []byte {
	b = append(b, `"ring_at":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"payload":`...)
	return s.appendPayload(b, n)
}
