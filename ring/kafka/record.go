package kafka

import (
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/clockd/clockd/clock"
)

// Names of the headers of a record. All values are text: numbers are decimal, instants are milliseconds since 1970 UTC.
const (
	headerMessageID    = "message-id"
	headerContentType  = "content-type"
	headerApplication  = "x-application"
	headerBusinessID   = "x-business-id"
	headerGeneration   = "x-generation" // also in the message id
	headerRingNo       = "x-ring-no"    // also in the message id
	headerTargetRingAt = "x-target-ring-at"
	headerRungAt       = "x-rung-at"
	headerRetryTimes   = "x-retry-times"
	headerClaimID      = "x-claim-id"
	headerTraceparent  = "traceparent"
)

// occurrenceHeaders are the headers of rings of repeating alarms.
var occurrenceHeaders = clock.OccurrenceNames{
	Number: "x-occurrence", At: "x-occurrence-at", PreviousAt: "x-occurrence-previous-at", NextAt: "x-occurrence-next-at",
}

// ownHeaders are the headers that clockd writes.
var ownHeaders = []string{
	headerMessageID, headerContentType, headerApplication, headerBusinessID, headerGeneration, headerRingNo,
	headerTargetRingAt, headerRungAt, headerRetryTimes, headerClaimID, headerTraceparent,
	occurrenceHeaders.Number, occurrenceHeaders.At, occurrenceHeaders.PreviousAt, occurrenceHeaders.NextAt,
}

// recordOf returns the record of a ring.
func recordOf(r *clock.Ring, t *Topic) *kgo.Record {
	rec := &kgo.Record{Topic: t.Name, Value: r.Payload, Headers: make([]kgo.RecordHeader, 0, 13)}
	switch t.Key {
	case KeyBusinessID:
		rec.Key = []byte(r.BusinessID)
	case KeyApplication:
		rec.Key = []byte(r.Application)
	case KeyNone:
	}
	if t.OwnKey != "" {
		rec.Key = []byte(t.OwnKey)
	}
	add := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	full := t.Headers == FullHeaders || t.OwnKey != "" // the key has nothing of the ring
	add(headerMessageID, r.MessageID())
	if r.ContentType != "" {
		add(headerContentType, r.ContentType)
	}
	if full || t.Key != KeyApplication {
		add(headerApplication, r.Application)
	}
	if full || t.Key != KeyBusinessID {
		add(headerBusinessID, r.BusinessID)
	}
	if full {
		add(headerGeneration, strconv.FormatInt(r.Generation, 10))
		add(headerRingNo, strconv.Itoa(r.RingNo))
	}
	add(headerTargetRingAt, strconv.FormatInt(int64(r.RingAt), 10))
	add(headerRungAt, strconv.FormatInt(int64(r.RungAt), 10))
	add(headerRetryTimes, strconv.Itoa(r.RetryTimes()))
	add(headerClaimID, r.ClaimID)
	if r.Traceparent != "" {
		add(headerTraceparent, r.Traceparent)
	}
	r.EachOccurrenceNumber(&occurrenceHeaders, func(name string, n int64) { add(name, strconv.FormatInt(n, 10)) })
	for _, name := range slices.Sorted(maps.Keys(t.OwnHeaders)) {
		add(name, t.OwnHeaders[name])
	}
	return rec
}
