package clock

import (
	"bytes"
	"time"
)

// Key identifies an alarm. Keys are unique and compared byte for byte.
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

// FNV-1a as in hash/fnv. That package would allocate memory for each key.
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

// PayloadKind is the form in which a set gave the payload. Responses and streams show the payload in the same form. The numbers
// are stored.
type PayloadKind int8

// The kinds of payload.
const (
	NoPayload PayloadKind = 0 // an empty payload
	JSON      PayloadKind = 1 // any JSON value, kept byte for byte
	Text      PayloadKind = 2
	Binary    PayloadKind = 3 // base64 in JSON
)

// DefaultContentType returns the content_type of an alarm whose set names none.
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

// Content is the part of an alarm that a set gives. Two sets with equal content are the same set.
type Content struct {
	RingAt       Instant
	LatestRingAt Instant // NoInstant: however late
	Payload      []byte
	PayloadKind  PayloadKind
	ContentType  string
	Retry        RetryPolicy
	AckTimeout   time.Duration // time for the acknowledgement of a ring; 0: none is wanted
	MaxRings     int           // with AckTimeout: rings until the alarm is dead, if none is acknowledged
	Priority     int           // 0 to 9; among alarms due at the same time the higher priority rings first
	Delivery     DeliveryMode
}

// Same reports whether two sets with these contents are the same set.
func (c *Content) Same(other *Content) bool {
	return c.RingAt == other.RingAt && c.LatestRingAt == other.LatestRingAt && c.PayloadKind == other.PayloadKind &&
		c.ContentType == other.ContentType && c.Retry == other.Retry && c.AckTimeout == other.AckTimeout &&
		c.MaxRings == other.MaxRings && c.Priority == other.Priority && c.Delivery == other.Delivery && bytes.Equal(c.Payload, other.Payload)
}

// Same is Content.Same. An alarm whose row cannot be read is the same as no content.
func (a *Alarm) Same(other *Content) bool { return a.Unreadable == "" && a.Content.Same(other) }

// Alarm is one row: the content that the application set, and the alarm's state.
type Alarm struct {
	ID int64 // never used twice; 0 until stored
	Key
	Shard      int
	State      State
	Generation int64 // 1 at creation, plus 1 for every change by a set
	Content
	Traceparent string

	NextTryTime Instant // next due time, never before the write that stored it; NoInstant for finished and paused alarms
	RingNo      int     // confirmed rings of this generation
	RetryTimes  int     // failed tries of this generation
	LastError   string
	Unreadable  string // why the stored row cannot be read (the same text as LastError); empty for readable rows
	InDoubt     bool   // a try was published, and its outcome is unknown
	ClaimID     string // claim of the last confirmed ring

	Answer     AnswerKind // last accepted answer of this generation
	AnsweredBy string
	AnsweredAt Instant // NoInstant before the first answer

	RungAt     Instant
	CreateTime Instant
	UpdateTime Instant
	FinishedAt Instant

	Attempts []Attempt // newest first, at most MaxAttempts; nil unless Store.Get read the alarm
}

// MaxAttempts is how many attempts of an alarm are kept, at most.
const MaxAttempts = 20

// Attempt is one try whose ring was not confirmed, or one ring that was released, buried or not acknowledged.
type Attempt struct {
	Generation int64
	RingNo     int // the ring's number
	ClaimID    string
	Time       Instant
	Outcome    OutcomeKind
	Error      string
	By         string // sender of the answer, for Released and Buried
}

// Claimed reports whether a two-phase claim has taken the alarm: its ring is in flight, and the outcome is not known yet.
func (a *Alarm) Claimed() bool { return a.State == Ringing && a.RungAt == NoInstant }
