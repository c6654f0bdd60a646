package clock

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// MaxReceiver is the size of the fields of a receiver that an alarm brings itself, in bytes of their JSON.
const MaxReceiver = 4096

// MaxNumber is the highest number of a receiver. Those above MaxDestinations are for alarms that bring fields of their
// receiver themselves.
const MaxNumber = 255

// OwnReceiver is what a ring has of its receiver from its alarm. The zero value is nothing: the settings have all of
// it.
type OwnReceiver struct {
	Fields      string // a JSON object
	Destination string // name of the destination that has the other fields; "": the application itself has them
}

// OwnPlace is the receiver that a set brings itself, as it is stored. It is zero if the set brings no field.
type OwnPlace struct {
	Fields string // a JSON object; equal objects have equal texts
	Number int    // OwnNumber of the place
}

// OwnNumber returns the number of alarms whose own receiver is in this place, such as a server or a topic. Places may
// share a number, and then a queue.
func OwnNumber(place string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(place)) // a hash takes all
	return MaxDestinations + 1 + int(h.Sum32()%(MaxNumber-MaxDestinations))
}

// shownReceiver returns fields of a receiver as people see them in settings: without the values of headers and the
// like, and without the query of a URL.
func shownReceiver(fields string) json.RawMessage {
	var members map[string]any
	if json.Unmarshal([]byte(fields), &members) != nil {
		return json.RawMessage(`{}`) // Set.Validate has seen to it that it is an object
	}
	for name, value := range members {
		switch value := value.(type) {
		case map[string]any:
			for key := range value {
				value[key] = "..."
			}
		case string:
			if before, _, found := strings.Cut(value, "?"); found && name == "url" {
				members[name] = before + "?..."
			}
		}
	}
	shown, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return shown
}

// ValidateReceiver demands a JSON object of at most MaxReceiver bytes. The settings of the target know its fields.
func ValidateReceiver(fields string) error {
	switch {
	case len(fields) > MaxReceiver:
		return invalid(CodeOutOfRange, "receiver",
			fmt.Sprintf("receiver has %d bytes; at most %d are taken", len(fields), MaxReceiver))
	case !json.Valid([]byte(fields)) || fields[0] != '{':
		return invalid(CodeInvalidValue, "receiver", `receiver must be a JSON object like {"method": "PUT"}`)
	}
	return nil
}
