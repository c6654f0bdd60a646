package preload

import (
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// progress is what a loader knows of where it stands: up to where everything was offered to the heap, and of which
// applications the heap left something out. Its one lock makes offering and what is known of it one step.
//
// Reads are begun and ended by the loader's goroutine alone, one at a time; the others may be called at any time.
type progress struct {
	mu     sync.Mutex
	shards []int
	mark   store.Position            // every row before it was offered
	behind map[string]store.Position // applications of which rows from there on to the mark may be missing
	// news has the ids that were taken while a read is on its way: what it read of them is older. Nil when none is.
	news map[int64]struct{}
	// stale says that there were too many of them, or the shards changed: what was read must be read again.
	stale bool
}

const (
	// maxNews bounds the ids noted during a read.
	maxNews = 1 << 16
	// maxBehind bounds the applications that are noted as left out. What is left out of more is found by the sweep.
	maxBehind = 1 << 16
)

// offerFunc puts rows into the heap and returns what has no place, one row an application.
type offerFunc = func(rows []store.Due) (missing []store.Due)

// assign sets the shards and calls keep, which is to drop what is not theirs. Everything is read from the beginning, a
// read that is on its way too.
func (p *progress) assign(shards []int, keep func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shards = shards
	p.mark, p.behind, p.stale = store.Position{}, nil, true
	keep()
}

// owned returns the shards, not to be changed.
func (p *progress) owned() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shards
}

// rewind has everything read once more.
func (p *progress) rewind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark, p.behind = store.Position{}, nil
}

// before returns the mark, or q if that is earlier.
func (p *progress) before(q store.Position) store.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return earlier(p.mark, q)
}

// read returns the mark where there are shards.
func (p *progress) read() (mark store.Position, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark, len(p.shards) > 0
}

// beginPage raises the mark to the horizon, so that what is committed from now on is offered by its writer, and returns
// where to read from. ok is false when the mark is past enough.
func (p *progress) beginPage(enough clock.Instant, horizon store.Position) (from store.Position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mark.Time > enough || !p.mark.Before(horizon) {
		return p.mark, false
	}
	from, p.mark = p.mark, horizon
	p.begin()
	return from, true
}

// endPage lowers the mark to what was read, and offers that.
func (p *progress) endPage(page store.DuePage, offer offerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale && len(page.Rows) > 0 {
		page.Complete = page.Rows[0].Position()
	}
	p.mark = earlier(p.mark, page.Complete)
	p.offer(p.end(page.Rows), offer)
}

func (p *progress) failPage(from store.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = earlier(p.mark, from)
	p.end(nil)
}

// behindRead is a page for applications that were left out, each from its own position on.
type behindRead struct {
	applications map[string]store.Position
	from, until  store.Position
}

// beginBehind picks one of the applications wanted, by chance so that none is kept waiting by another, with those wanted that
// are less far behind.
func (p *progress) beginBehind(wants func(application string, from store.Position) bool) (b behindRead, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = behindRead{applications: map[string]store.Position{}, until: p.mark}
	for application, from := range p.behind {
		switch {
		case !from.Before(p.mark): // the mark was lowered since: the page will bring it
			delete(p.behind, application)
		case (!ok || !from.Before(b.from)) && wants(application, from):
			if !ok {
				b.from, ok = from, true
			}
			b.applications[application] = from
			delete(p.behind, application) // so that what is committed from now on is offered by its writer
		}
	}
	if ok {
		p.begin()
	}
	return b, ok
}

func (p *progress) endBehind(b behindRead, page store.DuePage, offer offerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale {
		page.Complete = b.from
	}
	if page.Complete.Before(b.until) {
		for application, from := range b.applications {
			p.leave(application, later(from, page.Complete))
		}
	}
	p.leaveAll(offer(slices.DeleteFunc(p.end(page.Rows), func(d store.Due) bool {
		from, asked := b.applications[d.Application]
		return !asked || d.Position().Before(from)
	})))
}

func (p *progress) failBehind(b behindRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for application, from := range b.applications {
		p.leave(application, from)
	}
	p.end(nil)
}

func (p *progress) beginSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
}

func (p *progress) endSweep(page store.DuePage, offer offerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offer(p.end(page.Rows), offer)
}

func (p *progress) failSweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(nil)
}

// take notes what was committed, and offers what of it is to be in the heap.
func (p *progress) take(rows []store.Due, gone []int64, offer offerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range gone {
		p.note(id)
	}
	for i := range rows {
		p.note(rows[i].ID)
	}
	p.offer(slices.DeleteFunc(rows, func(d store.Due) bool {
		return !d.Position().Before(p.mark) || !slices.Contains(p.shards, d.Shard)
	}), offer)
}

// leaveOut notes rows that have no place in the heap.
func (p *progress) leaveOut(missing []store.Due) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaveAll(missing)
}

// offer offers rows but for those that are left to be read when there is room for their application.
func (p *progress) offer(rows []store.Due, offer offerFunc) {
	p.leaveAll(offer(slices.DeleteFunc(rows, func(d store.Due) bool {
		from, behind := p.behind[d.Application]
		return behind && !d.Position().Before(from)
	})))
}

func (p *progress) leaveAll(missing []store.Due) {
	for i := range missing {
		p.leave(missing[i].Application, missing[i].Position())
	}
}

func (p *progress) leave(application string, from store.Position) {
	if before, ok := p.behind[application]; ok {
		p.behind[application] = earlier(before, from)
		return
	}
	if p.behind == nil {
		p.behind = map[string]store.Position{}
	}
	if len(p.behind) < maxBehind {
		p.behind[application] = from
	}
}

func (p *progress) begin() { p.news, p.stale = map[int64]struct{}{}, false }

// end returns the rows of the read that are not older than what was taken meanwhile.
func (p *progress) end(rows []store.Due) []store.Due {
	news, stale := p.news, p.stale
	p.news, p.stale = nil, false
	if stale {
		return nil
	}
	return slices.DeleteFunc(rows, func(d store.Due) bool { _, newer := news[d.ID]; return newer })
}

func (p *progress) note(id int64) {
	if p.news == nil {
		return
	}
	if len(p.news) == maxNews {
		p.stale = true
		return
	}
	p.news[id] = struct{}{}
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
