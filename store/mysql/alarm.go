package mysql

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// alarmsOf converts rows to alarms of package clock.
func alarmsOf(rows []dbsqlc.Alarm) []clock.Alarm {
	return engine.AlarmsOfRows(rows, func(r dbsqlc.Alarm) engine.Row { return engine.Row(r) })
}

// briefAlarmsOf returns the fields that decide a cancel. All other fields are zero.
func briefAlarmsOf(rows []dbsqlc.LockAlarmsBrieflyRow) []clock.Alarm {
	alarms := make([]clock.Alarm, len(rows))
	for i, r := range rows {
		alarms[i] = clock.Alarm{
			ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, Shard: int(r.Shard),
			Generation: r.Generation,
			RingRow: clock.RingRow{
				State: clock.State(r.State), NextTryTime: engine.FromNull(r.NextTryTime), LastError: r.LastError,
				InDoubt: r.InDoubt != 0,
				RungAt:  engine.FromNull(r.RungAt),
			},
		}
	}
	return alarms
}
