package clockhttp

import "github.com/clockd/clockd/clock"

// Blockers returns the reasons why an alarm does not ring although it is due, or has failed tries, as this
// node knows them. It returns none for other alarms. It must not block.
type Blockers func(a *clock.Alarm) []clock.Blocker

// noBlockers is the Blockers of a server that knows no reasons.
func noBlockers(*clock.Alarm) []clock.Blocker { return nil }

// appendBlockers appends the member blockers after other members.
func appendBlockers(b []byte, blockers []clock.Blocker) []byte {
	return appendList(append(b, `,"blockers":`...), blockers, func(blocker *clock.Blocker, b []byte) []byte {
		b = appendString(append(b, `{"code":`...), string(blocker.Code))
		b = appendOptional(append(b, `,"target":`...), blocker.Target)
		return append(appendString(append(b, `,"detail":`...), blocker.Detail), '}')
	})
}
