package engine

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// Snapshot is a transaction that only reads. Its reads see the database as of one moment. A distributed database has
// such a moment on each server.
type Snapshot interface {
	// ReadRows passes the rows of at most limit alarms with ids above after, by id, until take returns false.
	ReadRows(ctx context.Context, after int64, limit int, take func(*Row) bool) error
	// ReadAttempts returns all attempts of the alarms, by alarm, the oldest first.
	ReadAttempts(ctx context.Context, ids []int64) ([]AttemptRow, error)
	// ReadAllSettings returns the current settings of all applications, by application.
	ReadAllSettings(ctx context.Context) ([]SettingRow, error)
	// End ends the transaction and gives back its connection.
	End(ctx context.Context)
}

// ArchivedAlarm is an alarm with all its columns and attempts, as an export has it.
type ArchivedAlarm struct {
	Row
	Attempts []AttemptRow // the oldest first
}

// Restored is the effect of Restore on an alarm.
type Restored int

// The effects of Restore.
const (
	Created   Restored = iota + 1 // the alarm was new and is stored
	Present                       // the alarm was stored before, with the same columns and attempts
	Different                     // another alarm has the key, and stays as it is
)

// The size of a page of an export. A page has at most one row beyond pageBytes.
const (
	pageRows  = 1000
	pageBytes = 4 << 20
)

// Archive reads the settings of all applications, and then all alarms with ids above after, in the order of their ids
// and as of one moment. It passes them on page by page, and holds one page in memory. An error of a function ends the
// call and is returned as it is. The call has no deadline of its own: the snapshot stays open as long as the functions
// take.
func (s *Store) Archive(
	ctx context.Context, after int64, settings func([]settings.Version) error, page func([]ArchivedAlarm) error,
) error {
	snapshot, err := s.driver.BeginSnapshot(ctx)
	if err != nil {
		return s.mapError(ctx, "begin a snapshot", err)
	}
	defer snapshot.End(ctx)
	rows, err := snapshot.ReadAllSettings(ctx)
	if err != nil {
		return s.mapError(ctx, "read all settings", err)
	}
	if err := settings(Column(rows, (*SettingRow).version)); err != nil {
		return err
	}
	for limit := pageRows; ; limit = min(2*limit, pageRows) {
		alarms, isLast, err := readPage(ctx, snapshot, after, limit)
		if err != nil {
			return s.mapError(ctx, "read alarms", err)
		}
		if len(alarms) > 0 {
			if err := page(alarms); err != nil {
				return err
			}
			after, limit = alarms[len(alarms)-1].ID, len(alarms)
		}
		if isLast {
			return nil
		}
	}
}

// readPage returns the next alarms, and whether no alarm follows them.
func readPage(
	ctx context.Context, snapshot Snapshot, after int64, limit int,
) (alarms []ArchivedAlarm, isLast bool, err error) {
	bytes := 0
	err = snapshot.ReadRows(ctx, after, limit, func(row *Row) bool {
		alarms = append(alarms, ArchivedAlarm{Row: *row})
		bytes += len(row.Payload)
		return bytes < pageBytes
	})
	if err != nil || len(alarms) == 0 {
		return nil, true, err
	}
	attempts, err := snapshot.ReadAttempts(ctx, Column(alarms, func(a *ArchivedAlarm) int64 { return a.ID }))
	if err != nil {
		return nil, false, err
	}
	giveAttempts(alarms, attempts)
	return alarms, len(alarms) < limit && bytes < pageBytes, nil
}

// giveAttempts gives each alarm its attempts. Both are in the order of the alarms' ids.
func giveAttempts(alarms []ArchivedAlarm, attempts []AttemptRow) {
	for i := range alarms {
		n := 0
		for n < len(attempts) && attempts[n].AlarmID == alarms[i].ID {
			n++
		}
		alarms[i].Attempts, attempts = attempts[:n:n], attempts[n:]
	}
}

// IsEmpty reports whether the database has no alarm.
func (s *Store) IsEmpty(ctx context.Context) (isEmpty bool, err error) {
	err = s.call(ctx, "look for alarms", func(ctx context.Context) error {
		snapshot, err := s.driver.BeginSnapshot(ctx)
		if err != nil {
			return err
		}
		defer snapshot.End(ctx)
		isEmpty = true
		return snapshot.ReadRows(ctx, 0, 1, func(*Row) bool {
			isEmpty = false
			return false
		})
	})
	return isEmpty, err
}

// Restore stores the alarms whose keys are new, with all their columns and attempts, and new ids. No two of the alarms
// have one key. It changes no alarm that exists. The alarms of a placement are stored in one transaction. After an
// error Restore may be called again with the same alarms.
func (s *Store) Restore(ctx context.Context, alarms []ArchivedAlarm) ([]Restored, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	known := s.known.Load()
	ids, err := s.newIDs(ctx, len(alarms), func(i int) clock.Key { return alarms[i].key() })
	if err != nil {
		return nil, err
	}
	for i := range alarms {
		alarms[i].Shard = int64(alarms[i].key().Shard(known.shards))
		alarms[i].ID = 0
		if alarms[i].Payload == nil { // the column is NOT NULL
			alarms[i].Payload = []byte{}
		}
		if ids != nil {
			alarms[i].ID = ids[i]
		}
	}
	parts := known.placements.split(len(alarms), func(i int) int { return known.placements.of(int(alarms[i].Shard)) })
	effects := make([]Restored, len(alarms))
	for i := range parts {
		restored, err := s.restorePart(ctx, pick(alarms, parts[i].indexes), parts[i].placement)
		if err != nil {
			return nil, err
		}
		for n, effect := range restored {
			if parts[i].indexes != nil {
				n = parts[i].indexes[n]
			}
			effects[n] = effect
		}
	}
	return effects, nil
}

