package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Zones reads which alarms depend on the data of a time zone, and keeps the state of their recomputation.
type Zones interface {
	// ListZoned returns at most limit ids of alarms of the time zone, above after, in order. An alarm may have left the
	// time zone.
	ListZoned(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error)
	// ReadZoneState returns the state, and a revision that rises with each change of it.
	ReadZoneState(ctx context.Context) (revision int64, document string, err error)
	// WriteZoneState writes the state if its revision is the given one. It returns how many rows it wrote: 1 or 0.
	WriteZoneState(ctx context.Context, revision int64, document string) (int64, error)
}

// AlarmZone is the time zone of an alarm.
type AlarmZone struct {
	AlarmID  int64
	TimeZone string
}

var _ store.Zones = (*Store)(nil)

// ZonedAlarms returns ids of alarms of a time zone.
func (s *Store) ZonedAlarms(ctx context.Context, timeZone string, after int64, limit int) (ids []int64, err error) {
	err = s.call(ctx, "list alarms of a time zone", func(ctx context.Context) (err error) {
		ids, err = s.driver.ListZoned(ctx, timeZone, after, limit)
		return err
	})
	return ids, err
}

// ZoneState returns the state of recomputations.
func (s *Store) ZoneState(ctx context.Context) (revision int64, document string, err error) {
	err = s.call(ctx, "read the state of time-zone data", func(ctx context.Context) (err error) {
		revision, document, err = s.driver.ReadZoneState(ctx)
		return err
	})
	return revision, document, err
}

// ChangeZoneState writes the state of recomputations, if no one has written it since its revision.
func (s *Store) ChangeZoneState(ctx context.Context, revision int64, document string) (written bool, err error) {
	err = s.replayed(ctx, "write the state of time-zone data", func(ctx context.Context) error {
		n, err := s.driver.WriteZoneState(ctx, revision, document)
		written = n == 1
		return err
	})
	return written, err
}

// scheduleNotes are the notes on the schedules of alarms that a transaction has written.
type scheduleNotes struct {
	zones     []AlarmZone
	repeating []AlarmKey
}

// add notes the schedule of an alarm.
func (n *scheduleNotes) add(id int64, a *clock.Alarm) {
	if zone := a.TimeZone(); zone != "" {
		n.zones = append(n.zones, AlarmZone{AlarmID: id, TimeZone: zone})
	}
	if a.Repeat != nil {
		n.repeating = append(n.repeating, AlarmKey{AlarmID: id, Key: a.Key})
	}
}

// put writes the notes by id, so that no two transactions wait for each other's rows.
func (n *scheduleNotes) put(ctx context.Context, t WriteTx) error {
	slices.SortFunc(n.zones, func(a, b AlarmZone) int { return cmp.Compare(a.AlarmID, b.AlarmID) })
	slices.SortFunc(n.repeating, func(a, b AlarmKey) int { return cmp.Compare(a.AlarmID, b.AlarmID) })
	if len(n.zones) > 0 {
		if err := t.PutZones(ctx, n.zones); err != nil {
			return err
		}
	}
	if len(n.repeating) == 0 {
		return nil
	}
	return t.PutRepeating(ctx, n.repeating)
}
