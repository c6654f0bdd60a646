package targettest

import (
	"errors"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// Engine tells the suite how to make a target, and what to expect of it.
type Engine struct {
	// Open returns a new target without receivers. Its resources end with the test.
	Open func(t *testing.T) Bench
	// Refused is the outcome of a ring that a Refusing receiver does not take; 0: receivers cannot refuse.
	Refused clock.OutcomeKind
	// Absent is the outcome of a ring without a receiver.
	Absent clock.OutcomeKind
	// LateTogether says that replies are late for all applications at once.
	LateTogether bool
	// KnowsReceivers says that Accepts tells whether an application has a receiver.
	KnowsReceivers bool
	// Destinations says that settings have destinations of the target, and alarms may bring receivers of their own.
	Destinations bool
}

// Bench is a target with its receivers.
type Bench interface {
	Target() ring.Target
	// Receive gives the application a receiver that behaves in this way.
	Receive(application string, b Behaviour)
	// Reply makes receivers that are Late reply, to what they have taken and from now on.
	Reply()
	// Received returns the rings that reached the application's receiver.
	Received(application string) []Received
}

// Withdrawn stands for fields of a receiver that the settings of an application allow no more. Other fields of rings of
// the suite are the name of an application whose receiver Bench.Receive makes: the target's function Own returns it.
const Withdrawn = "withdrawn"

// ErrWithdrawn is the error of Own for Withdrawn.
var ErrWithdrawn = errors.New("the settings allow this no more")

// Behaviour is what a receiver does with rings.
type Behaviour int

// The behaviours of receivers.
const (
	Well     Behaviour = iota // takes each ring and replies at once
	Refusing                  // takes no ring, and says so
	Late                      // takes rings, and replies when Bench.Reply is called
)

// Received is a ring as its receiver sees it.
type Received struct {
	MessageID, BusinessID, ContentType, Payload string
}
