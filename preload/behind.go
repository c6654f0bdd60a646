package preload

import (
	"slices"

	"github.com/clockd/clockd/store"
)

// behind holds the addressees that are behind. The heap left out rows of such an addressee, so its rows between a
// position and the watermark may be missing in the heap.
type behind struct {
	skippedFrom map[store.Addressee]*skipped // by addressee; at most maxBehind
	// frequent has addressees to exclude in queries, at most store.MaxDueNames. Some may not be behind any more.
	frequent []store.Addressee
	// rechecks has the addressees for whose missing rows the heap may have room now. The heap names each further such
	// addressee.
	rechecks map[store.Addressee]struct{}
	// gainedAddressees has the addressees that are read from the beginning, because the node rings them in more shards
	// than before.
	gainedAddressees map[store.Addressee]struct{}
}

// skipped is one addressee that is behind. Reads drop its rows at or after from.
type skipped struct {
	from    store.Position
	dropped int // rows that reads dropped
}

const (
	// maxBehind bounds the addressees in behind. The sweep finds the missing rows of further addressees.
	maxBehind = 1 << 16
	// frequentRows is the number of dropped rows that makes an addressee frequent.
	frequentRows = 16
)

// behindRead is a read for addressees that are behind.
type behindRead struct {
	addressees  map[store.Addressee]store.Position // by addressee, where its missing rows begin
	from, until store.Position                     // range of the read; from is inclusive, until exclusive
	epoch       int                                // progress.epoch when the read began
}

// names returns the addressees to read.
func (b *behindRead) names() []store.Addressee {
	names := make([]store.Addressee, 0, len(b.addressees))
	for name := range b.addressees {
		names = append(names, name)
	}
	return names
}

// readFromStart lets the next reads bring all rows of the applications that name no destination, whatever targets they
// name.
func (b *behind) readFromStart(applications []string) {
	var addressees []store.Addressee
	for _, application := range applications {
		addressees = append(addressees, store.AddresseesOf(application)...)
	}
	b.noteRechecks(addressees)
	if b.gainedAddressees == nil {
		b.gainedAddressees = map[store.Addressee]struct{}{}
	}
	for _, addressee := range addressees {
		b.markBehind(addressee, store.Position{})
		b.gainedAddressees[addressee] = struct{}{}
	}
}

// noteRechecks notes addressees for whose missing rows the heap may have room now.
func (b *behind) noteRechecks(addressees []store.Addressee) {
	if b.rechecks == nil {
		b.rechecks = map[store.Addressee]struct{}{}
	}
	for _, addressee := range addressees {
		b.rechecks[addressee] = struct{}{}
	}
}

// positionsWithRoom returns the addressees for whose missing rows the heap has room, with the positions where these
// rows begin. With all it asks the heap about every addressee that is behind, else about the addressees that
// noteRechecks noted.
func (b *behind) positionsWithRoom(
	all bool, watermark store.Position, hasRoom hasRoomFunc,
) map[store.Addressee]store.Position {
	positions := map[store.Addressee]store.Position{}
	if all {
		for addressee, s := range b.skippedFrom {
			b.selectIfRoom(positions, addressee, s.from, watermark, hasRoom)
		}
		return positions
	}
	for addressee := range b.rechecks {
		s := b.skippedFrom[addressee]
		if s == nil {
			delete(b.gainedAddressees, addressee)
		}
		if s == nil || !b.selectIfRoom(positions, addressee, s.from, watermark, hasRoom) {
			delete(b.rechecks, addressee) // the heap names it again when it may have room
		}
	}
	return positions
}

// selectIfRoom adds the addressee to positions if the heap has room for its missing rows, and reports whether it did.
func (b *behind) selectIfRoom(
	positions map[store.Addressee]store.Position, addressee store.Addressee, from, watermark store.Position,
	hasRoom hasRoomFunc,
) bool {
	if !from.Before(watermark) { // the watermark was lowered since: the reads ahead bring the rows
		delete(b.gainedAddressees, addressee)
		b.forget(addressee)
		return false
	}
	if !hasRoom(addressee, from) {
		delete(b.gainedAddressees, addressee)
		return false
	}
	positions[addressee] = from
	return true
}

// forget notes that the addressee is not behind any more.
func (b *behind) forget(addressee store.Addressee) { delete(b.skippedFrom, addressee) }

// markBehind notes that the heap left out the addressee's rows from a position on.
func (b *behind) markBehind(addressee store.Addressee, from store.Position) {
	if s := b.skippedFrom[addressee]; s != nil {
		s.from = earlier(s.from, from)
		return
	}
	if b.skippedFrom == nil {
		b.skippedFrom = map[store.Addressee]*skipped{}
	}
	if len(b.skippedFrom) < maxBehind {
		b.skippedFrom[addressee] = &skipped{from: from}
	}
}

// markAllBehind notes the rows that the heap left out: for each addressee the first such row.
func (b *behind) markAllBehind(missing []store.Due) {
	for i := range missing {
		b.markBehind(missing[i].Addressee(), missing[i].Position())
	}
}

// skips reports whether the row waits for a later read because its addressee is behind, and counts the row.
func (b *behind) skips(d *store.Due) bool {
	s := b.skippedFrom[d.Addressee()]
	if s == nil || d.Position().Before(s.from) {
		return false
	}
	if s.dropped++; s.dropped%frequentRows == 0 {
		b.makeFrequent(d.Addressee(), s.dropped)
	}
	return true
}

// makeFrequent notes an addressee as frequent. If the list is full, it replaces the addressee with the fewest dropped
// rows, unless that addressee has as many.
func (b *behind) makeFrequent(addressee store.Addressee, dropped int) {
	if slices.Contains(b.frequent, addressee) {
		return
	}
	b.frequent = slices.DeleteFunc(b.frequent, func(name store.Addressee) bool { return b.skippedFrom[name] == nil })
	if len(b.frequent) < store.MaxDueNames {
		b.frequent = append(b.frequent, addressee)
		return
	}
	rarest := 0
	for i, name := range b.frequent {
		if b.skippedFrom[name].dropped < b.skippedFrom[b.frequent[rarest]].dropped {
			rarest = i
		}
	}
	if b.skippedFrom[b.frequent[rarest]].dropped < dropped {
		b.frequent[rarest] = addressee
	}
}

// frequentFrom returns the frequent addressees for which reads drop all rows at or after from. There are at most
// store.MaxDueNames, unordered.
func (b *behind) frequentFrom(from store.Position) []store.Addressee {
	var names []store.Addressee
	for _, name := range b.frequent {
		if s := b.skippedFrom[name]; s != nil && !from.Before(s.from) {
			names = append(names, name)
		}
	}
	return names
}
