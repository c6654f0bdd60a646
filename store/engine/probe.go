package engine

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/clockd/clockd/clock"
)

// probeApplication owns the alarms that write probes insert. No other transaction sees them, because the same
// transaction deletes them.
const probeApplication = "clockd"

// ProbeWrite commits a transaction that inserts an alarm and deletes it. It must commit, because a full disk may show
// only then.
func (s *Store) ProbeWrite(ctx context.Context, now clock.Instant) error {
	known := s.known.Load()
	try := WriteTry{Shards: known.shards}
	return s.replayed(ctx, "probe writes", func(ctx context.Context) error {
		a := probeAlarm(now)
		a.Shard = a.Key.Shard(known.shards)
		try.Placement = known.placements.of(a.Shard)
		if ids, err := s.newIDs(ctx, 1, func(int) clock.Key { return a.Key }); err != nil {
			return err
		} else if ids != nil {
			a.ID = ids[0]
		}
		begin := func(ctx context.Context) (WriteTx, error) { return s.driver.BeginWrite(ctx, try) }
		return InTx(ctx, begin, func(t WriteTx) error { return probe(ctx, t, &a) })
	})
}

// probeAlarm returns an alarm with a new key, which is never due.
func probeAlarm(now clock.Instant) clock.Alarm {
	return clock.Alarm{
		Key: clock.Key{Application: probeApplication, BusinessID: "write-probe-" + rand.Text()}, Generation: 1,
		Content: clock.Content{RingAt: now, LatestRingAt: clock.NoInstant,
			ContentType: clock.NoPayload.DefaultContentType(), Retry: clock.DefaultRetryPolicy(), MaxRings: 1},
		RingRow:    clock.RingRow{State: clock.Paused, NextTryTime: clock.NoInstant, UpdateTime: now},
		CreateTime: now,
	}
}

// probe inserts the alarm in tx and deletes it again.
func probe(ctx context.Context, tx WriteTx, a *clock.Alarm) error {
	ids, err := tx.Insert(ctx, []*clock.Alarm{a}, true)
	if err != nil {
		return err
	}
	n, err := tx.Delete(ctx, ids[0])
	if err == nil && n != 1 {
		err = fmt.Errorf("a write probe deleted %d alarms instead of its own", n)
	}
	return err
}
