package store

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/clockd/clockd/clock"
)

// probeApplication owns the alarms that write probes insert. No other transaction sees them, because the same transaction deletes them.
const probeApplication = "clockd"

// Probe inserts an alarm in tx and deletes it again with remove, which returns the number of deleted rows. The caller commits, or rolls
// back on an error. It must commit, because a full disk may show only then.
func Probe(ctx context.Context, tx WriteTx, now clock.Instant, shardCount int, remove func(id int64) (int64, error)) error {
	a := clock.Alarm{
		Key: clock.Key{Application: probeApplication, BusinessID: "write-probe-" + rand.Text()}, Generation: 1,
		Content:    clock.Content{RingAt: now, LatestRingAt: clock.NoInstant, ContentType: clock.NoPayload.DefaultContentType(), Retry: clock.DefaultRetryPolicy(), MaxRings: 1},
		RingRow:    clock.RingRow{State: clock.Paused, NextTryTime: clock.NoInstant, UpdateTime: now},
		CreateTime: now,
	}
	a.Shard = a.Key.Shard(shardCount)
	ids, err := tx.Insert(ctx, []*clock.Alarm{&a}, true)
	if err != nil {
		return err
	}
	n, err := remove(ids[0])
	if err == nil && n != 1 {
		err = fmt.Errorf("a write probe deleted %d alarms instead of its own", n)
	}
	return err
}
