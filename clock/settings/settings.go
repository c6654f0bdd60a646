package settings

import (
	"errors"

	"github.com/clockd/clockd/clock"
)

// Settings are what a person decides for one application. The zero value decides nothing: the application has the
// defaults.
type Settings struct {
	clock.Defaults

	AMQP    *AMQP    // destination of rings to clock.TargetAMQP; nil: the exchange of the process, with the application as routing key
	Webhook *Webhook // endpoint of rings to clock.TargetWebhook; nil: none, which that target needs
	Kafka   *Kafka   // topic of rings to clock.TargetKafka; nil: none, which that target needs
	GRPC    *GRPC    // method of rings to clock.TargetGRPC; nil: none, which that target needs
	Paused  bool     // the alarms of the application wait, and no claim of them starts
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field, or nil.
func (s *Settings) Validate() error {
	if s.AMQP != nil {
		if err := s.AMQP.Validate(); err != nil {
			return within("amqp", err)
		}
	}
	if s.Webhook != nil {
		if err := s.Webhook.Validate(); err != nil {
			return within("webhook", err)
		}
	}
	if s.Allows(clock.TargetWebhook) && s.Webhook == nil {
		return clock.Invalid(clock.CodeRequired, "webhook", "the target webhook needs an endpoint")
	}
	if s.Kafka != nil {
		if err := s.Kafka.Validate(); err != nil {
			return within("kafka", err)
		}
	}
	if s.Allows(clock.TargetKafka) && s.Kafka == nil {
		return clock.Invalid(clock.CodeRequired, "kafka", "the target kafka needs a topic")
	}
	if s.GRPC != nil {
		if err := s.GRPC.Validate(); err != nil {
			return within("grpc", err)
		}
	}
	if s.Allows(clock.TargetGRPC) && s.GRPC == nil {
		return clock.Invalid(clock.CodeRequired, "grpc", "the target grpc needs a method")
	}
	return s.Defaults.Validate()
}

// Redacted returns a copy for people; see Webhook.Redacted. The copy is not valid if there is an endpoint.
func (s *Settings) Redacted() Settings {
	shown := *s
	if s.Webhook != nil {
		shown.Webhook = s.Webhook.Redacted()
	}
	if s.GRPC != nil {
		shown.GRPC = s.GRPC.Redacted()
	}
	return shown
}

// within adds the name of the object to the field of a *clock.Error.
func within(object string, err error) error {
	e, is := errors.AsType[*clock.Error](err)
	switch {
	case !is:
		return err
	case e.Field == "":
		e.Field = object
	default:
		e.Field = object + "." + e.Field
	}
	return e
}
