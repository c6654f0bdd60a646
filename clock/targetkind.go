package clock

import (
	"fmt"
	"strings"
)

// TargetKind names where the rings of an application go. The numbers are stored.
type TargetKind int8

// The kinds of targets.
const (
	NoTarget      TargetKind = 0 // none is named: the default of the node (AMQP with a broker, else the stream)
	TargetAMQP    TargetKind = 1 // the exchange of RabbitMQ
	TargetStream  TargetKind = 2 // subscribers of the application's stream
	TargetWebhook TargetKind = 3 // the application's HTTP endpoint
	TargetKafka   TargetKind = 4 // the application's topic of Kafka
	TargetGRPC    TargetKind = 5 // the application's method of gRPC
	TargetPull    TargetKind = 6 // workers that reserve the application's rings
)

// targetNames has the name of each kind of target. To add a kind, add its name here and its route in cmd/clockd.
var targetNames = map[TargetKind]string{TargetAMQP: "amqp", TargetStream: "stream", TargetWebhook: "webhook",
	TargetKafka: "kafka", TargetGRPC: "grpc", TargetPull: "pull"}

// TargetKinds returns all kinds except NoTarget, in the order of their numbers.
func TargetKinds() []TargetKind {
	return []TargetKind{TargetAMQP, TargetStream, TargetWebhook, TargetKafka, TargetGRPC, TargetPull}
}

// ParseTargetKind returns the kind with this name.
func ParseTargetKind(name string) (TargetKind, error) {
	for _, k := range TargetKinds() {
		if k.String() == name {
			return k, nil
		}
	}
	return NoTarget, fmt.Errorf("target is %.64q; it must be one of: %s", name, targetList())
}

// TargetNames returns the names of the kinds of TargetKinds.
func TargetNames() (names []string) {
	for _, k := range TargetKinds() {
		names = append(names, k.String())
	}
	return names
}

// targetList returns the names of all kinds, for messages.
func targetList() string { return strings.Join(TargetNames(), ", ") }

// String returns the kind's name, as ParseTargetKind reads it; "" for NoTarget.
func (k TargetKind) String() string { return targetNames[k] }
