package clock

import (
	"cmp"
	"slices"
	"time"
)

// Defaults are what a person decides about the sets of one application: the options of a set that names none
// (Set.Omitted), the targets that its alarms may name, and the quotas. The zero value decides nothing. A stored alarm keeps the
// options that it was set with.
type Defaults struct {
	Target TargetKind // where the application's rings go; NoTarget: the node's default
	// Allowed are the targets that alarms of the application may name, beside Target. Alarms that name a target without
	// being allowed to any more ring as if they named none.
	Allowed []TargetKind
	// Destinations has the numbers of the destinations that alarms may name, by target (TargetText).
	Destinations map[string]int
	Retry        *RetryPolicy   // nil: DefaultRetryPolicy
	AckTimeout   *time.Duration // nil: DefaultTimeToRun with TargetPull, else rings need no acknowledgement
	MaxRings     *int           // nil: DefaultMaxRings
	Quotas       Quotas
}

// Validate returns an *Error of kind ErrInvalid that names the field, or nil.
func (d *Defaults) Validate() error {
	if d.Retry != nil {
		if err := d.Retry.Validate(); err != nil {
			return err
		}
	}
	if d.AckTimeout != nil {
		if err := validateAckTimeout(*d.AckTimeout); err != nil {
			return err
		}
	}
	if d.MaxRings != nil {
		return validateMaxRings(*d.MaxRings)
	}
	return nil
}

// RetryPolicy returns the retry policy of alarms whose set names none.
func (d *Defaults) RetryPolicy() RetryPolicy {
	if d.Retry != nil {
		return *d.Retry
	}
	return DefaultRetryPolicy()
}

// DefaultTimeToRun is the ack_timeout of applications whose target is pull, if nothing names another one.
const DefaultTimeToRun = time.Minute

// AckTime returns the ack_timeout of alarms whose set names none; 0: none. named is the target that the alarm names.
func (d *Defaults) AckTime(named TargetKind) time.Duration {
	switch {
	case d.AckTimeout != nil:
		return *d.AckTimeout
	case cmp.Or(named, d.Target) == TargetPull:
		return DefaultTimeToRun
	}
	return 0
}

// Rings returns the max_rings of alarms whose set names none.
func (d *Defaults) Rings() int {
	if d.MaxRings != nil {
		return *d.MaxRings
	}
	return DefaultMaxRings
}

// Allows reports whether alarms of the application may name the target. Without defaults (nil) they may name none.
func (d *Defaults) Allows(target TargetKind) bool {
	return d != nil && target != NoTarget && (d.Target == target || slices.Contains(d.Allowed, target))
}

// TargetOr returns Target, or the given default if there is none.
func (d *Defaults) TargetOr(byDefault TargetKind) TargetKind { return cmp.Or(d.Target, byDefault) }
