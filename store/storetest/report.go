package storetest

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// testAlarmReport reads alarm_report as an analyst does.
func testAlarmReport(t *testing.T, f *fixture) {
	f.set(t0, set("rung", t0-1500), set("scheduled", t0+7, latestRingAt(t0+9)), set("failed", t0))
	f.set(t0, set("cancelled", t0))
	f.set(t0+1, cancel("cancelled"))
	f.claim(t0, f.get("rung").ID).settle(t0, everyRing(clock.Confirmed))
	fate := f.claim(t0, f.get("failed").ID).settle(t0, everyRing(clock.Returned))[0]
	got := f.report(`SELECT business_id, state, target_ring_at, latest_ring_at, next_try_time, lateness_ms, retry_times, in_doubt,
		last_error, payload_bytes, rung_at, finished_at FROM alarm_report WHERE application = 'shop' ORDER BY business_id`)
	s := func(i clock.Instant) string { return i.Time().Format(reportLayout) }
	same(t, "alarm_report", got, [][]string{
		{"cancelled", "cancelled", s(t0), "NULL", "NULL", "NULL", "0", "0", "", "18", "NULL", s(t0 + 1)},
		{"failed", "scheduled", s(t0), "NULL", s(fate.NextTryTime), "NULL", "1", "0", "the reason of returned", "15",
			"NULL", "NULL"},
		{"rung", "rung", s(t0 - 1500), "NULL", "NULL", "1500", "0", "0", "", "13", s(t0), s(t0)},
		{"scheduled", "scheduled", s(t0 + 7), s(t0 + 9), s(t0 + 7), "NULL", "0", "0", "", "18", "NULL", "NULL"},
	})
	for _, state := range []string{"scheduled", "paused", "ringing", "rung", "expired", "dead", "cancelled"} {
		f.arrange("as "+state, state)
		same(t, "state by name", f.report(`SELECT state FROM alarm_report WHERE business_id = 'as `+state+`'`),
			[][]string{{state}})
	}
	f.set(t0, set("far", clock.MaxInstant), set("first", 0))
	same(t, "first and last instant",
		f.report("SELECT target_ring_at FROM alarm_report WHERE business_id IN ('far', 'first') ORDER BY business_id"),
		[][]string{{s(clock.MaxInstant)}, {s(0)}})
}

// testRetryReport asks retry_report how many alarms of shop were retried on a day, and why.
func testRetryReport(t *testing.T, f *fixture) {
	day := t0.Time().Truncate(24 * time.Hour)
	f.set(t0, set("fine", t0), set("a", t0), set("b", t0), set("c", t0), set("bank's", t0, inApplication("bank")))
	f.claim(t0, f.get("fine").ID).settle(t0, everyRing(clock.Confirmed))
	for i, k := range []clock.OutcomeKind{clock.Nacked, clock.Returned, clock.Doubtful} {
		now := t0.Add(time.Duration(i) * time.Minute)
		f.claim(now, f.get("a").ID).settle(now, everyRing(k))
	}
	f.claim(t0, f.get("b").ID).settle(t0, everyRing(clock.Doubtful))
	f.claim(t0, f.get("c").ID).settle(t0, everyRing(clock.Doubtful))
	got := f.report(fmt.Sprintf(`SELECT last_error, COUNT(*) FROM retry_report WHERE application = 'shop'
		AND last_attempt_time >= '%s' AND last_attempt_time < '%s' GROUP BY last_error`,
		day.Format(time.DateOnly), day.Add(24*time.Hour).Format(time.DateOnly)))
	same(t, "retried that day, by reason", got, [][]string{{"the reason of in_doubt", "3"}})
	same(t, "retried the day after",
		f.report(fmt.Sprintf("SELECT business_id FROM retry_report WHERE last_attempt_time >= '%s'",
			day.Add(24*time.Hour).Format(time.DateOnly))), nil)
	got = f.report(`SELECT business_id, state, retry_times, in_doubt, last_error, attempts, last_outcome, last_attempt_time, next_try_time
		FROM retry_report WHERE application = 'shop' AND business_id < 'b'`)
	at := t0.Add(2 * time.Minute).Time().Format(reportLayout)
	same(t, "row of a", got,
		[][]string{{"a", "scheduled", "2", "1", "the reason of in_doubt", "3", "in_doubt", at, at}})
}

const reportLayout = "2006-01-02 15:04:05.000"

// report returns the rows of a query as text.
func (f *fixture) report(query string) [][]string {
	f.t.Helper()
	return scan(f.t, f.db, query, func(rows *sql.Rows) ([]string, error) {
		columns, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(columns))
		for i, v := range values {
			texts[i] = columnText(v)
		}
		return texts, nil
	})
}

// columnText returns a value as text, whatever type the driver uses. A time without a zone must be UTC.
func columnText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		return v.Format(reportLayout)
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}
