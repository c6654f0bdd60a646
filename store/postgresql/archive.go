package postgresql

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

func init() {
	engine.AllColumns[engine.Row, dbsqlc.RestoreAlarmsParams]("ID")
	engine.AllColumns[engine.Row, citussqlc.RestoreAlarmsParams]()
}

// Restore inserts the rows (RestoreAlarms).
func (t *writeTx) Restore(ctx context.Context, rows []*engine.Row) ([]int64, error) {
	read := func(i int, row, _ *engine.Row) { *row = *rows[i] }
	if t.shards == nil {
		return t.q.RestoreAlarms(ctx, t, restoreArrays.Of(len(rows), read))
	}
	if _, err := t.d.distributed.RestoreAlarms(ctx, t, distributedRestoreArrays.Of(len(rows), read)); err != nil {
		return nil, err
	}
	return engine.Column(rows, func(row **engine.Row) int64 { return (*row).ID }), nil
}

// AddAttempts adds attempts.
func (t *writeTx) AddAttempts(ctx context.Context, attempts []store.AlarmAttempt) error {
	return t.d.addAttempts(ctx, t.tx, attempts)
}

// sqlBeginSnapshot begins the transaction of a snapshot. It is idle while its reader writes a file.
const sqlBeginSnapshot = "begin isolation level repeatable read read only; set local idle_in_transaction_session_timeout = 0"

// snapshot is a transaction at REPEATABLE READ. In a distributed database each server has a moment of its own.
type snapshot struct {
	conn *pgxpool.Conn
	q    *dbsqlc.Queries
}

// BeginSnapshot begins a transaction. Its first read fixes the moment.
func (d *Driver) BeginSnapshot(ctx context.Context) (engine.Snapshot, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn, d.q}
	if _, err := conn.Exec(ctx, sqlBeginSnapshot, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.End(ctx)
		return nil, err
	}
	return s, nil
}

// ReadRows reads a page (ListArchive).
func (s *snapshot) ReadRows(ctx context.Context, after int64, limit int, take func(*engine.Row) bool) error {
	rows, err := s.conn.Query(ctx, dbsqlc.ListArchive, after, int32(limit))
	if err != nil {
		return err
	}
	defer rows.Close()
	return engine.EachRow(ctx, rows, take)
}

// ReadAttempts reads the attempts of alarms (ListAttemptsOf).
func (s *snapshot) ReadAttempts(ctx context.Context, ids []int64) ([]engine.AttemptRow, error) {
	rows, err := s.q.ListAttemptsOf(ctx, s.conn, ids)
	return engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// ReadAllSettings reads the current settings of all applications (ListSettings).
func (s *snapshot) ReadAllSettings(ctx context.Context) ([]engine.SettingRow, error) {
	rows, err := s.q.ListSettings(ctx, s.conn)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSetting) engine.SettingRow { return engine.SettingRow(*r) }), err
}

// End ends the transaction. The pool destroys a connection whose transaction does not end.
func (s *snapshot) End(ctx context.Context) {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if !s.conn.Conn().IsClosed() {
		_, _ = s.conn.Exec(ctx, sqlRollback)
	}
	s.conn.Release()
}
