package settings

import (
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock"
)

// maxKafkaTopic is the longest name of a topic that Kafka takes, in bytes.
const maxKafkaTopic = 249

// KafkaKey is the key of the records of an application's rings. Kafka keeps the order of records with one key.
type KafkaKey string

// The keys of records.
const (
	KafkaKeyBusinessID  KafkaKey = "business_id" // the alarm's business_id
	KafkaKeyApplication KafkaKey = "application" // the application's name: all its rings go to one partition
	KafkaKeyNone        KafkaKey = "none"        // no key: the producer chooses a partition for each batch
)

// KafkaHeaders are the headers of records.
type KafkaHeaders string

// The headers of records.
const (
	KafkaHeadersFull KafkaHeaders = "full" // all headers
	KafkaHeadersLean KafkaHeaders = "lean" // no header whose content is also in the key or in another header
)

// Kafka says to which topic the rings of one application go, and how. It does not change.
type Kafka struct {
	Topic   string // 1 to 249 of A-Z, a-z, 0-9, dot, underscore and hyphen; neither "." nor ".."
	Key     KafkaKey
	Headers KafkaHeaders
}

// NewKafka returns the topic with the defaults.
func NewKafka(topic string) *Kafka {
	return &Kafka{Topic: topic, Key: KafkaKeyBusinessID, Headers: KafkaHeadersFull}
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field, or nil.
func (k *Kafka) Validate() error {
	legal := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	switch {
	case k.Topic == "":
		return clock.Invalid(clock.CodeRequired, "topic", "topic is required")
	case len(k.Topic) > maxKafkaTopic:
		return clock.Invalid(clock.CodeOutOfRange, "topic", fmt.Sprintf("topic has more than %d bytes", maxKafkaTopic))
	case k.Topic == "." || k.Topic == ".." || strings.ContainsFunc(k.Topic, func(r rune) bool { return !legal(r) }):
		return clock.Invalid(clock.CodeInvalidValue, "topic",
			"topic must be of letters, digits, dots, underscores and hyphens, and neither . nor ..")
	case k.Key != KafkaKeyBusinessID && k.Key != KafkaKeyApplication && k.Key != KafkaKeyNone:
		return clock.Invalid(clock.CodeInvalidValue, "key", "key must be business_id, application or none")
	case k.Headers != KafkaHeadersFull && k.Headers != KafkaHeadersLean:
		return clock.Invalid(clock.CodeInvalidValue, "headers", "headers must be full or lean")
	}
	return nil
}