// restorePart restores alarms of one placement.
func (s *Store) restorePart(
	ctx context.Context, alarms []ArchivedAlarm, placement int,
) (effects []Restored, err error) {
	begin := func(ctx context.Context) (WriteTx, error) {
		return s.driver.BeginWrite(ctx, WriteTry{Shards: s.ShardCount(), Placement: placement})
	}
	err = s.mapError(ctx, "restore alarms", s.replay(ctx, func() error {
		return InTx(ctx, begin, func(t WriteTx) (err error) {
			effects, err = restore(ctx, t, alarms)
			return err
		})
	}))
	if err != nil {
		return nil, err
	}
	for i := range effects {
		if effects[i] != Different {
			continue
		}
		same, err := s.isStored(ctx, &alarms[i])
		if err != nil {
			return nil, err
		}
		if same {
			effects[i] = Present
		}
	}
	return effects, nil
}

// restore stores the alarms whose keys are new. The effect on the others is Different.
func restore(ctx context.Context, t WriteTx, alarms []ArchivedAlarm) ([]Restored, error) {
	stored, err := storedKeys(ctx, t, Column(alarms, (*ArchivedAlarm).key))
	if err != nil {
		return nil, err
	}
	effects := make([]Restored, len(alarms))
	var absent []*ArchivedAlarm
	for i := range alarms {
		effects[i] = Different
		if !stored[alarms[i].key()] {
			effects[i] = Created
			absent = append(absent, &alarms[i])
		}
	}
	if len(absent) == 0 {
		return effects, nil
	}
	ids, err := t.Restore(ctx, Column(absent, func(a **ArchivedAlarm) *Row { return &(*a).Row }))
	if errors.Is(err, ErrKeyExists) || err == nil && slices.Contains(ids, 0) {
		return nil, ErrReplay // another transaction has created the alarm meanwhile
	}
	if err != nil {
		return nil, err
	}
	var attempts []store.AlarmAttempt
	var notes scheduleNotes
	for i, a := range absent {
		if a.RepeatRule != "" {
			alarm := a.Alarm()
			notes.add(ids[i], &alarm)
		}
		for n := range a.Attempts {
			attempts = append(attempts, store.AlarmAttempt{AlarmID: ids[i], Attempt: a.Attempts[n].attempt()})
		}
	}
	if err := notes.put(ctx, t); err != nil {
		return nil, err
	}
	if len(attempts) == 0 {
		return effects, nil
	}
	return effects, t.AddAttempts(ctx, attempts)
}

// storedKeys returns the keys that exist. It neither waits for rows nor changes any.
func storedKeys(ctx context.Context, t WriteTx, keys []clock.Key) (map[clock.Key]bool, error) {
	stored := make(map[clock.Key]bool)
	locked, err := t.Lock(ctx, keys, 0, true)
	if err != nil {
		return nil, err
	}
	for i := range locked {
		stored[locked[i].Key] = true
	}
	if len(stored) == len(keys) {
		return stored, nil
	}
	rest := slices.DeleteFunc(slices.Clone(keys), func(k clock.Key) bool { return stored[k] })
	lockedElsewhere, err := t.Read(ctx, rest)
	for i := range lockedElsewhere {
		stored[lockedElsewhere[i].Key] = true
	}
	return stored, err
}

// isStored reports whether the database has the alarm with the same columns and attempts, except the ids.
func (s *Store) isStored(ctx context.Context, a *ArchivedAlarm) (bool, error) {
	row, attempts, err := s.driver.ReadAlarm(ctx, a.key(), clock.MaxAttempts)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, s.mapError(ctx, "read an alarm", err)
	}
	slices.Reverse(attempts) // the newest came first
	stored := ArchivedAlarm{Row: row, Attempts: attempts}
	return stored.Same(a), nil
}

// Same reports whether two alarms have the same columns and attempts, except the ids and the shard.
func (a *ArchivedAlarm) Same(other *ArchivedAlarm) bool {
	columns := func(row Row) (Row, string) {
		payload := string(row.Payload)
		row.ID, row.Shard, row.Payload = 0, 0, nil
		return row, payload
	}
	mine, myPayload := columns(a.Row)
	theirs, theirPayload := columns(other.Row)
	return reflect.DeepEqual(mine, theirs) && myPayload == theirPayload &&
		slices.EqualFunc(a.Attempts, other.Attempts, func(x, y AttemptRow) bool { return x.attempt() == y.attempt() })
}

func (a *ArchivedAlarm) key() clock.Key {
	return clock.Key{Application: a.Application, BusinessID: a.BusinessID}
}
