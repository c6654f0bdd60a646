package clock

import (
	"cmp"
	"time"
)

// Settings are what a person decides for one application. The zero value decides nothing: the application has the defaults.
//
// Retry, AckTimeout and MaxRings apply when an alarm is set, to a set that does not name the option (Set.Omitted). A stored alarm keeps the
// options that it was set with.
type Settings struct {
	Target     TargetKind     // where the application's rings go; NoTarget: the node's default
	AMQP       *AMQP          // destination of rings to TargetAMQP; nil: the exchange of the process, with the application as routing key
	Webhook    *Webhook       // endpoint of rings to TargetWebhook; nil: none, which that target needs
	Kafka      *Kafka         // topic of rings to TargetKafka; nil: none, which that target needs
	Retry      *RetryPolicy   // nil: DefaultRetryPolicy
	AckTimeout *time.Duration // nil: DefaultTimeToRun with TargetPull, else rings need no acknowledgement
	MaxRings   *int           // nil: DefaultMaxRings
}

// Validate returns an *Error of kind ErrInvalid that names the field, or nil.
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
	if s.Target == TargetWebhook && s.Webhook == nil {
		return invalid(CodeRequired, "webhook", "the target webhook needs an endpoint")
	}
	if s.Kafka != nil {
		if err := s.Kafka.Validate(); err != nil {
			return within("kafka", err)
		}
	}
	if s.Target == TargetKafka && s.Kafka == nil {
		return invalid(CodeRequired, "kafka", "the target kafka needs a topic")
	}
	if s.Retry != nil {
		if err := s.Retry.Validate(); err != nil {
			return err
		}
	}
	if s.AckTimeout != nil {
		if err := validateAckTimeout(*s.AckTimeout); err != nil {
			return err
		}
	}
	if s.MaxRings != nil {
		return validateMaxRings(*s.MaxRings)
	}
	return nil
}

// Redacted returns a copy for people; see Webhook.Redacted. The copy is not valid if there is an endpoint.
func (s *Settings) Redacted() Settings {
	shown := *s
	if s.Webhook != nil {
		shown.Webhook = s.Webhook.Redacted()
	}
	return shown
}

// RetryPolicy returns the retry policy of alarms whose set names none.
func (s *Settings) RetryPolicy() RetryPolicy {
	if s.Retry != nil {
		return *s.Retry
	}
	return DefaultRetryPolicy()
}

// DefaultTimeToRun is the ack_timeout of applications whose target is pull, if their settings name none.
const DefaultTimeToRun = time.Minute

// AckTime returns the ack_timeout of alarms whose set names none; 0: none.
func (s *Settings) AckTime() time.Duration {
	switch {
	case s.AckTimeout != nil:
		return *s.AckTimeout
	case s.Target == TargetPull:
		return DefaultTimeToRun
	}
	return 0
}

// Rings returns the max_rings of alarms whose set names none.
func (s *Settings) Rings() int {
	if s.MaxRings != nil {
		return *s.MaxRings
	}
	return DefaultMaxRings
}

// TargetOr returns Target, or the given default if the settings name none.
func (s *Settings) TargetOr(byDefault TargetKind) TargetKind { return cmp.Or(s.Target, byDefault) }
