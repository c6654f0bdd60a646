package clock

// Resend asks to send a ring once more, because its receiver does not have it, although its delivery was confirmed. A
// subscriber that resumes its stream shows that.
type Resend struct {
	Key     Key        // key of the ring's alarm; Service.Resend fills in BusinessID
	Ring    RingID     // ring to send again
	ClaimID string     // claim of the delivery that did not arrive. If another delivery of the ring was confirmed since, nothing is sent
	Target  TargetKind // target of that delivery
}

// reasonResent is the last_error of an alarm whose ring is sent again.
const reasonResent = "the subscriber resumed its stream without the ring"
