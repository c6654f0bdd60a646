package bench

import (
	"bytes"
	"strconv"
)

// application is the application of all alarms, and in stages with several applications the first of them.
const application = "bench"

// applicationOf returns the name of an application. It is numbered from 0.
func applicationOf(n int) string {
	if n == 0 {
		return application
	}
	return application + strconv.Itoa(n)
}

// maxSeries is the largest number of alarms in a series. It is limited by the digits of an id.
const maxSeries = 99_999_999

const (
	idDigits     = 8
	payloadBytes = 200
	contentType  = "application/json"
)

// series is the name of a set of alarms that are numbered from 0. Their ids begin with the name.
type series string

// appendID appends the business id of alarm n, like "herd-00000042".
func (s series) appendID(b []byte, n int) []byte {
	b = append(append(b, s...), '-')
	digits := strconv.AppendInt(nil, int64(n), 10)
	b = append(b, "00000000"[:idDigits-len(digits)]...)
	return append(b, digits...)
}

func (s series) id(n int) string { return string(s.appendID(nil, n)) }

// number returns the number of the alarm with this id. ok is false if the id is not of this series.
func (s series) number(id []byte) (n int, ok bool) {
	if len(id) != len(s)+1+idDigits || string(id[:len(s)]) != string(s) {
		return 0, false
	}
	n, err := strconv.Atoi(string(id[len(s)+1:]))
	return n, err == nil && n >= 0
}

// filler is text that fills payloads up to payloadBytes.
var filler = bytes.Repeat([]byte("clockd "), payloadBytes)

// appendPayload appends the payload of alarm n: payloadBytes of JSON. It contains the id, so that a mix-up shows.
func (s series) appendPayload(b []byte, n int) []byte {
	from := len(b)
	b = append(b, `{"order":"`...)
	b = s.appendID(b, n)
	b = append(b, `","note":"`...)
	b = append(b, filler[:payloadBytes-2-(len(b)-from)]...)
	return append(b, `"}`...)
}

// appendSet appends alarm n as a set in a batch. dueAt is its due time in epoch milliseconds.
func (s series) appendSet(b []byte, n int, dueAt int64) []byte {
	b = append(b, `{"business_id":"`...)
	b = s.appendID(b, n)
	b = append(b, `",`...)
	b = s.appendBody(b, n, dueAt)
	return append(b, '}')
}

// appendBody appends the JSON members that a single set and a set in a batch have in common.
func (s series) appendBody(b []byte, n int, dueAt int64) []byte {
	if s == definitions {
		b = appendDaily(b, n, dueAt)
	} else {
		b = append(b, `"ring_at":`...)
		b = strconv.AppendInt(b, dueAt, 10)
	}
	b = append(b, `,"payload":`...)
	return s.appendPayload(b, n)
}

// definitions is the series of alarms that ring again, each day from its due time on.
const definitions series = "cron"

// appendDaily appends the rule of definition n: a cron expression with one of the minutes of a day, in a time zone with
// daylight saving.
func appendDaily(b []byte, n int, from int64) []byte {
	b = strconv.AppendInt(append(b, `"repeat":{"cron":"`...), int64(n%60), 10)
	b = strconv.AppendInt(append(b, ' '), int64(n/60%24), 10)
	b = append(b, ` * * *","time_zone":"Europe/Berlin","from":`...)
	return append(strconv.AppendInt(b, from, 10), '}')
}
