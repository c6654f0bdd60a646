package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// settingFields decodes the fields of a settings document, by name. A field with null is as if it were left out.
var settingFields = map[string]func(s *Settings, raw []byte) error{
	"target": func(s *Settings, raw []byte) error {
		var name string
		if err := parseTextField(raw, "target", &name); err != nil {
			return err
		}
		kind, err := clock.ParseTargetKind(name)
		if err != nil {
			return clock.Invalid(clock.CodeInvalidValue, "target", err.Error())
		}
		s.Target = kind
		return nil
	},
	"alarm_targets": func(s *Settings, raw []byte) (err error) {
		s.Allowed, err = parseTargets(raw)
		return err
	},
	"amqp": func(s *Settings, raw []byte) (err error) {
		s.AMQP, err = parseAMQP(raw)
		return err
	},
	"webhook": func(s *Settings, raw []byte) (err error) {
		s.Webhook, err = parseWebhook(raw)
		return err
	},
	"kafka": func(s *Settings, raw []byte) (err error) {
		s.Kafka, err = parseKafka(raw)
		return err
	},
	"grpc": func(s *Settings, raw []byte) (err error) {
		s.GRPC, err = parseGRPC(raw)
		return err
	},
	"retry": func(s *Settings, raw []byte) error {
		policy, err := parseRetry(raw)
		s.Retry = &policy
		return err
	},
	"ack_timeout": func(s *Settings, raw []byte) error {
		s.AckTimeout = new(time.Duration)
		return parseDurationField(raw, "ack_timeout", s.AckTimeout)
	},
	"max_rings": func(s *Settings, raw []byte) error {
		s.MaxRings = new(int)
		return parseIntField(raw, "max_rings", s.MaxRings)
	},
	"paused": func(s *Settings, raw []byte) error {
		if json.Unmarshal(raw, &s.Paused) != nil {
			return clock.Invalid(clock.CodeInvalidValue, "paused", "paused must be true or false")
		}
		return nil
	},
}

// Fields are the names of the fields of a settings document, in the order in which Encode writes them.
var Fields = []string{"target", "alarm_targets", "amqp", "webhook", "kafka", "grpc", "retry", "ack_timeout",
	"max_rings", "paused"}

// Parse reads a settings document: a JSON object. A *clock.Error of kind clock.ErrInvalid names the field at fault.
func Parse(document string) (Settings, error) {
	var s Settings
	if len(document) > MaxDocument {
		return s, clock.Invalid(clock.CodeOutOfRange, "",
			fmt.Sprintf("the settings have %d bytes; at most %d are kept", len(document), MaxDocument))
	}
	err := eachMember("", []byte(document), Fields,
		func(name string, raw []byte) error { return settingFields[name](&s, raw) })
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return Settings{}, err
	}
	return s, nil
}

// parseTargets reads the names of targets, without repeats. The result is sorted.
func parseTargets(raw []byte) (targets []clock.TargetKind, err error) {
	var names []string
	if raw[0] != '[' || json.Unmarshal(raw, &names) != nil {
		return nil, clock.Invalid(clock.CodeInvalidValue, "alarm_targets", "alarm_targets must be a list of strings")
	}
	for _, name := range names {
		kind, err := clock.ParseTargetKind(name)
		if err != nil {
			return nil, clock.Invalid(clock.CodeInvalidValue, "alarm_targets", "alarm_targets: "+err.Error())
		}
		targets = append(targets, kind)
	}
	slices.Sort(targets)
	return slices.Compact(targets), nil
}

// retryFields are the fields of a retry policy.
var retryFields = []string{"initial", "factor", "cap", "limit"}

// parseRetry reads a retry policy. Fields that are left out have the values of clock.DefaultRetryPolicy.
func parseRetry(raw []byte) (clock.RetryPolicy, error) {
	p := clock.DefaultRetryPolicy()
	return p, eachMember("retry.", raw, retryFields, func(name string, raw []byte) error {
		switch name {
		case "initial":
			return parseDurationField(raw, "retry.initial", &p.Initial)
		case "cap":
			return parseDurationField(raw, "retry.cap", &p.Cap)
		case "limit":
			if err := parseIntField(raw, "retry.limit", &p.Limit); err != nil || p.Limit >= 0 {
				return err
			}
			return clock.Invalid(clock.CodeOutOfRange, "retry.limit",
				"retry.limit must not be negative; null means no limit")
		}
		if json.Unmarshal(raw, &p.Factor) != nil {
			return clock.Invalid(clock.CodeInvalidValue, "retry.factor", "retry.factor must be a number from 1 to 100")
		}
		return nil
	})
}

