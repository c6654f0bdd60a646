package main

import (
	"path/filepath"
	"testing"
	"time"
)

// TestRingBatch: SQLite has larger batches by default; what is said counts, also against the entries in memory.
func TestRingBatch(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "clockd.db")
	const mariadb, postgresql = "mysql://u:p@127.0.0.1:3306/clockd", "postgres://u:p@127.0.0.1:5432/clockd"
	for _, c := range []struct {
		name, url     string
		batch, memory int
		want          int // 0: refused
	}{
		{"mariadb", mariadb, 0, 100_000, 300},
		{"postgresql", postgresql, 0, 100_000, 300},
		{"sqlite", file, 0, 100_000, 500},
		{"said", file, 50, 100_000, 50},
		{"negative", file, -1, 100_000, 0},
		{"more than memory", file, 0, 1499, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := newConfig(serveFlags{
				databaseFlags: databaseFlags{DatabaseURL: c.url}, Listen: "127.0.0.1:0", Retention: time.Hour, MaxPayload: 1024,
				WriteLanes: 2, RingWorkers: 3, RingBatch: c.batch, HeapEntries: c.memory, PreloadAhead: 30 * time.Second,
			})
			if refused := err != nil; refused != (c.want == 0) {
				t.Fatalf("error %v, want %d", err, c.want)
			}
			if err == nil && cfg.ring.BatchRows != c.want {
				t.Errorf("%d alarms a batch, want %d", cfg.ring.BatchRows, c.want)
			}
		})
	}
}
