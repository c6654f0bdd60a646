package engine

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

const (
	// repeatingScan is the number of rows that a list of repeating alarms reads, at most.
	repeatingScan = 1000
	// repeatingCount is the number of repeating alarms of an application that are counted, at most.
	repeatingCount = 1_000_000
)

// Repeating reads which alarms repeat. On MySQL an alarm that repeated before it was set again may be among them.
type Repeating interface {
	// ReadNextRepeatingApplication returns the first application with repeating alarms after the name (bytewise), or
	// sql.ErrNoRows.
	ReadNextRepeatingApplication(ctx context.Context, after string) (string, error)
	// ReadRules returns the rules of the application's first alarms, by business id, at most limit.
	ReadRules(ctx context.Context, application string, limit int) ([]RuleRow, error)
	// CountRepeating counts the application's repeating alarms, at most limit.
	CountRepeating(ctx context.Context, application string, limit int) (int64, error)
}

// RuleRow has the columns of an alarm that say when it rings again. The row types of each engine's generated code
// convert to it.
type RuleRow struct {
	BusinessID  string
	Generation  int64
	NextTryTime sql.NullInt64
	RepeatRule  string
	RepeatState string
}

// AlarmKey is the id and the key of an alarm.
type AlarmKey struct {
	AlarmID int64
	clock.Key
}

// RepeatingApplications returns the names of applications with repeating alarms, as Applications does.
func (s *Store) RepeatingApplications(ctx context.Context, after string, limit int) (names []string, err error) {
	return s.names(ctx, "list applications with repeating alarms", s.driver.ReadNextRepeatingApplication, after, limit)
}

// Rules returns rules of an application's repeating alarms. It leaves out unreadable ones, and alarms that do not ring.
func (s *Store) Rules(ctx context.Context, application string, limit int) (rules clock.Rules, err error) {
	err = s.read(ctx, "read rules", func(ctx context.Context) error {
		rows, err := s.driver.ReadRules(ctx, application, limit)
		if err != nil {
			return err
		}
		rules = clock.Rules{Read: int64(len(rows)), Total: int64(len(rows)), Alarms: make([]clock.RuledAlarm, 0, len(rows))}
		for i := range rows {
			if a, ok := rows[i].alarm(application); ok {
				rules.Alarms = append(rules.Alarms, a)
			}
		}
		if len(rows) == limit {
			rules.Total, err = s.driver.CountRepeating(ctx, application, repeatingCount)
		}
		return err
	})
	return rules, err
}

func (r *RuleRow) alarm(application string) (clock.RuledAlarm, bool) {
	schedule, err := repeat.Decode(r.RepeatRule)
	if err != nil || schedule.Rule == nil || !r.NextTryTime.Valid {
		return clock.RuledAlarm{}, false
	}
	progress, err := clock.DecodeProgress(r.RepeatState)
	if err != nil || !progress.Repeats() {
		return clock.RuledAlarm{}, false
	}
	key := clock.Key{Application: application, BusinessID: r.BusinessID}
	return clock.RuledAlarm{
		Repetition:  clock.RepetitionOf(schedule.Rule, key, r.Generation),
		Current:     progress.Current,
		NextTryTime: clock.Instant(r.NextTryTime.Int64),
	}, true
}

// listRepeating reads a range of the application's repeating alarms, at most repeatingScan rows. An alarm whose rule
// cannot be read belongs to the list, so that people find it.
func (s *Store) listRepeating(ctx context.Context, l *list) error {
	q := ListQuery{
		Application: l.query.Application, After: l.query.After.BusinessID,
		Prefix: l.query.Prefix, End: prefixEnd(l.query.Prefix), Repeating: true,
	}
	for read, refused := 0, false; read < repeatingScan && l.passed < l.query.Limit; {
		q.Limit = min(l.query.Limit-l.passed, repeatingScan-read)
		before := read
		err := s.driver.ReadList(ctx, &q, func(row *Row) bool {
			a := row.Alarm()
			behind := clock.ListPosition{BusinessID: a.BusinessID}
			if row.RepeatState == "" { // it repeated before it was set again
				l.next = behind
			} else if refused = !l.pass(&a, behind); refused {
				return false
			}
			read++
			q.After = a.BusinessID
			return true
		})
		if err != nil || refused {
			return err
		}
		if read-before < q.Limit {
			l.next = clock.ListPosition{}
			return nil
		}
	}
	return nil
}
