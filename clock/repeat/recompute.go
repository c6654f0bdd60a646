package repeat

// TimeZone returns the IANA name of the rule's time zone; empty for a period.
func (r Rule) TimeZone() string { return r.spec.TimeZone }

// Label returns the label of the occurrence at an instant, in ms: the time that the local clock is to show, by a cron
// expression with fixed times. With the label, the occurrence can be computed again by other time-zone data. Label
// returns 0 if there is nothing to compute again: for a period, in UTC, for an interval expression, and if the
// time-zone data at hand has no occurrence at the instant.
func (r Rule) Label(at int64) int64 {
	if r.cron == nil || r.cron.interval || r.spec.TimeZone == utc {
		return 0
	}
	second := floorDiv(at, 1000)
	label, ok := r.cron.nextLabel(r.zone.highestLabel(second-1) + 1)
	if !ok || r.zone.reach(label*1000) != at {
		return 0
	}
	return label * 1000
}

// Moved returns an occurrence that has not begun, by the time-zone data at hand. Other data may have computed it. label
// is its Label by that data. Without a label, it becomes the first occurrence after now, unless it is due. An
// occurrence that would be after Until keeps its time.
func (r Rule) Moved(o Occurrence, label, now int64) Occurrence {
	at, ok := o.At, true
	switch {
	case label != 0:
		at = r.zone.reach(label)
	case o.At > now:
		at, ok = r.Next(now)
	}
	if !ok || r.isOver(at) {
		return o
	}
	return Occurrence{At: at, Number: o.Number}
}

// FollowingLabel returns the occurrence after o by the time-zone data at hand. Other data may have computed o. label is
// its Label by that data, or 0. It returns false if o is the last one.
func (r Rule) FollowingLabel(o Occurrence, label int64) (Occurrence, bool) {
	if label == 0 {
		return r.Following(o)
	}
	if r.spec.Times != 0 && o.Number >= r.spec.Times {
		return Occurrence{}, false
	}
	next, ok := r.cron.nextLabel(max(floorDiv(label, 1000), r.zone.highestLabel(floorDiv(o.At, 1000))) + 1)
	if !ok {
		return Occurrence{}, false
	}
	at := r.zone.reach(next * 1000)
	return Occurrence{At: at, Number: o.Number + 1}, !r.isOver(at)
}

// isOver reports whether no occurrence may be at the instant, because it is too late.
func (r Rule) isOver(at int64) bool { return at > maxInstant || r.spec.Until != 0 && at > r.spec.Until }
