package sqlite

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Keys returns the key of each id that exists (ListKeys).
func (s *Store) Keys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	keys := make(map[int64]clock.Key, len(ids))
	for chunk := range slices.Chunk(ids, store.MaxKeys) {
		rows, err := s.q.ListKeys(ctx, s.reader, jsonNumbers(chunk))
		if err != nil {
			return nil, s.mapError(ctx, "read keys", err)
		}
		for _, r := range rows {
			keys[r.ID] = clock.Key{Application: r.Application, BusinessID: r.BusinessID}
		}
	}
	return keys, nil
}
