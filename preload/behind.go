package preload

import (
	"slices"

	"github.com/clockd/clockd/store"
)

// behind holds the applications that are behind. The heap left out rows of such an application, so its rows between a position and the
// watermark may be missing in the heap.
type behind struct {
	skippedFrom map[string]*skipped // by application; at most maxBehind
	// frequent has applications to exclude in queries, at most store.MaxDueNames. Some may not be behind any more.
	frequent []string
	// rechecks has the applications for whose missing rows the heap may have room now. The heap names each further such application.
	rechecks map[string]struct{}
	// gainedApplications has the applications that are read from the beginning, because the node rings them in more shards than before.
	gainedApplications map[string]struct{}
}

// skipped is one application that is behind. Reads drop its rows at or after from.
type skipped struct {
	from    store.Position
	dropped int // rows that reads dropped
}

const (
	// maxBehind bounds the applications in behind. The sweep finds the missing rows of further applications.
	maxBehind = 1 << 16
	// frequentRows is the number of dropped rows that makes an application frequent.
	frequentRows = 16
)

// behindRead is a read for applications that are behind.
type behindRead struct {
	applications map[string]store.Position // by application, where its missing rows begin
	from, until  store.Position            // range of the read; from is inclusive, until exclusive
	epoch        int                       // progress.epoch when the read began
}

// names returns the applications to read.
func (b *behindRead) names() []string {
	names := make([]string, 0, len(b.applications))
	for name := range b.applications {
		names = append(names, name)
	}
	return names
}

// readFromStart lets the next reads bring all rows of the applications.
func (b *behind) readFromStart(applications []string) {
	b.noteRechecks(applications)
	if b.gainedApplications == nil {
		b.gainedApplications = map[string]struct{}{}
	}
	for _, application := range applications {
		b.markBehind(application, store.Position{})
		b.gainedApplications[application] = struct{}{}
	}
}

// noteRechecks notes applications for whose missing rows the heap may have room now.
func (b *behind) noteRechecks(applications []string) {
	if b.rechecks == nil {
		b.rechecks = map[string]struct{}{}
	}
	for _, application := range applications {
		b.rechecks[application] = struct{}{}
	}
}

// positionsWithRoom returns the applications for whose missing rows the heap has room, with the positions where these rows begin. With all
// it asks the heap about every application that is behind, else about the applications that noteRechecks noted.
func (b *behind) positionsWithRoom(all bool, watermark store.Position, hasRoom hasRoomFunc) map[string]store.Position {
	positions := map[string]store.Position{}
	if all {
		for application, s := range b.skippedFrom {
			b.selectIfRoom(positions, application, s.from, watermark, hasRoom)
		}
		return positions
	}
	for application := range b.rechecks {
		s := b.skippedFrom[application]
		if s == nil {
			delete(b.gainedApplications, application)
		}
		if s == nil || !b.selectIfRoom(positions, application, s.from, watermark, hasRoom) {
			delete(b.rechecks, application) // the heap names it again when it may have room
		}
	}
	return positions
}

// selectIfRoom adds the application to positions if the heap has room for its missing rows, and reports whether it did.
func (b *behind) selectIfRoom(positions map[string]store.Position, application string, from, watermark store.Position, hasRoom hasRoomFunc) bool {
	if !from.Before(watermark) { // the watermark was lowered since: the reads ahead bring the rows
		delete(b.gainedApplications, application)
		b.forget(application)
		return false
	}
	if !hasRoom(application, from) {
		delete(b.gainedApplications, application)
		return false
	}
	positions[application] = from
	return true
}

// forget notes that the application is not behind any more.
func (b *behind) forget(application string) { delete(b.skippedFrom, application) }

// markBehind notes that the heap left out the application's rows from a position on.
func (b *behind) markBehind(application string, from store.Position) {
	if s := b.skippedFrom[application]; s != nil {
		s.from = earlier(s.from, from)
		return
	}
	if b.skippedFrom == nil {
		b.skippedFrom = map[string]*skipped{}
	}
	if len(b.skippedFrom) < maxBehind {
		b.skippedFrom[application] = &skipped{from: from}
	}
}

// markAllBehind notes the rows that the heap left out: for each application the first such row.
func (b *behind) markAllBehind(missing []store.Due) {
	for i := range missing {
		b.markBehind(missing[i].Application, missing[i].Position())
	}
}

// skips reports whether the row waits for a later read because its application is behind, and counts the row.
func (b *behind) skips(d *store.Due) bool {
	s := b.skippedFrom[d.Application]
	if s == nil || d.Position().Before(s.from) {
		return false
	}
	if s.dropped++; s.dropped%frequentRows == 0 {
		b.makeFrequent(d.Application, s.dropped)
	}
	return true
}

// makeFrequent notes an application as frequent. If the list is full, it replaces the application with the fewest dropped rows, unless
// that application has as many.
func (b *behind) makeFrequent(application string, dropped int) {
	if slices.Contains(b.frequent, application) {
		return
	}
	b.frequent = slices.DeleteFunc(b.frequent, func(name string) bool { return b.skippedFrom[name] == nil })
	if len(b.frequent) < store.MaxDueNames {
		b.frequent = append(b.frequent, application)
		return
	}
	rarest := 0
	for i, name := range b.frequent {
		if b.skippedFrom[name].dropped < b.skippedFrom[b.frequent[rarest]].dropped {
			rarest = i
		}
	}
	if b.skippedFrom[b.frequent[rarest]].dropped < dropped {
		b.frequent[rarest] = application
	}
}

// frequentFrom returns the frequent applications for which reads drop all rows at or after from. There are at most
// store.MaxDueNames, unordered.
func (b *behind) frequentFrom(from store.Position) []string {
	var names []string
	for _, name := range b.frequent {
		if s := b.skippedFrom[name]; s != nil && !from.Before(s.from) {
			names = append(names, name)
		}
	}
	return names
}
