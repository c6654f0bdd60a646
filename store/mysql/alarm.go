package mysql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// alarmsOf converts rows to alarms of package clock.
func alarmsOf(rows []dbsqlc.Alarm) ([]clock.Alarm, error) {
	return engine.AlarmsOfRows(rows, func(r dbsqlc.Alarm) engine.Row { return engine.Row(r) })
}

// briefAlarmsOf returns the fields that decide a cancel. All other fields are zero.
func briefAlarmsOf(rows []dbsqlc.LockAlarmsBrieflyRow) ([]clock.Alarm, error) {
	alarms := make([]clock.Alarm, len(rows))
	for i, r := range rows {
		alarms[i] = clock.Alarm{
			ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, Shard: int(r.Shard), Generation: r.Generation,
			RingRow: clock.RingRow{
				State: clock.State(r.State), NextTryTime: engine.FromNull(r.NextTryTime), LastError: r.LastError, InDoubt: r.InDoubt != 0,
				RungAt: engine.FromNull(r.RungAt),
			},
		}
	}
	return alarms, nil
}

// null returns an instant as the argument of a nullable column: nil for NoInstant.
func null(i clock.Instant) any {
	if i == clock.NoInstant {
		return nil
	}
	return int64(i)
}

// bytesOf returns the payload as the argument of a column that is NOT NULL: never nil.
func bytesOf(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

// bit returns a flag as its column stores it: 0 or 1.
func bit(flag bool) int64 {
	if flag {
		return 1
	}
	return 0
}

// idsOf returns the ids of rows.
func idsOf[R any](rows []R, id func(*R) int64) []int64 {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = id(&rows[i])
	}
	return ids
}
