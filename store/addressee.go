package store

import (
	"cmp"
	"strconv"

	"github.com/clockd/clockd/clock"
)

// Addressee is what a group of alarms has in common: their application, and the target that they name. Alarms that name
// none have clock.NoTarget, and ring to the target that the application's settings name.
type Addressee struct {
	Application string
	Target      clock.TargetKind
}

// AddresseesOf returns all addressees of an application: for no target, and for each target.
func AddresseesOf(application string) []Addressee {
	all := []Addressee{{Application: application}}
	for _, target := range clock.TargetKinds() {
		all = append(all, Addressee{application, target})
	}
	return all
}

// String returns the addressee as the due queries compare it: the application, a slash, and the number of the target.
func (a Addressee) String() string { return a.Application + "/" + strconv.Itoa(int(a.Target)) }

// Compare orders addressees by application and target.
func (a Addressee) Compare(b Addressee) int {
	return cmp.Or(cmp.Compare(a.Application, b.Application), cmp.Compare(a.Target, b.Target))
}

// AddresseeTexts returns the texts of the addressees.
func AddresseeTexts(addressees []Addressee) []string {
	texts := make([]string, len(addressees))
	for i, a := range addressees {
		texts[i] = a.String()
	}
	return texts
}

// ranksPerTarget is the number of ranks between two targets in due_rank.
const ranksPerTarget = 16

// Rank returns the due_rank of an alarm: 16 times the number of the target that it names, plus 9 - priority. Of two
// alarms of one addressee with one due time, the lower rank rings first. The order of different addressees has no
// meaning. So the due index tells the addressee of each alarm, and needs no further column.
func Rank(target clock.TargetKind, priority int) int {
	return ranksPerTarget*int(target) + clock.MaxPriority - priority
}

// TargetOfRank returns the target of a due_rank.
func TargetOfRank(rank int) clock.TargetKind { return clock.TargetKind(rank / ranksPerTarget) }

// ValidRank reports whether an alarm can have the due_rank.
func ValidRank(rank int) bool {
	target := TargetOfRank(rank)
	return rank >= 0 && rank%ranksPerTarget <= clock.MaxPriority && (target == clock.NoTarget || target.String() != "")
}
