package repeat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// storedVersion is the version of the stored form. A new key with an unchanged default needs no new version.
const storedVersion = 1

// stored is the JSON of a rule in a database column. Defaults are left out.
type stored struct {
	Version     int     `json:"v"`
	Cron        string  `json:"cron,omitempty"`
	TimeZone    string  `json:"tz,omitempty"`
	Every       int64   `json:"every,omitempty"`
	Anchor      *int64  `json:"anchor,omitempty"`
	Until       int64   `json:"until,omitempty"`
	Times       int64   `json:"times,omitempty"`
	Jitter      int64   `json:"jitter,omitempty"`
	Missed      Missed  `json:"missed,omitempty"`
	MissedLimit int     `json:"missed_limit,omitempty"`
	Overlap     Overlap `json:"overlap,omitempty"`
}

// Encode returns the canonical form for a database column: JSON without defaults, in milliseconds, empty for the zero Rule. Equal rules
// have the same text.
func (r Rule) Encode() string {
	if r.IsZero() {
		return ""
	}
	s := stored{
		Version: storedVersion, Cron: r.spec.Cron, TimeZone: r.spec.TimeZone, Every: r.spec.Every, Anchor: r.spec.Anchor, Until: r.spec.Until,
		Times: r.spec.Times, Jitter: r.spec.Jitter, Missed: r.spec.Missed, MissedLimit: r.spec.MissedLimit, Overlap: r.spec.Overlap,
	}
	text, err := json.Marshal(s)
	if err != nil { // no field has a type that fails
		panic("repeat: encode a rule: " + err.Error())
	}
	return string(text)
}

// Decode reads a rule that Encode wrote. An error means that a newer version or another program wrote it, or that the time zone has left
// the database.
func Decode(text string) (Rule, error) {
	if text == "" {
		return Rule{}, nil
	}
	var s stored
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return Rule{}, fmt.Errorf("decode repeat rule %q: %w", text, err)
	}
	if s.Version != storedVersion {
		return Rule{}, fmt.Errorf("decode repeat rule %q: version %d is not known", text, s.Version)
	}
	r, err := Parse(Spec{
		Cron: s.Cron, TimeZone: s.TimeZone, Every: s.Every, Anchor: s.Anchor, Until: s.Until,
		Times: s.Times, Jitter: s.Jitter, Missed: s.Missed, MissedLimit: s.MissedLimit, Overlap: s.Overlap,
	})
	if err != nil {
		return Rule{}, fmt.Errorf("decode repeat rule %q: %w", text, err)
	}
	return r, nil
}
