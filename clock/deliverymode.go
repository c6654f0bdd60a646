package clock

import "fmt"

// DeliveryMode decides about a ring whose outcome is unknown. The numbers are stored.
type DeliveryMode int8

// The delivery modes.
const (
	AtLeastOnce DeliveryMode = 0 // the same ring is published again, with the same message id, until it is confirmed
	AtMostOnce  DeliveryMode = 1 // the ring is not published again; the alarm is rung, with in_doubt set
)

// ParseDeliveryMode returns the mode with this name.
func ParseDeliveryMode(name string) (DeliveryMode, error) {
	for _, d := range []DeliveryMode{AtLeastOnce, AtMostOnce} {
		if d.String() == name {
			return d, nil
		}
	}
	return AtLeastOnce, fmt.Errorf("delivery %.64q is neither at_least_once nor at_most_once", name)
}

// String returns the mode's name, as ParseDeliveryMode reads it.
func (d DeliveryMode) String() string {
	if d == AtMostOnce {
		return "at_most_once"
	}
	return "at_least_once"
}
