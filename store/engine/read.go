package engine

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
)

// MaxKeys is the highest number of ids in one statement of Keys.
const MaxKeys = 500

// Get returns the alarm with its attempts.
func (s *Store) Get(ctx context.Context, k clock.Key) (a *clock.Alarm, err error) {
	err = s.call(ctx, "get", func(ctx context.Context) error {
		release, err := s.gate.AcquireSingle(ctx)
		if err != nil {
			return err
		}
		defer release()
		a, err = s.get(ctx, k)
		return err
	})
	return a, err
}

func (s *Store) get(ctx context.Context, k clock.Key) (*clock.Alarm, error) {
	row, attempts, err := s.driver.ReadAlarm(ctx, k, clock.MaxAttempts)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, clock.UnknownAlarm(k)
	}
	if err != nil {
		return nil, err
	}
	a := row.Alarm()
	a.Attempts = make([]clock.Attempt, len(attempts))
	for i := range attempts {
		a.Attempts[i] = attempts[i].attempt()
	}
	return &a, nil
}

// Keys returns the key of each id that exists.
func (s *Store) Keys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	keys := make(map[int64]clock.Key, len(ids))
	err := s.call(ctx, "read keys", func(ctx context.Context) error {
		for chunk := range slices.Chunk(ids, MaxKeys) {
			found, err := s.driver.ReadKeys(ctx, chunk)
			if err != nil {
				return err
			}
			maps.Copy(keys, found)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
