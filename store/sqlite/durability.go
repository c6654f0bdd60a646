package sqlite

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/store"
)

// Durability reads the pragmas of the connection that writes.
func (s *Store) Durability(ctx context.Context) ([]store.Finding, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var journal, synchronous string
	for pragma, into := range map[string]*string{"journal_mode": &journal, "synchronous": &synchronous} {
		if err := s.writer.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(into); err != nil {
			return nil, s.mapError(ctx, "read how durable commits are", fmt.Errorf("%s: %w", pragma, err))
		}
	}
	return []store.Finding{
		store.Judge("journal_mode", journal, journal != "off" && journal != "memory", "a transaction that was half written is rolled back",
			"the file is broken when the process dies in a write: set it to wal"),
		// 2 is FULL, 3 EXTRA; 1, NORMAL, syncs a WAL only when it is written back
		store.Judge("synchronous", synchronous, synchronous == "2" || synchronous == "3", "a commit is on disk before it is answered",
			"commits of the last seconds are lost when the machine dies, though they were answered: 2 (full) is needed"),
	}, nil
}
