package sqlite

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// PutRepeating does nothing: the index alarm_repeating has the alarms.
func (t *groupTx) PutRepeating(context.Context, []engine.AlarmKey) error { return nil }

// ReadNextRepeatingApplication reads the next name (NextRepeatingApplication).
func (d *Driver) ReadNextRepeatingApplication(ctx context.Context, after string) (string, error) {
	return d.q.NextRepeatingApplication(ctx, d.reads, after)
}

// ReadRules reads rules (ListRules).
func (d *Driver) ReadRules(ctx context.Context, application string, limit int) ([]engine.RuleRow, error) {
	rows, err := d.q.ListRules(ctx, d.reads, dbsqlc.ListRulesParams{Application: application, RowLimit: int64(limit)})
	return engine.Column(rows, func(r *dbsqlc.ListRulesRow) engine.RuleRow { return engine.RuleRow(*r) }), err
}

// CountRepeating counts repeating alarms (CountRepeating).
func (d *Driver) CountRepeating(ctx context.Context, application string, limit int) (int64, error) {
	return d.q.CountRepeating(ctx, d.reads, dbsqlc.CountRepeatingParams{Application: application, RowLimit: int64(limit)})
}
