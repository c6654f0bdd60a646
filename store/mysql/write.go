package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// BeginWrite begins the transaction of one group.
func (d *Driver) BeginWrite(ctx context.Context, try engine.WriteTry) (engine.WriteTx, error) {
	t, err := d.begin(ctx, d.writes)
	if err != nil {
		return nil, err
	}
	server := d.known()
	return &writeTx{tx: t, d: d, server: server, first: try.Number == 0, inParts: try.Wait > 0 || try.Number >= wholeGroupTries(server)}, nil
}

// wholeGroupTries returns how often a group is tried as a whole before it is inserted in parts. If another transaction
// holds a key, it may be about to commit. MariaDB refuses such a key at once, MySQL after a second.
func wholeGroupTries(s server) int {
	if s.maria {
		return 4
	}
	return 1
}

// maxPenalty is the largest number of groups that are read first after a refused INSERT.
const maxPenalty = 64

// optimisticInsert decides whether a group is worth inserting before its keys are read. A refused INSERT is wasted
// time. So after one refusal the next group is read first, after two in a row the next two groups, then four, up to
// maxPenalty. A success resets the count. So sets of new keys cost one statement, and repeated sets cost hardly more
// than reading.
type optimisticInsert struct {
	mu      sync.Mutex
	skip    int // groups still to be read first
	penalty int // groups to be read first after the last refusal; 0 after a success
}

// allow reports whether to insert the next group before its keys are read.
func (o *optimisticInsert) allow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.skip == 0 {
		return true
	}
	o.skip--
	return false
}

// learn records whether the server refused an optimistic INSERT.
func (o *optimisticInsert) learn(refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !refused {
		o.skip, o.penalty = 0, 0
		return
	}
	o.penalty = min(max(1, 2*o.penalty), maxPenalty)
	o.skip = o.penalty
}

var _ engine.WriteTx = (*writeTx)(nil)

// writeTx is the write transaction of one group.
type writeTx struct {
	*tx
	d       *Driver
	server  server
	first   bool // not a replay
	inParts bool // insert absent rows in parts, so that a locked key delays no other key
}

// Insert adds all rows or none, with one statement, or with several if the rows are too large for one. Keys that may
// exist are tried only on MariaDB, which can refuse a locked key without waiting.
func (w *writeTx) Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	if optimistic := w.server.maria && w.first; !absent && (!optimistic || !w.d.insert.allow()) {
		return nil, engine.ErrKeyExists
	}
	if absent && w.inParts {
		return w.insertByHalves(ctx, rows)
	}
	ids := make([]int64, 0, len(rows))
	size := func(i int) int { return sizeOf(rows[i]) }
	err := chunks(len(rows), w.server.maxStatement(), size, func(from, to int) error {
		id, err := w.insertRows(ctx, rows[from:to])
		if err != nil {
			return err
		}
		for range to - from {
			ids = append(ids, id)
			id += w.server.idStep
		}
		return nil
	})
	refused := keyTaken(err)
	if !absent {
		w.d.insert.learn(refused)
	}
	switch {
	case refused && len(ids) > 0:
		return nil, engine.ErrReplay // an earlier statement has inserted its rows
	case refused:
		return nil, engine.ErrKeyExists
	}
	return ids, err
}

// insertByHalves adds the rows in parts, each after a savepoint. Some servers are configured to roll back the whole
// transaction when a lock is not available. There none of the rows exist afterwards, and the group fails.
func (w *writeTx) insertByHalves(ctx context.Context, rows []*clock.Alarm) ([]int64, error) {
	ids := make([]int64, 0, len(rows))
	size := func(i int) int { return sizeOf(rows[i]) }
	err := chunks(len(rows), w.server.maxStatement(), size, func(from, to int) error {
		inserted, err := engine.InsertByHalves(rows[from:to],
			func(part []*clock.Alarm) ([]int64, bool, error) { return w.insertPart(ctx, part) })
		ids = append(ids, inserted...)
		return err
	})
	if hasNumber(err, errDuplicateKey) {
		return nil, engine.ErrReplay // another transaction has committed the key meanwhile
	}
	return ids, err
}

func (w *writeTx) insertPart(ctx context.Context, part []*clock.Alarm) (ids []int64, refused bool, err error) {
	if _, err := w.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return nil, false, err
	}
	id, err := w.insertFree(ctx, part)
	if hasNumber(err, errLockTimeout, errLockNoWait) {
		_, err = w.ExecContext(ctx, "ROLLBACK TO SAVEPOINT part")
		return nil, true, err
	}
	ids = make([]int64, len(part))
	for i := range ids {
		ids[i], id = id, id+w.server.idStep
	}
	return ids, false, err
}

// insertFree adds the rows without waiting for a locked key. On MySQL an INSERT would wait for a second, so the keys
// are locked before it (LockAlarmsAtOnce).
func (w *writeTx) insertFree(ctx context.Context, rows []*clock.Alarm) (int64, error) {
	if !w.server.maria {
		keys := make([]clock.Key, len(rows))
		for i, a := range rows {
			keys[i] = a.Key
		}
		b := bulk{DBTX: w.tx, rows: len(keys), args: keyArgs(keys)}
		if _, err := w.d.q.LockAlarmsAtOnce(ctx, b); err != nil {
			return 0, err
		}
	}
	return w.insertRows(ctx, rows)
}

