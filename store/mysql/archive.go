package mysql

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

func init() { engine.AllColumns[engine.Row, dbsqlc.RestoreAlarmsParams]("ID") }

// Restore inserts the rows, in statements that the server accepts (RestoreAlarms, NoteAttention).
func (w *writeTx) Restore(ctx context.Context, rows []*engine.Row) ([]int64, error) {
	ids := make([]int64, 0, len(rows))
	size := func(i int) int {
		r := rows[i]
		return 1200 + 2*(len(r.Payload)+len(r.BusinessID)+len(r.LastError)+len(r.AnsweredBy)+len(r.RepeatRule)+
			len(r.PastGenerations))
	}
	err := chunks(len(rows), w.server.maxStatement(), size, func(from, to int) error {
		args := restoreArgs.Of(to-from, func(i int, row *engine.Row) { *row = *rows[from+i] })
		b := bulk{DBTX: w.tx, rows: to - from, args: args, insert: true}
		result, err := w.d.q.RestoreAlarms(ctx, b, dbsqlc.RestoreAlarmsParams{Build: store.BuildLevel()})
		switch {
		case hasNumber(err, errNull): // only the guarded value can be NULL
			return fmt.Errorf("%w: %w", store.ErrOldBuild, err)
		case hasNumber(err, errDuplicateKey):
			return engine.ErrReplay
		case err != nil:
			return err
		}
		id, err := result.LastInsertId()
		for range to - from {
			ids = append(ids, id)
			id += w.server.idStep
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var waiting []int64
	for i := range rows {
		if clock.State(rows[i].State).Attention() {
			waiting = append(waiting, ids[i])
		}
	}
	return ids, w.d.noteAttention(ctx, w.tx, waiting)
}

// AddAttempts adds attempts.
func (w *writeTx) AddAttempts(ctx context.Context, attempts []store.AlarmAttempt) error {
	return w.d.addAttempts(ctx, w.tx, attempts)
}

// The statements that begin a snapshot. The transaction is idle while its reader writes a file, so no limit may end it.
var beginSnapshot = []string{
	"SET SESSION net_write_timeout = 600, wait_timeout = 28800 /*M!100300 , idle_transaction_timeout = 0 */ /*T! , tidb_idle_transaction_timeout = 0 */",
	"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	"START TRANSACTION WITH CONSISTENT SNAPSHOT",
}

// snapshot is a transaction at REPEATABLE READ.
type snapshot struct {
	*tx
	q *dbsqlc.Queries
}

// BeginSnapshot begins a transaction. It begins the snapshot at once.
func (d *Driver) BeginSnapshot(ctx context.Context) (engine.Snapshot, error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a connection: %w", err)
	}
	s := &snapshot{&tx{conn}, d.q}
	for _, statement := range beginSnapshot {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			s.End(ctx)
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
	return s, nil
}

// ReadRows reads a page (ListArchive).
func (s *snapshot) ReadRows(ctx context.Context, after int64, limit int, take func(*engine.Row) bool) error {
	rows, err := s.QueryContext(ctx, dbsqlc.ListArchive, after, limit) //nolint:rowserrcheck // EachRow returns it
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return engine.EachRow(ctx, rows, take)
}

// ReadAttempts reads the attempts of alarms (ListAttemptsOf).
func (s *snapshot) ReadAttempts(ctx context.Context, ids []int64) ([]engine.AttemptRow, error) {
	rows, err := s.q.ListAttemptsOf(ctx, s, ids)
	return engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// ReadAllSettings reads the current settings of all applications (ListSettings).
func (s *snapshot) ReadAllSettings(ctx context.Context) ([]engine.SettingRow, error) {
	rows, err := s.q.ListSettings(ctx, s)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSetting) engine.SettingRow { return engine.SettingRow(*r) }), err
}

// End closes the connection, because its session has other settings than the pool's.
func (s *snapshot) End(context.Context) {
	s.discard()
	_ = s.Close()
}
