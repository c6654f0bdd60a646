package clock

import (
	"strconv"
	"strings"
)

// MaxDestinations is the highest number of a destination. Alarms that bring fields of their receiver themselves have
// higher ones (OwnNumber).
const MaxDestinations = 127

// Destination is a receiver that the settings of an application name, beside the application's own receiver of the same
// kind of target. The zero value is none.
type Destination struct {
	Name string // as ValidateDestination demands
	// Number stands for the target and the name where alarms lie in the order of time. The settings give it, from 1 to
	// MaxDestinations, and never give it to another name. An alarm with a receiver of its own has OwnNumber.
	Number int
}

// ParseTarget reads a target as alarms name it: a kind of target, or a kind, a slash and the name of a destination. An
// error is an ErrInvalid of the field target.
func ParseTarget(text string) (kind TargetKind, destination string, err error) {
	name, destination, named := strings.Cut(text, "/")
	if kind, err = ParseTargetKind(name); err != nil {
		return kind, "", invalid(CodeInvalidValue, "target", err.Error())
	}
	switch {
	case !named:
		return kind, "", nil
	case kind == TargetStream || kind == TargetPull:
		return kind, destination, invalid(CodeInvalidValue, "target", "the target "+name+" has no destinations")
	}
	return kind, destination, ValidateDestination(destination)
}

// TargetText returns the text that ParseTarget reads; empty for NoTarget.
func TargetText(kind TargetKind, destination string) string {
	if destination == "" {
		return kind.String()
	}
	return kind.String() + "/" + destination
}

// ValidateDestination demands 1 to 64 characters of A-Z a-z 0-9 . _ - that begin with a letter or digit.
func ValidateDestination(name string) error {
	return ValidateName("target", "the name of a destination", name)
}

// ReceiverOf returns the text by which targets know the receiver of rings: the application, and for a destination a
// slash and its number.
func ReceiverOf(application string, destination int) string {
	if destination == 0 {
		return application
	}
	return application + "/" + strconv.Itoa(destination)
}

// SplitReceiver returns what ReceiverOf joined. The destination of any other text is -1.
func SplitReceiver(receiver string) (application string, destination int) {
	application, number, named := strings.Cut(receiver, "/")
	if !named {
		return application, 0
	}
	destination, err := strconv.Atoi(number)
	if err != nil || destination < 1 {
		return application, -1
	}
	return application, destination
}

// IsDestination reports whether a receiver is a destination.
func IsDestination(receiver string) bool { return strings.Contains(receiver, "/") }
