package preload

import (
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// progress records how far a loader has read: the watermark, the gaps below it, and the addressees that are behind. Its
// methods lock it while they offer rows to the heap, so the record always matches the offers.
//
// Only the loader's goroutine begins and ends reads, one at a time. Any goroutine may call the other methods at any
// time.
type progress struct {
	mu        sync.Mutex
	shards    []int          // sorted
	watermark store.Position // zero: nothing was read yet
	gaps      []gap          // ranges below the watermark that were not read yet
	behind    behind
	cursor    store.Position // end of the last read for addressees that are behind; the next such read goes on there
	epoch     int            // counts resets; a read that began in an earlier epoch puts no unread rest back
	// committed has the ids that were committed since the current read began. The read's rows with these ids are
	// outdated. Nil while no read runs.
	committed map[int64]struct{}
	// overflow is true when committed would need more than maxCommitted ids. Then all rows of the read are dropped. A
	// sweep goes on; every other read is repeated.
	overflow bool
}

// maxCommitted bounds the ids that are noted during a read.
const maxCommitted = 1 << 16

// offerFunc offers rows to the heap. It returns the rows that the heap left out: for each addressee the first such row.
type offerFunc = func(rows []store.Due) (missing []store.Due)

// hasRoomFunc reports whether the heap has room for an addressee's missing rows, which begin at a position.
type hasRoomFunc = func(addressee store.Addressee, from store.Position) bool

// assignment is the shards of a loader, and the shards and applications that it has to read from the beginning.
type assignment struct {
	shards       []int    // all shards of the loader; sorted
	gained       []int    // shards to read from the beginning; sorted. A shard that is not in shards is ignored
	applications []string // applications to read from the beginning in all shards; sorted
}

// assign sets the shards. The loader reads all rows of gained shards and applications. The other shards keep their
// watermark. If shards were lost, assign calls dropEntries, which has to drop their entries from the heap.
func (p *progress) assign(a assignment, dropEntries func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	losesShards := len(within(p.shards, a.shards)) < len(p.shards)
	p.shards = a.shards
	if losesShards {
		dropEntries()
		p.gaps = keepShards(p.gaps, p.shards)
	}
	if len(p.shards) == 0 {
		p.reset()
	}
	if p.watermark == (store.Position{}) {
		return // all shards are read from the beginning anyway
	}
	if gained := within(a.gained, p.shards); len(gained) > 0 {
		p.gaps = addGap(p.gaps, gap{shards: gained, until: p.watermark})
	}
	p.behind.readFromStart(a.applications)
}

// assigned returns the loader's shards, sorted. The caller must not change the slice.
func (p *progress) assigned() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shards
}

// rewind lets the loader read all rows once more.
func (p *progress) rewind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

// reset forgets the watermark, the gaps and the addressees that are behind.
func (p *progress) reset() {
	p.watermark, p.gaps, p.behind = store.Position{}, nil, behind{}
	p.epoch++
}

// start sets the watermark if there is none: to recent. The time before becomes a gap, so that recent rows are read
// before a backlog.
func (p *progress) start(recent clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watermark != (store.Position{}) || len(p.shards) == 0 {
		return
	}
	if p.watermark = (store.Position{Time: max(1, recent)}); recent > 0 {
		p.gaps = addGap(nil, gap{shards: p.shards, until: p.watermark})
	}
}

// refresh lets the loader read the rows from recent on once more.
func (p *progress) refresh(recent clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = earlier(p.watermark, store.Position{Time: max(1, recent)})
}

// capAtWatermark returns the position, or the watermark if that is earlier.
func (p *progress) capAtWatermark(position store.Position) store.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return earlier(p.watermark, position)
}

// currentWatermark returns the watermark, and whether the loader has shards.
func (p *progress) currentWatermark() (watermark store.Position, hasShards bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watermark, len(p.shards) > 0
}

// shardsWithGaps returns the number of shards that have gaps.
func (p *progress) shardsWithGaps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var shards []int
	for _, g := range p.gaps {
		shards = append(shards, g.shards...)
	}
	slices.Sort(shards)
	return len(slices.Compact(shards))
}

