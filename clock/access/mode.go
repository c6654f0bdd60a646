package access

import (
	"fmt"
	"strings"
)

// Mode says when a request needs a token.
type Mode uint8

// The modes.
const (
	// Auto asks no token of a service on loopback while no token exists, and else asks for one.
	Auto Mode = iota
	// Required always asks for a token.
	Required
	// None never asks for a token.
	None
)

// modeNames holds the name of each mode.
var modeNames = []string{"auto", "required", "none"}

// String returns the mode's name.
func (m Mode) String() string { return modeNames[m] }

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	for i, known := range modeNames {
		if known == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("unknown mode %q; known are %s", name, strings.Join(modeNames, ", "))
}
