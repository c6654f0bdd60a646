package store

import (
	"cmp"
	"strconv"

	"github.com/clockd/clockd/clock"
)

// Addressee is the application of a group of alarms, and what they name.
type Addressee struct {
	Application string
	Named
}

// Named is the target that an alarm names, and the number of its destination. An alarm that names no target has
// clock.NoTarget, and rings to the target that the application's settings name. An alarm that names no destination has
// the number 0. An alarm that brings fields of its receiver itself has a number above clock.MaxDestinations.
type Named struct {
	Target      clock.TargetKind
	Destination int
}

// NamedBy returns what the alarm names.
func NamedBy(c *clock.Content) Named { return Named{c.Target, c.Destination.Number} }

// NamedByRing returns what the alarm of the ring names.
func NamedByRing(r *clock.Ring) Named { return Named{r.NamedTarget, r.Destination} }

// AddresseesOf returns the addressees of an application without destinations: for no target, and for each target.
func AddresseesOf(application string) []Addressee {
	all := []Addressee{{Application: application}}
	for _, target := range clock.TargetKinds() {
		all = append(all, Addressee{application, Named{Target: target}})
	}
	return all
}

// String returns the addressee as the due queries compare it: the application, a slash, and the number of what its
// alarms name.
func (a Addressee) String() string { return a.Application + "/" + strconv.Itoa(a.number()) }

// Receiver returns the receiver of the addressee's rings, as clock.ReceiverOf does.
func (a Addressee) Receiver() string { return clock.ReceiverOf(a.Application, a.Destination) }

// Compare orders addressees by application and what their alarms name.
func (a Addressee) Compare(b Addressee) int {
	return cmp.Or(cmp.Compare(a.Application, b.Application), cmp.Compare(a.number(), b.number()))
}

// AddresseeTexts returns the texts of the addressees.
func AddresseeTexts(addressees []Addressee) []string {
	texts := make([]string, len(addressees))
	for i, a := range addressees {
		texts[i] = a.String()
	}
	return texts
}

// Numbers of ranks in due_rank, and of targets for one destination. clock.MaxNumber is the highest number that fits the
// column.
const (
	ranksPerNumber = 16
	targetNumbers  = 8
)

// number returns 8 times the number of the destination, plus the number of the target.
func (n Named) number() int { return targetNumbers*n.Destination + int(n.Target) }

// Of returns the addressee of an application's alarms that name n.
func (n Named) Of(application string) Addressee { return Addressee{application, n} }

// Rank returns the due_rank of an alarm: 16 times the number of its Named, plus 9 - priority. Of two alarms of one
// addressee with one due time, the lower rank rings first. The order of different addressees has no meaning. So the due
// index tells the addressee of each alarm, and needs no further column.
func Rank(named Named, priority int) int {
	return ranksPerNumber*named.number() + clock.MaxPriority - priority
}

// RankOf returns the due_rank of an alarm with the content.
func RankOf(c *clock.Content) int { return Rank(NamedBy(c), c.Priority) }

// RankOfRing returns the due_rank of the ring's alarm.
func RankOfRing(r *clock.Ring) int { return Rank(NamedByRing(r), r.Priority) }

// NamedOfRank returns what an alarm with the due_rank names.
func NamedOfRank(rank int) Named {
	number := rank / ranksPerNumber
	return Named{Target: clock.TargetKind(number % targetNumbers), Destination: number / targetNumbers}
}

// OrderOfRank returns 9 - priority, which orders alarms of one addressee.
func OrderOfRank(rank int) int8 { return int8(rank % ranksPerNumber) }

// ValidRank reports whether an alarm can have the due_rank.
func ValidRank(rank int) bool {
	named := NamedOfRank(rank)
	isKnown := named.Target.String() != "" && named.Destination <= clock.MaxNumber || named == Named{}
	return rank >= 0 && rank%ranksPerNumber <= clock.MaxPriority && isKnown
}