// frequentFrom returns the frequent addressees for which reads drop all rows at or after from. There are at most
// store.MaxDueNames, unordered.
func (p *progress) frequentFrom(from store.Position) []store.Addressee {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behind.frequentFrom(from)
}

// beginPage begins a read from the watermark to the horizon. It raises the watermark to the horizon, so that rows
// committed from now on are offered by the commit itself. ok is false when the watermark is past enough: then there is
// nothing to read. A watermark past the horizon dates from before the database's clock was set back. beginPage lowers
// it, because other nodes send wake-ups only for rows within the present window.
func (p *progress) beginPage(enough clock.Instant, horizon store.Position) (from store.Position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = earlier(p.watermark, horizon)
	if p.watermark.Time > enough || !p.watermark.Before(horizon) {
		return p.watermark, false
	}
	from, p.watermark = p.watermark, horizon
	p.beginRead()
	return from, true
}

// endPage ends the read: it lowers the watermark to the position up to which the page is complete, and offers the rows.
// It returns the number of rows that it offered.
func (p *progress) endPage(from store.Position, page store.DuePage, offer offerFunc) (useful int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.overflow {
		page.CompleteUntil = from
	}
	p.watermark = earlier(p.watermark, page.CompleteUntil)
	return p.offerRows(p.endRead(page.Rows), offer)
}

// failPage ends a read that failed: it lowers the watermark to where the read began.
func (p *progress) failPage(from store.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = earlier(p.watermark, from)
	p.endRead(nil)
}

// beginGap takes the next gap to read out of the list. ok is false when there is no gap.
func (p *progress) beginGap(now clock.Instant) (r gapRead, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.gaps) == 0 {
		return r, false
	}
	r.gap, p.gaps = nextGap(p.gaps, now)
	r.epoch = p.epoch
	p.beginRead()
	return r, true
}

// gapRead is a read from the beginning of a gap.
type gapRead struct {
	gap
	epoch int // progress.epoch when the read began
}

// endGap offers the rows, and puts the unread rest of the gap back. It returns the number of rows that it offered.
func (p *progress) endGap(r gapRead, page store.DuePage, offer offerFunc) (useful int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.overflow {
		r.from = page.CompleteUntil
	}
	p.putBack(r)
	return p.offerRows(p.endRead(page.Rows), offer)
}

// failGap ends a read that failed: it puts the gap back.
func (p *progress) failGap(r gapRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.putBack(r)
	p.endRead(nil)
}

// putBack puts the rest of a gap back, without lost shards. After a reset it puts nothing back, because everything is
// read again.
func (p *progress) putBack(r gapRead) {
	if r.epoch == p.epoch && r.from.Before(r.until) {
		p.gaps = slices.Insert(p.gaps, 0, keepShards([]gap{r.gap}, p.shards)...)
	}
}

// hasGained reports whether gained addressees are still to be read.
func (p *progress) hasGained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.behind.gainedAddressees) > 0
}

// noteRechecks notes addressees for whose missing rows the heap may have room now. The next beginBehind asks the heap
// about them.
func (p *progress) noteRechecks(addressees []store.Addressee) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind.noteRechecks(addressees)
}

// beginBehind begins a read for addressees that are behind and for which the heap has room. With all it asks the heap
// about every addressee that is behind, else about the addressees that noteRechecks noted. Reads go round from the
// first position to the last. So one page serves addressees whose rows lie close together, and no addressee waits for
// another one's backlog. ok is false when there is nothing to read.
func (p *progress) beginBehind(all bool, hasRoom hasRoomFunc) (b behindRead, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	positions := p.behind.positionsWithRoom(all, p.watermark, hasRoom)
	if len(positions) == 0 {
		return b, false
	}
	b = behindRead{addressees: positions, from: firstFrom(positions, p.cursor), until: p.watermark, epoch: p.epoch}
	for addressee, from := range positions {
		if from.Before(b.from) { // the next round reads this addressee
			delete(positions, addressee)
			continue
		}
		p.behind.forget(addressee) // so that rows committed from now on are offered by the commit itself
	}
	p.beginRead()
	return b, true
}

