package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/store"
)

// TokenRow is a row of the table access_token. The row types of each engine's generated code convert to it.
type TokenRow struct {
	ID             string
	Name           string
	Role           string
	Applications   string
	Secret         string
	OldSecret      string
	OldSecretUntil sql.NullInt64
	CreatedAt      int64
	CreatedBy      string
	ExpiresAt      sql.NullInt64
	RevokedAt      sql.NullInt64
	LastUsedAt     sql.NullInt64
	ParentID       string
	ParentSecret   string
	SessionSecret  string
}

// tokenRow returns the row of a token. A session has its secret in a column of its own, so that builds without sessions
// do not take it for a token.
func tokenRow(t *access.Token) TokenRow {
	row := TokenRow{
		ID: t.ID, Name: t.Name, Role: t.Role.String(), Applications: t.Applications.String(), Secret: t.Secret.Encode(),
		OldSecret: t.OldSecret.Encode(), OldSecretUntil: ToNull(t.OldSecretUntil), CreatedAt: int64(t.CreatedAt),
		CreatedBy: t.CreatedBy,
		ExpiresAt: ToNull(t.ExpiresAt), RevokedAt: ToNull(t.RevokedAt), LastUsedAt: ToNull(t.LastUsedAt),
		ParentID: t.ParentID, ParentSecret: t.ParentSecret.Encode(),
	}
	if t.IsSession() {
		row.Secret, row.SessionSecret = "", row.Secret
	}
	return row
}

// tokenState returns what an act says of a token. It has no secret.
func tokenState(t *access.Token) string {
	subject := ""
	if t.ParentID == access.ParentProvider {
		subject = t.CreatedBy
	}
	return clock.ActJSON(struct {
		Name           string              `json:"name"`
		Role           string              `json:"role"`
		Applications   access.Applications `json:"applications"`
		ExpiresAt      clock.Instant       `json:"expires_at"`
		OldSecretUntil clock.Instant       `json:"old_secret_until"`
		RevokedAt      clock.Instant       `json:"revoked_at"`
		SessionOf      string              `json:"session_of,omitempty"`
		Subject        string              `json:"subject,omitempty"`
	}{t.Name, t.Role.String(), t.Applications, t.ExpiresAt, t.OldSecretUntil, t.RevokedAt, t.ParentID, subject})
}

// token returns the token of the row. Columns that cannot be read are empty in it, and Unreadable says why.
func (r *TokenRow) token() access.Token {
	t := access.Token{
		ID: r.ID, Name: r.Name, OldSecretUntil: FromNull(r.OldSecretUntil), CreatedAt: clock.Instant(r.CreatedAt),
		CreatedBy: r.CreatedBy,
		ExpiresAt: FromNull(r.ExpiresAt), RevokedAt: FromNull(r.RevokedAt), LastUsedAt: FromNull(r.LastUsedAt),
		ParentID: r.ParentID,
	}
	var errs [5]error
	t.Role, errs[0] = access.ParseRole(r.Role)
	t.Applications, errs[1] = access.ParseApplications(r.Applications)
	secret := r.Secret
	if t.IsSession() {
		secret = r.SessionSecret
	}
	t.Secret, errs[2] = access.ParseHash(secret)
	t.OldSecret, errs[3] = access.ParseHash(r.OldSecret)
	t.ParentSecret, errs[4] = access.ParseHash(r.ParentSecret)
	t.Unreadable = errors.Join(errs[:]...)
	return t
}

// errNoTokenCounter says that the counter's row was deleted. Without it, no node would notice a revocation.
var errNoTokenCounter = errors.New("the table access_token_counter has no row: insert (1, 0)")

// errNoSession rolls back the end of a session that is a token, or has ended.
var errNoSession = errors.New("the token is no open session")

// errTokenExists rolls back AddToken.
var errTokenExists = errors.New("a token with this id exists")

// TokenChanges returns the number of changes of all tokens.
func (s *Store) TokenChanges(ctx context.Context) (changes int64, err error) {
	err = s.call(ctx, "read the counter of tokens", func(ctx context.Context) (err error) {
		changes, err = s.driver.ReadTokenCounter(ctx)
		return err
	})
	return changes, err
}

// AllTokens returns all tokens.
func (s *Store) AllTokens(ctx context.Context) (all []access.Token, err error) {
	err = s.call(ctx, "read all tokens", func(ctx context.Context) error {
		rows, err := s.driver.ReadAllTokens(ctx)
		all = Column(rows, (*TokenRow).token)
		return err
	})
	return all, err
}

