package settings

import "fmt"

// kafkaFields are the fields of the topic in a settings document.
var kafkaFields = []string{"topic", "key", "headers"}

// parseKafka reads the topic of a settings document. Fields that are left out have the values of NewKafka. The field of
// an error begins with kafka.
func parseKafka(raw []byte) (*Kafka, error) {
	k := NewKafka("")
	err := eachMember("", raw, kafkaFields, func(name string, raw []byte) error {
		switch name {
		case "topic":
			return parseTextField(raw, name, &k.Topic)
		case "key":
			return parseTextField(raw, name, (*string)(&k.Key))
		}
		return parseTextField(raw, name, (*string)(&k.Headers))
	})
	if err == nil {
		err = k.Validate()
	}
	if err != nil {
		return nil, within("kafka", err)
	}
	return k, nil
}

// kafkaFormat is the JSON of a topic in a settings document.
type kafkaFormat struct {
	Topic   string       `json:"topic"`
	Key     KafkaKey     `json:"key"`
	Headers KafkaHeaders `json:"headers"`
}

// format returns the JSON of the topic.
func (k *Kafka) format() *kafkaFormat {
	if k == nil {
		return nil
	}
	return &kafkaFormat{Topic: k.Topic, Key: k.Key, Headers: k.Headers}
}

// JSON returns the topic as it is in a settings document; null for nil.
func (k *Kafka) JSON() []byte {
	if k == nil {
		return []byte("null")
	}
	return fmt.Appendf(nil, `{"topic":%q,"key":%q,"headers":%q}`, k.Topic, k.Key, k.Headers) // only letters, digits and ._- occur
}