// firstFrom returns the earliest position at or after cursor. If there is none, it returns the earliest position of
// all.
func firstFrom(positions map[store.Addressee]store.Position, cursor store.Position) store.Position {
	var earliest, next store.Position
	hasEarliest, hasNext := false, false
	for _, position := range positions {
		if !hasEarliest || position.Before(earliest) {
			earliest, hasEarliest = position, true
		}
		if !position.Before(cursor) && (!hasNext || position.Before(next)) {
			next, hasNext = position, true
		}
	}
	if hasNext {
		return next
	}
	return earliest
}

// endBehind offers the rows of the addressees that were read for, and notes from where on these addressees are still
// behind. It returns the number of rows that it offered.
func (p *progress) endBehind(b behindRead, page store.DuePage, offer offerFunc) (useful int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.overflow {
		page.CompleteUntil = b.from
	}
	p.cursor = page.CompleteUntil
	for addressee, from := range b.addressees {
		switch {
		case b.epoch != p.epoch:
		case page.CompleteUntil.Before(b.until):
			p.behind.markBehind(addressee, later(from, page.CompleteUntil))
		default:
			delete(p.behind.gainedAddressees, addressee)
		}
	}
	rows := slices.DeleteFunc(p.endRead(page.Rows), func(d store.Due) bool {
		from, isRead := b.addressees[d.Addressee()]
		return !isRead || d.Position().Before(from)
	})
	useful = len(rows)
	p.behind.markAllBehind(offer(rows))
	return useful
}

// failBehind ends a read that failed: its addressees are behind as before.
func (p *progress) failBehind(b behindRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addressee, from := range b.addressees {
		p.behind.markBehind(addressee, from)
	}
	p.endRead(nil)
}

func (p *progress) beginSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginRead()
}

// endSweep offers the rows and returns the number of rows that it offered. It takes ownership of the page's rows and
// changes them in place.
func (p *progress) endSweep(page store.DuePage, offer offerFunc) (useful int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offerRows(p.endRead(page.Rows), offer)
}

func (p *progress) failSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endRead(nil)
}

// takeCommitted notes committed rows and removed ids, so that a running read does not bring older versions. It offers
// the rows before the watermark. It takes ownership of rows and changes them in place.
func (p *progress) takeCommitted(rows []store.Due, gone []int64, offer offerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range gone {
		p.noteCommitted(id)
	}
	for i := range rows {
		p.noteCommitted(rows[i].ID)
	}
	p.offerRows(slices.DeleteFunc(rows, func(d store.Due) bool { return !d.Position().Before(p.watermark) || !p.hasShard(d.Shard) }), offer)
}

// markAllBehind notes the rows that the heap left out: for each addressee the first such row.
func (p *progress) markAllBehind(missing []store.Due) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind.markAllBehind(missing)
}

// offerRows offers rows, except rows that wait for a later read because their addressee is behind. It returns the
// number of offered rows. It takes ownership of rows and changes them in place.
func (p *progress) offerRows(rows []store.Due, offer offerFunc) int {
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { return p.behind.skips(&d) })
	p.behind.markAllBehind(offer(rows))
	return len(rows)
}

func (p *progress) hasShard(shard int) bool {
	_, found := slices.BinarySearch(p.shards, shard)
	return found
}

// beginRead begins to note committed ids.
func (p *progress) beginRead() { p.committed, p.overflow = map[int64]struct{}{}, false }

// endRead returns the rows of the read without outdated rows, which were committed again during the read, and without
// rows of lost shards. It takes ownership of rows and changes them in place.
func (p *progress) endRead(rows []store.Due) []store.Due {
	committed, overflow := p.committed, p.overflow
	p.committed, p.overflow = nil, false
	if overflow {
		return nil
	}
	return slices.DeleteFunc(rows, func(d store.Due) bool {
		_, newer := committed[d.ID]
		return newer || !p.hasShard(d.Shard)
	})
}

// noteCommitted notes an id while a read runs.
func (p *progress) noteCommitted(id int64) {
	if p.committed == nil {
		return
	}
	if len(p.committed) == maxCommitted {
		p.overflow = true
		return
	}
	p.committed[id] = struct{}{}
}

func earlier(a, b store.Position) store.Position {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b store.Position) store.Position {
	if a.Before(b) {
		return b
	}
	return a
}
