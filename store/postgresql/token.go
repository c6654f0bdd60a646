package postgresql

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadTokenCounter reads the number of changes of all tokens (ReadTokenCounter).
func (d *Driver) ReadTokenCounter(ctx context.Context) (int64, error) {
	return d.q.ReadTokenCounter(ctx, d.leases)
}

// ReadAllTokens reads all tokens (ListTokens).
func (d *Driver) ReadAllTokens(ctx context.Context) ([]engine.TokenRow, error) {
	rows, err := d.q.ListTokens(ctx, d.leases)
	return engine.Column(rows, func(r *dbsqlc.AccessToken) engine.TokenRow { return engine.TokenRow(*r) }), err
}

// tokenTx is a transaction that changes tokens.
type tokenTx struct{ *changeTx }

// BeginTokens begins a transaction that changes tokens.
func (d *Driver) BeginTokens(ctx context.Context) (engine.TokenTx, error) {
	t, err := d.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	return &tokenTx{t}, nil
}

// CountTokenChange counts the change (CountTokenChange).
func (t *tokenTx) CountTokenChange(ctx context.Context) (int64, error) {
	return t.q.CountTokenChange(ctx, t.tx)
}

// ReadToken reads the token (GetToken).
func (t *tokenTx) ReadToken(ctx context.Context, id string) (engine.TokenRow, error) {
	row, err := t.q.GetToken(ctx, t.tx, id)
	return engine.TokenRow(row), err
}

// AddToken inserts the row (AddToken).
func (t *tokenTx) AddToken(ctx context.Context, row *engine.TokenRow) error {
	return t.q.AddToken(ctx, t.tx, dbsqlc.AddTokenParams(*row))
}

// UpdateToken writes the secrets and the end of the row (UpdateToken).
func (t *tokenTx) UpdateToken(ctx context.Context, row *engine.TokenRow) error {
	return t.q.UpdateToken(ctx, t.tx, dbsqlc.UpdateTokenParams{
		ID: row.ID, Secret: row.Secret, OldSecret: row.OldSecret, OldSecretUntil: row.OldSecretUntil,
		RevokedAt: row.RevokedAt,
	})
}

// OpenSessions reads the ids of the open sessions of the parent and the maker (ListSessions).
func (t *tokenTx) OpenSessions(ctx context.Context, parentID, maker string) ([]string, error) {
	return t.q.ListSessions(ctx, t.tx, dbsqlc.ListSessionsParams{ParentID: parentID, CreatedBy: maker})
}

// DeleteSessions deletes the ended sessions (DeleteSessions).
func (t *tokenTx) DeleteSessions(ctx context.Context, at clock.Instant) error {
	return t.q.DeleteSessions(ctx, t.tx, sql.NullInt64{Int64: int64(at), Valid: true})
}

// UseToken writes the last use (UseToken).
func (t *tokenTx) UseToken(ctx context.Context, id string, at clock.Instant) error {
	return t.q.UseToken(ctx, t.tx, dbsqlc.UseTokenParams{ID: id, At: int64(at)})
}
