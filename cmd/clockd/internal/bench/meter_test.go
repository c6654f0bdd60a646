package bench

import (
	"math"
	"testing"
	"time"
)

// TestBetween: what idle nodes use in the time, and what asking costs, is no part of what is measured.
func TestBetween(t *testing.T) {
	begun := time.Now()
	begin, end := newReading(), newReading()
	for c, counts := range map[column][2]float64{colStatements: {100, 250}, colAllocations: {0, 1000}, colTransactions: {7, 8}} {
		begin.count[c], begin.at[c] = counts[0], begun
		end.count[c], end.at[c] = counts[1], begun.Add(2*time.Second)
	}
	m := &meter{}
	m.idle[colStatements], m.idle[colTransactions], m.asked[colAllocations] = 25, 3, 400
	c := costOf("some", 10, m.between(begin, end))
	for col, want := range map[column]float64{colStatements: 10, colAllocations: 60, colTransactions: 0} {
		if got, counted := c.of(col); !counted || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", columnText(col), got, want)
		}
	}
	if _, counted := c.of(colFramesIn); counted {
		t.Error("what was not counted has a cost")
	}
}
