package main

import (
	"math"
	"path/filepath"
	"testing"
)

func TestCollectorKeepsTheOperatorsSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, env string
		paced     bool
		limit     float64 // memory limit in bytes
	}{
		{"none", "HOME=/", true, 160 << 20},
		{"GOGC", "GOGC=70", false, math.MaxInt64},
		{"GOMEMLIMIT", "GOMEMLIMIT=300MiB", true, 300 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "CLOCKD_DATABASE_URL=sqlite:"+filepath.Join(t.TempDir(), "clockd.db"), c.env)
			if !c.paced {
				if got := p.metric("go_gc_gogc_percent"); got != 70 {
					t.Errorf("GOGC is %v, want the operator's 70", got)
				}
			} else {
				// GOGC is 100 while the live heap exceeds the room; its size after a start differs
				eventually(t, "GOGC leaves room", func() bool { return p.metric("go_gc_gogc_percent") > 100 })
			}
			if got := p.metric("go_gc_gomemlimit_bytes"); got != c.limit {
				t.Errorf("the limit is %v, want %v", got, c.limit)
			}
		})
	}
}
