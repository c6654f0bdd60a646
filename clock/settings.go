package clock

import (
	"cmp"
	"slices"
	"time"
)

// Settings are what a person decides for one application. The zero value decides nothing: the application has the defaults.
//
// Retry, AckTimeout and MaxRings apply when an alarm is set, to a set that does not name the option (Set.Omitted). A stored alarm keeps the
// options that it was set with.
type Settings struct {
	Target TargetKind // where the application's rings go; NoTarget: the node's default
	// AlarmTargets are the targets that alarms of the application may name, beside Target. Alarms that name a target without being allowed to any
	// more ring as if they named none.
	AlarmTargets []TargetKind
	AMQP         *AMQP          // destination of rings to TargetAMQP; nil: the exchange of the process, with the application as routing key
	Webhook      *Webhook       // endpoint of rings to TargetWebhook; nil: none, which that target needs
	Kafka        *Kafka         // topic of rings to TargetKafka; nil: none, which that target needs
	GRPC         *GRPC          // method of rings to TargetGRPC; nil: none, which that target needs
	Retry        *RetryPolicy   // nil: DefaultRetryPolicy
	AckTimeout   *time.Duration // nil: DefaultTimeToRun with TargetPull, else rings need no acknowledgement
	MaxRings     *int           // nil: DefaultMaxRings
	Paused       bool           // the alarms of the application wait, and no claim of them starts
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
	if s.Allows(TargetWebhook) && s.Webhook == nil {
		return invalid(CodeRequired, "webhook", "the target webhook needs an endpoint")
	}
	if s.Kafka != nil {
		if err := s.Kafka.Validate(); err != nil {
			return within("kafka", err)
		}
	}
	if s.Allows(TargetKafka) && s.Kafka == nil {
		return invalid(CodeRequired, "kafka", "the target kafka needs a topic")
	}
	if s.GRPC != nil {
		if err := s.GRPC.Validate(); err != nil {
			return within("grpc", err)
		}
	}
	if s.Allows(TargetGRPC) && s.GRPC == nil {
		return invalid(CodeRequired, "grpc", "the target grpc needs a method")
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
	if s.GRPC != nil {
		shown.GRPC = s.GRPC.Redacted()
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

// AckTime returns the ack_timeout of alarms whose set names none; 0: none. named is the target that the alarm names.
func (s *Settings) AckTime(named TargetKind) time.Duration {
	switch {
	case s.AckTimeout != nil:
		return *s.AckTimeout
	case cmp.Or(named, s.Target) == TargetPull:
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

// Allows reports whether alarms of the application may name the target. Without settings (nil) they may name none.
func (s *Settings) Allows(target TargetKind) bool {
	return s != nil && target != NoTarget && (s.Target == target || slices.Contains(s.AlarmTargets, target))
}

// TargetOr returns Target, or the given default if the settings name none.
func (s *Settings) TargetOr(byDefault TargetKind) TargetKind { return cmp.Or(s.Target, byDefault) }
