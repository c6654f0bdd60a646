package clock

import (
	"bytes"
	"time"
)

// Key names an alarm: unique, compared byte for byte.
type Key struct {
	Application string // tenant and routing key
	BusinessID  string // the application's own id
}

// Shard returns the key's shard, from 0 to count-1. The hash (FNV-1a, 64 bits, over application, a zero byte and
// business id, folded to 32 bits) is stored with every alarm and must never change.
func (k Key) Shard(count int) int {
	h := fnv1a(fnvOffset, k.Application)
	h *= fnvPrime // the zero byte
	h = fnv1a(h, k.BusinessID)
	return int((uint32(h>>32) ^ uint32(h)) % uint32(count))
}

// FNV-1a as in hash/fnv, which would allocate for each key.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// PayloadKind tells how the payload was given, so that it is answered and streamed the same way. The numbers are
// stored.
type PayloadKind int8

// The kinds. NoPayload is an empty one.
const (
	NoPayload PayloadKind = 0
	JSON      PayloadKind = 1 // any JSON value, kept byte for byte
	Text      PayloadKind = 2
	Binary    PayloadKind = 3 // base64 in JSON
)

// DefaultContentType returns what content_type is when the set names none.
func (k PayloadKind) DefaultContentType() string {
	switch k {
	case JSON:
		return "application/json"
	case Text:
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// Content is what a set says of an alarm and what makes two sets the same.
type Content struct {
	RingAt       Instant
	LatestRingAt Instant // NoInstant: however late
	Payload      []byte
	PayloadKind  PayloadKind
	ContentType  string
	Retry        RetryPolicy
	AckTimeout   time.Duration // 0: rung is enough
	MaxRings     int           // with AckTimeout: how often it rings unacknowledged
	Priority     int           // 0 to 9: of alarms due at once the higher rings first
	Delivery     DeliveryMode
}

// Same reports whether c and d are equal in everything that a set compares.
func (c *Content) Same(d *Content) bool {
	return c.RingAt == d.RingAt && c.LatestRingAt == d.LatestRingAt && c.PayloadKind == d.PayloadKind &&
		c.ContentType == d.ContentType && c.Retry == d.Retry && c.AckTimeout == d.AckTimeout &&
		c.MaxRings == d.MaxRings && c.Priority == d.Priority && c.Delivery == d.Delivery && bytes.Equal(c.Payload, d.Payload)
}

// Alarm is one row: what was asked for and what has become of it.
type Alarm struct {
	ID int64 // never used twice; 0 until stored
	Key
	Shard      int
	State      State
	Generation int64 // 1 at creation, +1 at every change by a set
	Content
	Traceparent string

	NextTryTime Instant // when it is next due; NoInstant when it is over or paused
	RingNo      int     // confirmed rings of this generation
	RetryTimes  int     // tries that failed, of this generation
	LastError   string
	InDoubt     bool   // a try was published and its outcome is unknown
	ClaimID     string // of the last confirmed ring's transaction

	Answer     AnswerKind // the last one that was accepted, of this generation
	AnsweredBy string
	AnsweredAt Instant // NoInstant where there was none

	RungAt     Instant
	CreateTime Instant
	UpdateTime Instant
	FinishedAt Instant

	Attempts []Attempt // newest first, at most MaxAttempts; only where a single alarm is read
}

// MaxAttempts is how many failed tries of an alarm are kept.
const MaxAttempts = 20

// Attempt is one try to ring that was not confirmed, or a ring that was not acknowledged.
type Attempt struct {
	Generation int64
	RingNo     int // the number that the ring bore
	ClaimID    string
	Time       Instant
	Outcome    OutcomeKind
	Error      string
	By         string // who answered, for Released and Buried
}

// Claimed reports whether a two-phase claim holds the alarm: being delivered, outcome not yet known.
func (a *Alarm) Claimed() bool { return a.State == Ringing && a.RungAt == NoInstant }
