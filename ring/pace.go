package ring

import (
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// pace bounds the rows of a route's batches, so that a batch stays within its time limits also while the target, the
// database or this machine is slow. A batch beyond its limits is worse than slow: its rings are in doubt or its claim
// fails, and the repetition adds to the load.
//
// The bound follows additive increase and multiplicative decrease. The measure is the load of a batch: the largest part
// of a time limit that the batch has used. From slowLoad on, the bound is halved. Up to easyLoad it grows by a
// sixteenth of Config.BatchRows, up to fairLoad by a 64th. Part of the load is the same for every size, so below
// fairLoad a smaller batch would hardly be quicker. From there to slowLoad the bound stays, so a bound that was right
// is not exceeded over and over. Below leastPacedRows, where failures of the database lead, each batch within its
// limits doubles it.
//
// The number of workers stays the same, because a worker may wait for a silent application while the others ring.
type pace struct {
	full      int // Config.BatchRows
	rows      int // most rows of the next batch, from 1 to full
	decreases int // number of decreases so far
}

const (
	slowLoad = 0.75
	fairLoad = 0.5
	easyLoad = 0.25
	// unchangedLoad lies between fairLoad and slowLoad: the bound stays.
	unchangedLoad = (fairLoad + slowLoad) / 2
	// leastPacedRows is the least bound after slow batches. Smaller batches cost more for each ring, and are hardly
	// quicker. Only failures of the database lead to a lower bound.
	leastPacedRows = 16
	// easySteps is the number of easy batches after which the bound is full again, fairSteps the same for fair batches.
	easySteps, fairSteps = 16, 64
)

func newPace(batchRows int) pace { return pace{full: batchRows, rows: batchRows} }

// note adjusts the bound after a batch with that load. decreasesBefore is the value of decreases when the batch was
// handed out: a batch from before a decrease does not lead to another one.
func (p *pace) note(load float64, decreasesBefore int) {
	switch {
	case load >= slowLoad && p.rows > leastPacedRows:
		p.decrease(decreasesBefore, leastPacedRows)
	case load < 1 && p.rows < leastPacedRows:
		p.rows = min(p.full, leastPacedRows, 2*p.rows)
	case load <= easyLoad:
		p.rows = min(p.full, p.rows+max(1, p.full/easySteps))
	case load <= fairLoad:
		p.rows = min(p.full, p.rows+max(1, p.full/fairSteps))
	}
}

// noteFailure adjusts the bound after a batch that failed in the database. The database may be too slow to claim so
// many rows within Config.WriteTimeout, and would then fail every batch.
func (p *pace) noteFailure(decreasesBefore int) { p.decrease(decreasesBefore, 1) }

// decrease halves the bound, but not below least.
func (p *pace) decrease(decreasesBefore, least int) {
	if decreasesBefore == p.decreases {
		p.rows = max(least, p.rows/2)
		p.decreases++
	}
}

// replyLoad returns the load of a batch that waited for its replies. If every ring has a reply, the bound is not
// lowered, however long the last reply took: one slow queue takes as long in a small batch.
func replyLoad(took, limit time.Duration, outcomes []clock.Outcome) float64 {
	load := loadOf(took, limit)
	withoutReply := func(o clock.Outcome) bool { return o.Kind == clock.Awaited || o.Kind == clock.Doubtful }
	if !slices.ContainsFunc(outcomes, withoutReply) {
		load = min(load, unchangedLoad)
	}
	return load
}

// loadOf returns the part of a time limit that was used.
func loadOf(took, limit time.Duration) float64 { return float64(took) / float64(limit) }
