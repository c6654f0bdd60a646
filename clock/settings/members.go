package settings

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// names returns the names of targets.
func names(targets []clock.TargetKind) []string {
	names := make([]string, len(targets))
	for i, target := range targets {
		names[i] = target.String()
	}
	return names
}

func targetMember() member {
	name := func(target clock.TargetKind) any {
		if target == clock.NoTarget {
			return nil
		}
		return target.String()
	}
	return member{
		Field: Field[Settings]{
			FieldInfo: FieldInfo{
				Name: "target", Kind: KindChoice, Choices: clock.TargetNames(), Flag: "target",
				Help: "Where rings go.", Absent: "amqp with a broker, else stream",
			},
			parse: func(s *Settings, raw []byte) error {
				var name string
				if err := parseText(raw, "target", &name); err != nil {
					return err
				}
				kind, err := clock.ParseTargetKind(name)
				if err != nil {
					return clock.Invalid(clock.CodeInvalidValue, "target", err.Error())
				}
				s.Target = kind
				return nil
			},
			encode: func(s *Settings, _ bool) any { return name(s.Target) },
		},
		effective: func(s *Settings, byDefault clock.TargetKind) any { return name(s.TargetOr(byDefault)) },
	}
}

func allowedMember() member {
	const field = "alarm_targets"
	return member{
		Field: Field[Settings]{
			FieldInfo: FieldInfo{
				Name: field, Kind: KindChoices, Choices: clock.TargetNames(), Flag: "alarm-targets",
				Help:   "Targets that an alarm may name for its own rings, beside the application's target.",
				Absent: "none: alarms may name no target",
			},
			parse: func(s *Settings, raw []byte) error {
				var names []string
				if raw[0] != '[' || json.Unmarshal(raw, &names) != nil {
					return Wrong("must be a list of strings").of(field)
				}
				for _, name := range names {
					kind, err := clock.ParseTargetKind(name)
					if err != nil {
						return clock.Invalid(clock.CodeInvalidValue, field, field+": "+err.Error())
					}
					s.Allowed = append(s.Allowed, kind)
				}
				slices.Sort(s.Allowed)
				s.Allowed = slices.Compact(s.Allowed)
				return nil
			},
			encode: func(s *Settings, _ bool) any {
				if len(s.Allowed) == 0 {
					return nil
				}
				return names(s.Allowed)
			},
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return names(s.Allowed) },
	}
}

// retry reads and writes retry policies. clock.Defaults checks their bounds.
var retry = &Part[clock.RetryPolicy]{
	Name: "retry", Type: "Retry", Help: "Retry policy of alarms whose set names none.",
	New: func() *clock.RetryPolicy { return new(clock.DefaultRetryPolicy()) },
	Fields: []Field[clock.RetryPolicy]{
		retryWait("initial", func(p *clock.RetryPolicy) *time.Duration { return &p.Initial }),
		{
			FieldInfo: FieldInfo{Name: "factor", Kind: KindNumber},
			parse: func(p *clock.RetryPolicy, raw []byte) error {
				if json.Unmarshal(raw, &p.Factor) != nil {
					return Wrong("must be a number from 1 to 100").of("factor")
				}
				return nil
			},
			encode: func(p *clock.RetryPolicy, _ bool) any { return p.Factor },
		},
		retryWait("cap", func(p *clock.RetryPolicy) *time.Duration { return &p.Cap }),
		{
			FieldInfo: FieldInfo{Name: "limit", Kind: KindInteger},
			parse: func(p *clock.RetryPolicy, raw []byte) error {
				if err := parseInteger(raw, "limit", &p.Limit); err != nil || p.Limit >= 0 {
					return err
				}
				return TooMuch("must not be negative; null means no limit").of("limit")
			},
			encode: func(p *clock.RetryPolicy, _ bool) any {
				if p.Limit == clock.NoLimit {
					return json.RawMessage("null")
				}
				return p.Limit
			},
		},
	},
}

// retryWait returns a field of a retry policy with a duration.
func retryWait(name string, at func(*clock.RetryPolicy) *time.Duration) Field[clock.RetryPolicy] {
	return Field[clock.RetryPolicy]{
		FieldInfo: FieldInfo{Name: name, Kind: KindDuration},
		parse:     func(p *clock.RetryPolicy, raw []byte) error { return parseDuration(raw, name, at(p)) },
		encode:    func(p *clock.RetryPolicy, _ bool) any { return format(*at(p)) },
	}
}

func retryMember() member {
	return member{
		Field: Field[Settings]{
			FieldInfo: retry.info(),
			parse: func(s *Settings, raw []byte) (err error) {
				s.Retry, err = retry.Parse(raw)
				return clock.Within("retry", err)
			},
			encode: func(s *Settings, _ bool) any {
				if s.Retry == nil {
					return nil
				}
				return retry.encode(s.Retry, false)
			},
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return retry.encode(new(s.RetryPolicy()), true) },
	}
}

