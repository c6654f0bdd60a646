package engine

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
)

// Applications returns the names of applications with alarms. Each name is found as one entry of the index, however many
// alarms the applications have.
func (s *Store) Applications(ctx context.Context, after string, limit int) (names []string, err error) {
	err = s.read(ctx, "list applications", func(ctx context.Context) (err error) {
		names, err = s.applications.read(ctx, s.driver.ReadNextApplications, after, limit)
		return err
	})
	return names, err
}

// names returns at most limit names after the given one. next returns the first of them, or sql.ErrNoRows.
func (s *Store) names(
	ctx context.Context, doing string, next func(ctx context.Context, after string) (string, error), after string,
	limit int,
) (names []string, err error) {
	err = s.read(ctx, doing, func(ctx context.Context) (err error) {
		var none guessedNames
		names, err = none.read(ctx, func(ctx context.Context, after []string) ([]string, error) {
			return NextName(next(ctx, after[0]))
		}, after, limit)
		return err
	})
	return names, err
}

// CountStates counts alarms of an application by state.
func (s *Store) CountStates(ctx context.Context, application string, limit int) (counts clock.StateCounts, err error) {
	err = s.read(ctx, "count alarms", func(ctx context.Context) (err error) {
		counts, err = s.driver.ReadStateCounts(ctx, application, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// AttentionApplications returns the names of applications with expired, dead or paused alarms, as Applications does.
func (s *Store) AttentionApplications(ctx context.Context, after string, limit int) (names []string, err error) {
	return s.names(ctx, "list applications with dead alarms", s.driver.ReadNextAttentionApplication, after, limit)
}

// CountAttention counts expired, dead and paused alarms of an application.
func (s *Store) CountAttention(ctx context.Context, application string, limit int) (counts clock.StateCounts, err error) {
	err = s.read(ctx, "count alarms", func(ctx context.Context) error {
		counts = clock.StateCounts{}
		for _, state := range clock.AttentionStates() {
			n, err := s.driver.CountAttention(ctx, application, state, limit)
			if err != nil {
				return err
			}
			counts[state] = int(n)
		}
		return nil
	})
	return counts, err
}

// Find returns the alarms of the keys that exist.
func (s *Store) Find(ctx context.Context, keys []clock.Key) (alarms []clock.Alarm, err error) {
	err = s.read(ctx, "find alarms", func(ctx context.Context) error {
		for chunk := range slices.Chunk(keys, MaxKeys) {
			rows, err := s.driver.ReadAlarmsOf(ctx, chunk)
			if err != nil {
				return err
			}
			alarms = append(alarms, AlarmsOfRows(rows, func(r Row) Row { return r })...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(alarms, func(a, b clock.Alarm) int { return a.Compare(b.Key) })
	return alarms, nil
}

// read runs do with a place for a list and a deadline, and maps its error.
func (s *Store) read(ctx context.Context, doing string, do func(ctx context.Context) error) error {
	return s.call(ctx, doing, func(ctx context.Context) error {
		release, err := s.gate.AcquireList(ctx)
		if err != nil {
			return err
		}
		defer release()
		return do(ctx)
	})
}

// StateCounts returns the rows as counts by state.
func StateCounts[R any](rows []R, split func(*R) (state, count int64)) clock.StateCounts {
	counts := clock.StateCounts{}
	for i := range rows {
		state, count := split(&rows[i])
		counts[clock.State(state)] = int(count)
	}
	return counts
}
