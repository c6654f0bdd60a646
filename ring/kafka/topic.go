package kafka

import (
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// Topic says to which topic the rings of one application go, and how. It does not change.
type Topic struct {
	Name    string // 1 to 249 of A-Z, a-z, 0-9, dot, underscore and hyphen; neither "." nor ".."
	Key     Key
	Headers Headers
}

// Key is the key of the records of an application's rings. Kafka keeps the order of records with one key.
type Key string

// The keys of records.
const (
	KeyBusinessID  Key = "business_id" // the alarm's business_id
	KeyApplication Key = "application" // the application's name: all its rings go to one partition
	KeyNone        Key = "none"        // no key: the producer chooses a partition for each batch
)

// Headers are the headers of records.
type Headers string

// The headers of records.
const (
	FullHeaders Headers = "full" // all headers
	LeanHeaders Headers = "lean" // no header whose content is also in the key or in another header
)

// NewTopic returns the topic with the defaults.
func NewTopic(name string) *Topic {
	return &Topic{Name: name, Key: KeyBusinessID, Headers: FullHeaders}
}

// maxTopic is the longest name of a topic that Kafka takes, in bytes.
const maxTopic = 249

// Part is the topic in the settings of an application.
var Part = &settings.Part[Topic]{
	Name: "kafka", Type: "Kafka", Target: clock.TargetKafka, Needs: "a topic",
	Help: "The topic of an application whose target is kafka.",
	New:  func() *Topic { return NewTopic("") },
	Fields: []settings.Field[Topic]{
		settings.Text(settings.FieldInfo{
			Name: "topic", Flag: "topic", Required: true, Max: maxTopic, Example: "shop-rings",
			Help: "Topic that rings are produced to.",
		}, func(t *Topic) *string { return &t.Name }, topicFault),
		settings.Choice(settings.FieldInfo{
			Name: "key", Help: "The key of records. Records with one key keep their order.",
		}, func(t *Topic) *Key { return &t.Key }, KeyBusinessID, KeyApplication, KeyNone),
		settings.Choice(settings.FieldInfo{
			Name: "headers", Help: "lean: no header whose content is also in the key or in another header.",
		}, func(t *Topic) *Headers { return &t.Headers }, FullHeaders, LeanHeaders),
	},
}

// topicFault returns the fault of a topic's name.
func topicFault(name string) *settings.Fault {
	illegal := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}
	if name == "." || name == ".." || strings.ContainsFunc(name, illegal) {
		return settings.Wrong("must be of letters, digits, dots, underscores and hyphens, and neither . nor ..")
	}
	return nil
}
