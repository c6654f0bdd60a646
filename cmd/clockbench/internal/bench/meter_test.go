package bench

import (
	"math"
	"testing"
	"time"
)

// TestUsedBetweenSubtractsIdleUse: the use of idle nodes and the cost of a reading are not part of a measured cost.
func TestUsedBetweenSubtractsIdleUse(t *testing.T) {
	begun := time.Now()
	begin, end := newReading(), newReading()
	for c, counts := range map[column][2]float64{colStatements: {100, 250}, colAllocations: {0, 1000}, colTransactions: {7, 8}} {
		begin.count[c], begin.at[c] = counts[0], begun
		end.count[c], end.at[c] = counts[1], begun.Add(2*time.Second)
	}
	m := &meter{}
	m.idle[colStatements], m.idle[colTransactions], m.readingCost[colAllocations] = 25, 3, 400
	c := costOf("some", 10, m.usedBetween(begin, end))
	for col, want := range map[column]float64{colStatements: 10, colAllocations: 60, colTransactions: 0} {
		if got, counted := c.value(col); !counted || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", columnText(col), got, want)
		}
	}
	if _, counted := c.value(colFramesIn); counted {
		t.Error("an uncounted column has a cost")
	}
}
