package mysql

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// PutRepeating notes the alarms (PutRepeating).
func (w *writeTx) PutRepeating(ctx context.Context, alarms []engine.AlarmKey) error {
	return w.d.inChunks(len(alarms), func(from, to int) error {
		args := make([]any, 0, 3*(to-from))
		for _, a := range alarms[from:to] {
			args = append(args, a.AlarmID, a.Application, a.BusinessID)
		}
		return w.d.q.PutRepeating(ctx, bulk{DBTX: w.tx, rows: to - from, args: args}, dbsqlc.PutRepeatingParams{})
	})
}

// ReadNextRepeatingApplication reads the next name (NextRepeatingApplication).
func (d *Driver) ReadNextRepeatingApplication(ctx context.Context, after string) (string, error) {
	return d.q.NextRepeatingApplication(ctx, d.reads, after)
}

// ReadRules reads rules (ListRules).
func (d *Driver) ReadRules(ctx context.Context, application string, limit int) ([]engine.RuleRow, error) {
	rows, err := d.q.ListRules(ctx, d.reads, dbsqlc.ListRulesParams{Application: application, Limit: int32(limit)})
	return engine.Column(rows, func(r *dbsqlc.ListRulesRow) engine.RuleRow { return engine.RuleRow(*r) }), err
}

// CountRepeating counts repeating alarms (CountRepeating).
func (d *Driver) CountRepeating(ctx context.Context, application string, limit int) (int64, error) {
	return d.q.CountRepeating(ctx, d.reads, dbsqlc.CountRepeatingParams{Application: application, Limit: int32(limit)})
}
