package engine

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

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

// List passes the alarms of one application to take, in the order of their keys, until take returns false.
func (s *Store) List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	if !utf8.ValidString(q.Prefix) {
		return clock.Invalid(clock.CodeInvalidValue, "prefix", "prefix must be UTF-8")
	}
	if len(q.States) == 0 {
		q.States = clock.States()
	}
	return s.call(ctx, "list", func(ctx context.Context) error {
		release, err := s.gate.AcquireList(ctx)
		if err != nil {
			return err
		}
		defer release()
		return s.driver.ReadList(ctx, &ListQuery{ListQuery: q, PrefixEnd: prefixEnd(q.Prefix)}, func(row *Row) bool {
			a := row.Alarm()
			return take(&a)
		})
	})
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
