package mysql

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Write applies the ops in one transaction, as store.Write plans it.
func (s *Store) Write(ctx context.Context, r clock.WriteRequest) (decisions []clock.Decision, err error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.Timeout+r.Wait)
		defer cancel()
	}
	server, shards := s.known(), s.ShardCount()
	err = s.transact(ctx, s.writes, "write", func(t *tx, first bool) (err error) {
		w := &writeTx{tx: t, s: s, server: server, first: first}
		decisions, err = store.Write(ctx, w, r, shards)
		return err
	})
	return decisions, err
}

// maxPenalty bounds how many groups are not inserted first after a refused one.
const maxPenalty = 64

// optimism decides whether a group is worth inserting before its keys are read. A refused INSERT has cost its time for
// nothing, so after one the next group is read first, after two in a row the next two, then four, up to maxPenalty; a
// success forgets it all. So sets of new keys cost one statement, and repeated ones hardly more than reading.
type optimism struct {
	mu            sync.Mutex
	skip, penalty int
}

// allow reports whether to try.
func (o *optimism) allow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.skip == 0 {
		return true
	}
	o.skip--
	return false
}

// learn notes what came of trying.
func (o *optimism) learn(refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !refused {
		o.skip, o.penalty = 0, 0
		return
	}
	o.penalty = min(max(1, 2*o.penalty), maxPenalty)
	o.skip = o.penalty
}

var _ store.WriteTx = (*writeTx)(nil)

// writeTx is a transaction for one group.
type writeTx struct {
	*tx
	s      *Store
	server server
	first  bool // not a replay
}