// insertRows adds the rows and returns the id of the first row. On MariaDB it does not wait for a locked key.
//
// InnoDB knows the row count of this INSERT, so the ids are consecutive, in steps of auto_increment_increment, whatever
// the innodb_autoinc_lock_mode. If that ever failed, a wrong id would do no harm: it is only offered to the heap, and a
// claim checks every row again.
func (w *writeTx) insertRows(ctx context.Context, rows []*clock.Alarm) (int64, error) {
	args := insertArgs.Of(len(rows), func(i int, row *engine.Row) { row.SetAlarm(rows[i]) })
	b := bulk{DBTX: w.tx, rows: len(rows), args: args, insert: true}
	if w.server.maria {
		b.prefix = lockWait(0)
	}
	result, err := w.d.q.InsertAlarms(ctx, b, dbsqlc.InsertAlarmsParams{Build: store.BuildLevel()})
	if hasNumber(err, errNull) { // only the guarded value can be NULL
		return 0, fmt.Errorf("%w: %w", store.ErrOldBuild, err)
	}
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// lockWait returns the prefix of a MariaDB statement that waits at most so many seconds for locks; 0: not at all.
func lockWait(seconds int) string {
	return "SET STATEMENT innodb_lock_wait_timeout = " + strconv.Itoa(seconds) + " FOR "
}

// sizeOf returns the largest number of bytes that the row takes in a statement. Every byte of text may need another
// byte as escape.
func sizeOf(a *clock.Alarm) int {
	const others = 400 // the numbers and the short texts
	return others + 2*engine.TextBytes(a)
}

// Cancel leaves all rows to Lock. An UPDATE on this engine does not tell which rows it met, and reading their ids costs
// as much as Lock.
func (w *writeTx) Cancel(context.Context, []clock.Key, clock.Instant, bool) ([]clock.Alarm, error) {
	return nil, nil
}

// Lock locks and returns the free rows of the keys (LockAlarms, LockAlarmsBriefly, LockAlarmsWaiting).
func (w *writeTx) Lock(ctx context.Context, keys []clock.Key, wait time.Duration, briefly bool) ([]clock.Alarm, error) {
	if wait > 0 {
		rows, err := w.lockWaiting(ctx, keys, int((wait+time.Second-1)/time.Second))
		if !hasNumber(err, errLockTimeout) {
			return rows, err
		}
	}
	return lockFree(w.server, w, keys, clock.Key.Compare, func(db dbsqlc.DBTX, part []clock.Key) ([]clock.Alarm, error) {
		if briefly {
			return readKeys(ctx, w.server, db, part, "", w.d.q.LockAlarmsBriefly, briefAlarmsOf)
		}
		return readKeys(ctx, w.server, db, part, "", w.d.q.LockAlarms, alarmsOf)
	})
}

// lockWaiting locks the rows of the keys, and waits for locked rows for so many seconds. The server counts whole
// seconds.
func (w *writeTx) lockWaiting(ctx context.Context, keys []clock.Key, seconds int) ([]clock.Alarm, error) {
	if w.server.maria {
		return w.readKeys(ctx, keys, lockWait(seconds), w.d.q.LockAlarmsWaiting)
	}
	if err := w.setLockWait(ctx, seconds); err != nil {
		return nil, err
	}
	rows, err := w.readKeys(ctx, keys, "", w.d.q.LockAlarmsWaiting)
	if reset := w.setLockWait(context.WithoutCancel(ctx), 1); reset != nil {
		w.discard()
	}
	return rows, err
}

// setLockWait sets the lock timeout of the session, because MySQL has no SET STATEMENT.
func (w *writeTx) setLockWait(ctx context.Context, seconds int) error {
	_, err := w.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = "+strconv.Itoa(seconds))
	return err
}

// Read returns the last committed rows of the keys, without locking (ReadAlarms).
func (w *writeTx) Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	return w.readKeys(ctx, keys, "", w.d.q.ReadAlarms)
}

// readRows is a generated method that reads the rows of key pairs.
type readRows[R any] func(ctx context.Context, db dbsqlc.DBTX) ([]R, error)

func (w *writeTx) readKeys(
	ctx context.Context, keys []clock.Key, prefix string, query readRows[dbsqlc.Alarm],
) ([]clock.Alarm, error) {
	return readKeys(ctx, w.server, w, keys, prefix, query, alarmsOf)
}

// readKeys runs a query of key pairs, and converts its rows to alarms of package clock.
func readKeys[R any](
	ctx context.Context, s server, db dbsqlc.DBTX, keys []clock.Key, prefix string, query readRows[R],
	alarmsOf func([]R) []clock.Alarm,
) ([]clock.Alarm, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, clock.Key.Compare)
	rows := make([]R, 0, len(keys))
	size := func(int) int { return 2 * (clock.MaxApplication + clock.MaxBusinessID) }
	err := chunks(len(keys), s.maxStatement(), size, func(from, to int) error {
		found, err := query(ctx, bulk{DBTX: db, rows: to - from, args: keyArgs(keys[from:to]), prefix: prefix})
		rows = append(rows, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows), nil
}

// keyArgs returns keys as the arguments of key pairs.
func keyArgs(keys []clock.Key) []any {
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.Application, k.BusinessID)
	}
	return args
}

// Delete deletes an alarm (DeleteAlarm).
func (w *writeTx) Delete(ctx context.Context, id int64) (int64, error) {
	return w.d.q.DeleteAlarm(ctx, w.tx, id)
}