// AddToken adds a token, unless its id exists. Its maker is the actor.
func (s *Store) AddToken(ctx context.Context, t *access.Token) (added bool, err error) {
	err = s.changeTokens(ctx, "add a token", func(ctx context.Context, tx TokenTx) error {
		switch _, err := tx.ReadToken(ctx, t.ID); {
		case err == nil:
			return errTokenExists
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		row := tokenRow(t)
		if err := tx.AddToken(ctx, &row); err != nil {
			return err
		}
		return addActs(ctx, tx, clock.Act{
			At: t.CreatedAt, Actor: clock.Actor{Name: t.CreatedBy}, Action: "token_create", Subject: t.ID,
			After: tokenState(t),
		})
	})
	if errors.Is(err, errTokenExists) {
		return false, nil
	}
	return err == nil, err
}

// ChangeToken changes a token.
func (s *Store) ChangeToken(ctx context.Context, id string, change store.TokenChange) (t access.Token, err error) {
	err = s.changeTokens(ctx, "change a token", func(ctx context.Context, tx TokenTx) (err error) {
		t, err = changeToken(ctx, tx, id, change)
		return err
	})
	if err != nil {
		return access.Token{}, err
	}
	return t, nil
}

// changeToken changes a token in a transaction.
func changeToken(ctx context.Context, tx TokenTx, id string, change store.TokenChange) (access.Token, error) {
	row, err := tx.ReadToken(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return access.Token{}, unknownToken(id)
	}
	if err != nil {
		return access.Token{}, err
	}
	t := row.token()
	before := tokenState(&t)
	if err := change.Change(&t); err != nil {
		return access.Token{}, refusedTokenChange(err)
	}
	row = tokenRow(&t)
	if err := tx.UpdateToken(ctx, &row); err != nil {
		return access.Token{}, err
	}
	err = addActs(ctx, tx, clock.Act{
		At: change.At, Actor: change.By, Action: change.Action, Subject: id, Before: before, After: tokenState(&t),
	})
	return t, err
}

// AddSession adds a session, deletes the ended ones, and ends the oldest ones beyond the most.
func (s *Store) AddSession(ctx context.Context, session *access.Token, most int, by clock.Actor) error {
	return s.changeTokens(ctx, "add a session", func(ctx context.Context, tx TokenTx) error {
		if err := checkParent(ctx, tx, session); err != nil {
			return err
		}
		row := tokenRow(session)
		if err := errors.Join(tx.DeleteSessions(ctx, session.CreatedAt), tx.AddToken(ctx, &row)); err != nil {
			return err
		}
		err := addActs(ctx, tx, clock.Act{
			At: session.CreatedAt, Actor: by, Action: "session_start", Subject: session.ID, After: tokenState(session),
		})
		if err != nil {
			return err
		}
		open, err := tx.OpenSessions(ctx, session.ParentID, session.CreatedBy)
		if err != nil {
			return err
		}
		for _, id := range open[:max(0, len(open)-most)] {
			if err := endSession(ctx, tx, id, session.CreatedAt, by); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkParent returns access.ErrParentEnded if the token of the session has ended meanwhile.
func checkParent(ctx context.Context, tx TokenTx, session *access.Token) error {
	if session.ParentID == access.ParentProvider {
		return nil
	}
	row, err := tx.ReadToken(ctx, session.ParentID)
	switch parent := row.token(); {
	case errors.Is(err, sql.ErrNoRows):
		return access.ErrParentEnded
	case err != nil:
		return err
	case parent.Check(session.ParentSecret, session.CreatedAt) != nil:
		return access.ErrParentEnded
	}
	return nil
}

// EndSession ends a session.
func (s *Store) EndSession(ctx context.Context, id string, at clock.Instant, by clock.Actor) error {
	return s.changeTokens(ctx, "end a session", func(ctx context.Context, tx TokenTx) error {
		return endSession(ctx, tx, id, at, by)
	})
}

func endSession(ctx context.Context, tx TokenTx, id string, at clock.Instant, by clock.Actor) error {
	end := func(t *access.Token) error {
		if !t.IsSession() || t.RevokedAt != clock.NoInstant {
			return errNoSession
		}
		t.Revoke(at)
		return nil
	}
	_, err := changeToken(ctx, tx, id, store.TokenChange{Action: "session_end", At: at, By: by, Change: end})
	if errors.Is(err, errNoSession) {
		return unknownToken(id)
	}
	return err
}

// UseTokens writes the last uses of tokens, in the order of the ids.
func (s *Store) UseTokens(ctx context.Context, uses []access.Use) error {
	sorted := slices.SortedFunc(slices.Values(uses), func(a, b access.Use) int { return cmp.Compare(a.ID, b.ID) })
	return s.replayed(ctx, "write the last uses of tokens", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginTokens, func(tx TokenTx) error {
			for _, u := range sorted {
				if err := tx.UseToken(ctx, u.ID, u.At); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// changeTokens counts a change, and makes it in the same transaction.
func (s *Store) changeTokens(
	ctx context.Context, doing string, change func(ctx context.Context, tx TokenTx) error,
) error {
	return s.replayed(ctx, doing, func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginTokens, func(tx TokenTx) error {
			counted, err := tx.CountTokenChange(ctx)
			if err != nil {
				return err
			}
			if counted != 1 {
				return errNoTokenCounter
			}
			return change(ctx, tx)
		})
	})
}

// unknownToken is the error for an id without a token, or without a session.
func unknownToken(id string) error {
	return &clock.Error{Kind: clock.ErrNotFound, Code: clock.CodeUnknownToken,
		Detail: fmt.Sprintf("there is no such token or session: %q", id)}
}

// refusedTokenChange is the error of a change that the token does not allow.
func refusedTokenChange(err error) error {
	return &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeTokenUnchanged, Detail: "the token stays as it is",
		Cause: err}
}
