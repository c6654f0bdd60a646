package main

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/inbox"
)

// intakeFlags configure the intake of delayed messages.
type intakeFlags struct {
	IntakeQueue       string `env:"CLOCKD_INTAKE_QUEUE" placeholder:"NAME" help:"Queue of delayed messages. clockd takes each message, with its header x-delay or x-ring-at, as an alarm."`
	IntakeExchange    string `env:"CLOCKD_INTAKE_EXCHANGE" placeholder:"NAME" help:"Exchange that gets each delayed message at its time, with its own routing key."`
	IntakeDeadLetters string `env:"CLOCKD_INTAKE_DEAD_LETTERS" placeholder:"NAME" help:"Exchange for messages of that queue that cannot be alarms."`
	IntakeApplication string `env:"CLOCKD_INTAKE_APPLICATION" default:"intake" placeholder:"APP" help:"Application of delayed messages without the header x-application."`
}

// named reports whether an option of the intake is given.
func (f *intakeFlags) named() bool {
	return f.IntakeQueue != "" || f.IntakeExchange != "" || f.IntakeDeadLetters != ""
}

// intakeConfig returns the configuration of the intake. maxPayload is in bytes.
func (f *intakeFlags) intakeConfig(maxPayload int) inbox.IntakeConfig {
	return inbox.IntakeConfig{
		Queue: f.IntakeQueue, Exchange: f.IntakeExchange, DeadLetters: f.IntakeDeadLetters,
		Application: f.IntakeApplication, MaxBody: maxPayload,
	}
}

var _ inbox.Setter = setter{}

// setter sets the alarms of delayed messages.
type setter struct{ service *clock.Service }

// In returns an instant by which d has passed for certain.
func (s setter) In(d time.Duration) (clock.Instant, error) { return s.service.In(d) }

// Set submits the sets in order, and calls done for each set once its outcome is known. A set of an alarm whose row is
// locked does not delay the others.
func (s setter) Set(ctx context.Context, sets []*clock.Set, done func(i int, err error)) {
	for i, set := range sets {
		p := s.service.Submit(ctx, clock.Op{Set: set, Paced: true}) // the intake takes only so many messages at once
		go func() {
			_, err := p.Wait(ctx)
			done(i, err)
		}()
	}
}

// newIntakes returns the intakes of delayed messages, none if no queue is configured.
func newIntakes(targets *targets, service *clock.Service) (intakes []*inbox.Intake) {
	for _, s := range targets.sessions {
		if in := s.Intake(setter{service}); in != nil {
			intakes = append(intakes, in)
		}
	}
	return intakes
}