// eachMember calls decode with each member of a JSON object that is not null. It refuses names that are not known (nil:
// all are), and names that come twice. parent is the prefix of the names in errors.
func eachMember(parent string, object []byte, known []string, decode func(name string, raw []byte) error) error {
	field := strings.TrimSuffix(parent, ".")
	if !utf8.Valid(object) {
		return clock.Invalid(clock.CodeInvalidValue, field, "JSON must be UTF-8")
	}
	whole := clock.Invalid(clock.CodeInvalidValue, field, "it must be a JSON object")
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return whole
	}
	seen := map[string]bool{}
	for d.More() {
		var raw json.RawMessage
		key, err := d.Token()
		if err == nil {
			err = d.Decode(&raw)
		}
		name, isName := key.(string)
		switch {
		case err != nil || !isName:
			return whole
		case known != nil && !slices.Contains(known, name):
			return clock.Invalid(clock.CodeUnknownField, parent+cleanName(name),
				fmt.Sprintf("unknown field %.64q; known are %s", name, strings.Join(known, ", ")))
		case seen[name]:
			field := parent + cleanName(name)
			return clock.Invalid(clock.CodeAmbiguous, field, field+" occurs twice; give it once")
		case !bytes.Equal(raw, []byte("null")):
			if err := decode(name, raw); err != nil {
				return err
			}
		}
		seen[name] = true
	}
	if _, err := d.Token(); err != nil {
		return whole
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return whole
	}
	return nil
}

// parseTextField reads a string.
func parseTextField(raw []byte, field string, into *string) error {
	if raw[0] != '"' || json.Unmarshal(raw, into) != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a string")
	}
	return nil
}

// parseDurationField reads a duration like "30s", or whole milliseconds without quotes.
func parseDurationField(raw []byte, field string, into *time.Duration) error {
	var text string
	var ms int64
	err := json.Unmarshal(raw, &text)
	if err == nil {
		*into, err = clock.ParseDuration(text)
	} else if err = json.Unmarshal(raw, &ms); err == nil {
		*into, err = clock.DurationOfMillis(ms)
	}
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field,
			fmt.Sprintf(`%s must be a duration like "30s", or whole milliseconds without quotes`, field))
	}
	return nil
}

func parseIntField(raw []byte, field string, into *int) error {
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a whole number")
	}
	*into = int(n)
	return nil
}

// Encode returns the settings as a document, without the fields that decide nothing. Parse returns the same settings
// for it. The document has the secrets of the endpoint: show people the document of Redacted.
func (s *Settings) Encode() string {
	var document struct {
		Target       string         `json:"target,omitempty"`
		AlarmTargets []string       `json:"alarm_targets,omitempty"`
		AMQP         *amqpFormat    `json:"amqp,omitempty"`
		Webhook      *webhookFormat `json:"webhook,omitempty"`
		Kafka        *kafkaFormat   `json:"kafka,omitempty"`
		GRPC         *grpcFormat    `json:"grpc,omitempty"`
		Retry        *retryFormat   `json:"retry,omitempty"`
		AckTimeout   string         `json:"ack_timeout,omitempty"`
		MaxRings     *int           `json:"max_rings,omitempty"`
		Paused       bool           `json:"paused,omitempty"`
	}
	for _, target := range s.Allowed {
		document.AlarmTargets = append(document.AlarmTargets, target.String())
	}
	document.Target, document.MaxRings, document.Paused = s.Target.String(), s.MaxRings, s.Paused
	document.AMQP, document.Webhook, document.Kafka = s.AMQP.format(), s.Webhook.format(), s.Kafka.format()
	document.GRPC = s.GRPC.format()
	if s.Retry != nil {
		document.Retry = &retryFormat{Initial: s.Retry.Initial.String(), Factor: s.Retry.Factor,
			Cap: s.Retry.Cap.String()}
		if s.Retry.Limit != clock.NoLimit {
			document.Retry.Limit = &s.Retry.Limit
		}
	}
	if s.AckTimeout != nil {
		document.AckTimeout = s.AckTimeout.String()
	}
	b, err := json.Marshal(document)
	if err != nil { // the factor is NaN, which Validate refuses
		panic("settings: encode invalid settings: " + err.Error())
	}
	return string(b)
}

// retryFormat is the JSON of a retry policy in a document.
type retryFormat struct {
	Initial string  `json:"initial"`
	Factor  float64 `json:"factor"`
	Cap     string  `json:"cap"`
	Limit   *int    `json:"limit"`
}
