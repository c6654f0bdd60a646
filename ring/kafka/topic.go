package kafka

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// Topic says to which topic the rings of one application go, and how. It does not change.
type Topic struct {
	Name    string // 1 to 249 of A-Z, a-z, 0-9, dot, underscore and hyphen; neither "." nor ".."
	Key     Key
	Headers Headers

	AlarmFields settings.Patterns // fields that alarms may bring themselves; nil: none

	OwnKey     string            // key that an alarm brings itself, instead of Key; "": none
	OwnHeaders map[string]string // further headers that an alarm brings itself; nil: none
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

// topicField is the field with the name of the topic.
var topicField = settings.Text(settings.FieldInfo{
	Name: "topic", Flag: "topic", Required: true, Max: maxTopic, Example: "shop-rings",
	Help: "Topic that rings are produced to.",
}, func(t *Topic) *string { return &t.Name }, topicFault)

// own are the fields that alarms may bring themselves.
var own = &settings.Own[Topic]{
	Fields: []settings.OwnField[Topic]{
		{Field: topicField},
		{Field: settings.Text(settings.FieldInfo{Name: "key", Max: clock.MaxReceiver},
			func(t *Topic) *string { return &t.OwnKey }, nil)},
		{Field: settings.Texts(settings.FieldInfo{Name: "headers"},
			func(t *Topic) *map[string]string { return &t.OwnHeaders }, allHeadersFault, headerFault)},
	},
	Patterns: func(t *Topic) settings.Patterns { return t.AlarmFields },
	With:     (*Topic).with,
	Place:    func(t *Topic) string { return t.Name },
}

// with returns a copy of t with the fields of own that are not empty.
func (t *Topic) with(own *Topic) *Topic {
	merged := *t
	merged.Name = cmp.Or(own.Name, t.Name)
	merged.OwnKey, merged.OwnHeaders = own.OwnKey, own.OwnHeaders
	return &merged
}

// maxHeaders is the most headers that an alarm may bring itself.
const maxHeaders = 32

func allHeadersFault(headers map[string]string) *settings.Fault {
	if len(headers) > maxHeaders {
		return settings.TooMuch("must be at most %d", maxHeaders)
	}
	return nil
}

// headerFault returns the fault of the name of one header.
func headerFault(_ map[string]string, name string) *settings.Fault {
	switch {
	case name == "" || strings.ContainsFunc(name, unicode.IsControl):
		return settings.Wrong("is not the name of a header")
	case slices.Contains(ownHeaders, strings.ToLower(name)): // consumers may ignore the case
		return settings.Wrong("is a header that clockd writes itself")
	}
	return nil
}

// Part is the topic in the settings of an application.
var Part = &settings.Part[Topic]{
	Name: "kafka", Type: "Kafka", Target: clock.TargetKafka, Needs: "a topic",
	Help: "The topic of an application whose target is kafka.",
	New:  func() *Topic { return NewTopic("") },
	Own:  own,
	Fields: []settings.Field[Topic]{
		topicField,
		settings.Choice(settings.FieldInfo{
			Name: "key", Help: "The key of records. All records with one key go to one partition.",
		}, func(t *Topic) *Key { return &t.Key }, KeyBusinessID, KeyApplication, KeyNone),
		settings.Choice(settings.FieldInfo{
			Name: "headers", Help: "lean: no header whose content is also in the key or in another header.",
		}, func(t *Topic) *Headers { return &t.Headers }, FullHeaders, LeanHeaders),
		settings.AlarmFields(own.Fields, func(t *Topic) *settings.Patterns { return &t.AlarmFields }),
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