// Insert adds the rows with one statement (or some, where they are too large for one), or none. Keys that may exist are
// tried only where the server can refuse a locked one without waiting, which is MariaDB.
func (w *writeTx) Insert(ctx context.Context, rows []*clock.Alarm, absent bool) ([]int64, error) {
	if optimistic := w.server.maria && w.first; !absent && (!optimistic || !w.s.insert.allow()) {
		return nil, store.ErrKeyExists
	}
	ids := make([]int64, 0, len(rows))
	size := func(i int) int { return sizeOf(rows[i]) }
	err := chunks(len(rows), w.server.maxStatement(), size, func(from, to int) error {
		id, err := w.insertRows(ctx, rows[from:to], absent)
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
		w.s.insert.learn(refused)
	}
	switch {
	case refused && len(ids) > 0:
		return nil, store.ErrReplay // a statement before it has inserted its rows
	case refused:
		return nil, store.ErrKeyExists
	}
	return ids, err
}

// insertRows adds the rows and returns the id of the first. InnoDB gives the rows of an INSERT whose count it knows
// consecutive ids, in steps of auto_increment_increment, whatever the innodb_autoinc_lock_mode. Should that ever not hold, a
// wrong id does no harm: it is offered to the heap only, and a claim looks again what it takes.
func (w *writeTx) insertRows(ctx context.Context, rows []*clock.Alarm, absent bool) (int64, error) {
	args := make([]any, 0, len(rows)*20)
	for _, a := range rows {
		args = appendInserted(args, a)
	}
	b := bulk{DBTX: w.tx, part: alarmTuple, rows: len(rows), args: args}
	if !absent {
		b.prefix = lockWait(0)
	}
	result, err := w.s.q.InsertAlarms(ctx, b, dbsqlc.InsertAlarmsParams{})
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// appendInserted adds the arguments of InsertAlarms.
func appendInserted(args []any, a *clock.Alarm) []any {
	return append(args, a.Application, a.BusinessID, int64(a.Shard), int64(a.State), a.Generation, bytesOf(a.Payload), int64(a.PayloadKind),
		a.ContentType, int64(a.RingAt), null(a.LatestRingAt), null(a.NextTryTime), a.Retry.Encode(), a.AckTimeout.Milliseconds(),
		int64(a.MaxRings), int64(a.Priority), a.Traceparent, int64(a.CreateTime), int64(a.UpdateTime),
		int64(a.Delivery), int64(store.Rank(a.Priority)))
}

// lockWait makes MariaDB wait at most that many seconds for the locks of the statement that follows; 0: not at all.
func lockWait(seconds int) string {
	return "SET STATEMENT innodb_lock_wait_timeout = " + strconv.Itoa(seconds) + " FOR "
}

func compareKeys(a, b clock.Key) int {
	if c := strings.Compare(a.Application, b.Application); c != 0 {
		return c
	}
	return strings.Compare(a.BusinessID, b.BusinessID)
}

// sizeOf returns how many bytes of a statement the row takes at most: every byte of text may be escaped with another.
func sizeOf(a *clock.Alarm) int {
	const numbers = 400
	return numbers + 2*(len(a.Application)+len(a.BusinessID)+len(a.Payload)+len(a.ContentType)+len(a.LastError)+len(a.Traceparent))
}

// Cancel leaves all to Lock: no UPDATE here tells which rows it met, and their ids cost what the lock does.
func (w *writeTx) Cancel(context.Context, []clock.Key, clock.Instant, bool) ([]clock.Alarm, error) {
	return nil, nil
}

// Lock returns the free rows of the keys, locked (LockAlarms, LockAlarmsBriefly, LockAlarmsWaiting).
func (w *writeTx) Lock(ctx context.Context, keys []clock.Key, wait time.Duration, briefly bool) ([]clock.Alarm, error) {
	if wait > 0 {
		rows, err := w.lockWaiting(ctx, keys, int((wait+time.Second-1)/time.Second))
		if !isNumber(err, errLockTimeout) {
			return rows, err
		}
	}
	if briefly {
		return readKeys(ctx, w, keys, "", w.s.q.LockAlarmsBriefly, briefAlarmsOf)
	}
	return w.readKeys(ctx, keys, "", w.s.q.LockAlarms)
}

// lockWaiting waits for locked rows, in whole seconds, as the server counts them.
func (w *writeTx) lockWaiting(ctx context.Context, keys []clock.Key, seconds int) ([]clock.Alarm, error) {
	if w.server.maria {
		return w.readKeys(ctx, keys, lockWait(seconds), w.s.q.LockAlarmsWaiting)
	}
	if err := w.setLockWait(ctx, seconds); err != nil {
		return nil, err
	}
	rows, err := w.readKeys(ctx, keys, "", w.s.q.LockAlarmsWaiting)
	if reset := w.setLockWait(context.WithoutCancel(ctx), 1); reset != nil {
		w.discard()
	}
	return rows, err
}

// setLockWait is what MySQL has in place of SET STATEMENT.
func (w *writeTx) setLockWait(ctx context.Context, seconds int) error {
	_, err := w.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = "+strconv.Itoa(seconds))
	return err
}

// Read returns the rows of the keys as last committed (ReadAlarms).
func (w *writeTx) Read(ctx context.Context, keys []clock.Key) ([]clock.Alarm, error) {
	return w.readKeys(ctx, keys, "", w.s.q.ReadAlarms)
}

// readRows is a query of key pairs.
type readRows[R any] func(ctx context.Context, db dbsqlc.DBTX) ([]R, error)

func (w *writeTx) readKeys(ctx context.Context, keys []clock.Key, prefix string, query readRows[dbsqlc.Alarm]) ([]clock.Alarm, error) {
	return readKeys(ctx, w, keys, prefix, query, alarmsOf)
}

// readKeys runs a query of key pairs, and returns its rows in the words of the domain.
func readKeys[R any](
	ctx context.Context, w *writeTx, keys []clock.Key, prefix string, query readRows[R], alarmsOf func([]R) ([]clock.Alarm, error),
) ([]clock.Alarm, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareKeys)
	rows := make([]R, 0, len(keys))
	size := func(int) int { return 2 * (clock.MaxApplication + clock.MaxBusinessID) }
	err := chunks(len(keys), w.server.maxStatement(), size, func(from, to int) error {
		found, err := query(ctx, bulk{DBTX: w.tx, part: keyPair, rows: to - from, args: keyArgs(keys[from:to]), prefix: prefix})
		rows = append(rows, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return alarmsOf(rows)
}

// keyArgs returns keys as the arguments of pairs.
func keyArgs(keys []clock.Key) []any {
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.Application, k.BusinessID)
	}
	return args
}
