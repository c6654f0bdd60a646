package sqlite

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// ReadDurability judges the pragmas of the connection that writes.
func (d *Driver) ReadDurability(ctx context.Context) ([]store.Finding, error) {
	var journal, synchronous string
	for pragma, into := range map[string]*string{"journal_mode": &journal, "synchronous": &synchronous} {
		if err := d.writer.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(into); err != nil {
			return nil, fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return []store.Finding{
		engine.SettingFinding("journal_mode", journal, journal != "off" && journal != "memory",
			"a half-written transaction is rolled back",
			"the file is corrupt after the process dies during a write: set it to wal"),
		// 2 is FULL and 3 is EXTRA; 1 is NORMAL, which syncs the WAL only at checkpoints
		engine.SettingFinding("synchronous", synchronous, synchronous == "2" || synchronous == "3",
			"a commit is on disk before it is confirmed",
			"confirmed commits of the last seconds are lost when the machine dies: 2 (full) is needed"),
	}, nil
}
