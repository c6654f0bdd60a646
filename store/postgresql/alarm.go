package postgresql

import (
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// alarmsOf converts rows to alarms of package clock.
func alarmsOf(rows []dbsqlc.Alarm) []clock.Alarm {
	return engine.AlarmsOfRows(rows, func(r dbsqlc.Alarm) engine.Row { return engine.Row(r) })
}

// cancelledAlarms returns the rows that a cancel at now has stopped.
func cancelledAlarms(rows []dbsqlc.CancelScheduledBrieflyRow, now clock.Instant) []clock.Alarm {
	alarms := make([]clock.Alarm, len(rows))
	for i, r := range rows {
		alarms[i] = engine.CancelledAlarm(r.ID, clock.Key{Application: r.Application, BusinessID: r.BusinessID},
			int(r.Shard), r.Generation, now)
	}
	return alarms
}

// textOf returns a reason without NUL, which PostgreSQL does not accept in text.
func textOf(reason string) string { return strings.ReplaceAll(reason, "\x00", "") }