// quotas reads and writes quotas. clock.Quotas checks their bounds.
var quotas = &Part[clock.Quotas]{
	Name: "quotas", Type: "Quotas", Help: "Bounds of what the application may use.", Absent: "none",
	New: func() *clock.Quotas { return &clock.Quotas{} },
	Fields: []Field[clock.Quotas]{
		quota("pending_alarms", clock.MaxPendingAlarms, "Alarms that will ring. A set of another one is refused.",
			func(q *clock.Quotas) *int { return &q.PendingAlarms }),
		quota("sets_per_second", clock.MaxSetsPerSecond, "Sets a second at each node, and at once.",
			func(q *clock.Quotas) *int { return &q.SetsPerSecond }),
		quota("payload_bytes", clock.MaxStoredPayload, "Bytes of a payload, below CLOCKD_MAX_PAYLOAD.",
			func(q *clock.Quotas) *int { return &q.PayloadBytes }),
	},
	Check: func(q *clock.Quotas) error { return q.Validate() },
}

// quota returns a field with a quota. null is no quota.
func quota(name string, most int, help string, at func(*clock.Quotas) *int) Field[clock.Quotas] {
	return Field[clock.Quotas]{
		FieldInfo: FieldInfo{Name: name, Kind: KindInteger, Help: help, Min: 1, Max: most},
		parse: func(q *clock.Quotas, raw []byte) error {
			if err := parseInteger(raw, name, at(q)); err != nil || *at(q) > 0 {
				return err
			}
			return TooMuch("must be at least 1; null means no quota").of(name)
		},
		encode: func(q *clock.Quotas, _ bool) any {
			if *at(q) == 0 {
				return json.RawMessage("null")
			}
			return *at(q)
		},
	}
}

func quotasMember() member {
	encode := func(s *Settings, redacted bool) any {
		if s.Quotas == (clock.Quotas{}) {
			return nil
		}
		return quotas.encode(&s.Quotas, redacted)
	}
	return member{
		Field: Field[Settings]{
			FieldInfo: quotas.info(),
			parse: func(s *Settings, raw []byte) error {
				q, err := quotas.Parse(raw)
				if err == nil {
					s.Quotas = *q
				}
				return clock.Within("quotas", err)
			},
			encode: encode,
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return encode(s, true) },
	}
}

func ackTimeoutMember() member {
	return member{
		Field: Field[Settings]{
			FieldInfo: FieldInfo{
				Name: "ack_timeout", Kind: KindDuration, Flag: "ack-timeout", Example: "30s",
				Help: "ack_timeout of alarms whose set names none.", Absent: "none",
			},
			parse: func(s *Settings, raw []byte) error {
				s.AckTimeout = new(time.Duration)
				return parseDuration(raw, "ack_timeout", s.AckTimeout)
			},
			encode: func(s *Settings, _ bool) any {
				if s.AckTimeout == nil {
					return nil
				}
				return format(*s.AckTimeout)
			},
		},
		effective: func(s *Settings, _ clock.TargetKind) any {
			if d := s.AckTime(clock.NoTarget); d > 0 {
				return format(d)
			}
			return nil
		},
	}
}

func maxRingsMember() member {
	return member{
		Field: Field[Settings]{
			FieldInfo: FieldInfo{
				Name: "max_rings", Kind: KindInteger, Flag: "max-rings", Example: "10",
				Help: "max_rings of alarms whose set names none.",
			},
			parse: func(s *Settings, raw []byte) error {
				s.MaxRings = new(int)
				return parseInteger(raw, "max_rings", s.MaxRings)
			},
			encode: func(s *Settings, _ bool) any {
				if s.MaxRings == nil {
					return nil
				}
				return *s.MaxRings
			},
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return s.Rings() },
	}
}

func pausedMember() member {
	return flagMember(FieldInfo{Name: "paused", Help: "The alarms of the application wait."},
		func(s *Settings) *bool { return &s.Paused })
}

func hidePayloadMember() member {
	return flagMember(
		FieldInfo{Name: "hide_payload", Flag: "hide-payload", Help: "The console shows payloads of the application on request alone."},
		func(s *Settings) *bool { return &s.HidePayload })
}

// flagMember returns a member that is true or false.
func flagMember(info FieldInfo, of func(*Settings) *bool) member {
	info.Kind = KindFlag
	return member{
		Field: Field[Settings]{
			FieldInfo: info,
			parse: func(s *Settings, raw []byte) error {
				if json.Unmarshal(raw, of(s)) != nil {
					return Wrong("must be true or false").of(info.Name)
				}
				return nil
			},
			encode: func(s *Settings, _ bool) any {
				if !*of(s) {
					return nil
				}
				return true
			},
		},
		effective: func(s *Settings, _ clock.TargetKind) any { return *of(s) },
	}
}
